import { useMemo, useSyncExternalStore } from 'react';
import type { Operation } from './outbox/operation.ts';
import type { Outbox } from './outbox/outbox.ts';
import type { OutboxStatus } from './outbox/outbox-status.ts';

/** What a page shows of an outbox: how many wait and failed, whether it is paused, and why. */
export function useOutbox({ status }: Outbox): OutboxStatus {
  return useSyncExternalStore(status.subscribe, status.getSnapshot, status.getSnapshot);
}

/** One operation as it stands. `undefined`: not read yet; `null`: there is none, or it was cancelled. */
export function useOperation(outbox: Outbox, id: string): Operation | null | undefined {
  const { subscribe, getSnapshot } = useMemo(() => operationStore(outbox, id), [outbox, id]);
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}

function operationStore(outbox: Outbox, id: string) {
  let current: Operation | null | undefined;
  return {
    getSnapshot: () => current,
    subscribe(listener: () => void): () => void {
      let reads = 0;
      const refresh = async () => {
        reads += 1;
        const turn = reads;
        // A storage that fails shows what it showed last.
        const found = await outbox.find(id).catch(() => current);
        if (turn !== reads || (current !== undefined && found?.version === current?.version))
          return;
        current = found;
        listener();
      };
      const unlisten = outbox.subscribe((event) => {
        if (!('id' in event) || event.id === id || event.id === null) void refresh();
      });
      void refresh();
      return () => {
        reads += 1;
        unlisten();
      };
    },
  };
}

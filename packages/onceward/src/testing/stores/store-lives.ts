import { expect } from 'vitest';
import type { Revision } from '../../engine/record.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { DoesNotConcern, type OpenedStore } from './store-law.ts';
import { collect, ID, record, win } from './store-probe.ts';

/** The laws about closing, dying and opening again. */
export async function survivesReopen(opened: OpenedStore): Promise<void> {
  assertDurable(opened.store);
  return surviveLives(opened, opened.reopen);
}

export async function survivesKill(opened: OpenedStore): Promise<void> {
  assertDurable(opened.store);
  return surviveLives(opened, opened.kill);
}

function assertDurable({ traits }: RecordStore): void {
  if (traits.durability !== 'none') return;
  throw new DoesNotConcern('the store says that its records end with the process');
}

async function surviveLives(
  opened: OpenedStore,
  again: (() => Promise<RecordStore>) | undefined,
): Promise<void> {
  if (!again) throw new Error('A durable store must say how to open it again, or skip this law.');
  let { store } = opened;
  const expected = new Map<string, { revision: Revision; text: string }>();
  for (let life = 0; life < 3; life++) {
    for (let index = 0; index < 20; index++) {
      const key = `${life}-${index}`;
      const id = { scope: 'lives', key };
      const claimed = await win(store.swap(id, null, record('claimed')));
      if (index % 4 === 0) {
        expected.set(key, { revision: claimed, text: 'claimed' });
        continue;
      }
      const text = `settled ${key}`;
      const settled = await win(store.swap(id, claimed, record(text, { state: 'committed' })));
      if (index % 4 === 1) await win(store.swap(id, settled, null));
      else expected.set(key, { revision: settled, text });
    }
    const before = await store.count();
    store = await again.call(opened);
    expect(await store.count()).toEqual(before);
    const scanned = await collect(store, { limit: 1_000 });
    const found = scanned.map(({ id, revision, bytes }) => [
      id.key,
      { revision, text: new TextDecoder().decode(bytes) },
    ]);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected));
    expect(await store.read({ scope: 'lives', key: `${life}-1` })).toBeNull();
  }
}

export async function closedRefuses({ store }: OpenedStore): Promise<void> {
  await win(store.swap(ID, null, record('first')));
  await store.close();
  await store.close();
  const coded = { code: expect.stringMatching(/^ONCE_/) };
  await expect(store.read(ID)).rejects.toMatchObject(coded);
  await expect(store.swap(ID, null, record('late'))).rejects.toMatchObject(coded);
  await expect(store.count()).rejects.toMatchObject(coded);
}
export async function revisionsRise(opened: OpenedStore): Promise<void> {
  let { store } = opened;
  const issued: Revision[] = [];
  const passThrough = async (key: string) => {
    const id = { scope: 'rising', key };
    const claimed = await win(store.swap(id, null, record('claimed')));
    const settled = await win(store.swap(id, claimed, record('settled', { state: 'committed' })));
    const forgotten = await win(store.swap(id, settled, null));
    issued.push(claimed, settled, forgotten);
  };
  for (let round = 0; round < 5; round++) await passThrough('same');
  await passThrough('other');
  if (opened.reopen) {
    for (let life = 0; life < 3; life++) {
      store = await opened.reopen();
      const { firstRevisionOfLife } = store.traits;
      if (firstRevisionOfLife !== null) {
        expect(firstRevisionOfLife).toBeGreaterThan(issued.at(-1) as Revision);
      }
      await passThrough('same');
    }
  }
  for (const [index, revision] of issued.entries()) {
    expect(Number.isSafeInteger(revision)).toBe(true);
    expect(revision).toBeGreaterThan(issued[index - 1] ?? 0);
  }
}

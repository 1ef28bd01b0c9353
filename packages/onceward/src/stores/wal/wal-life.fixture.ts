import { OncewardError } from '../../engine/errors.ts';
import { openWalStore } from './open-wal-store.ts';

/**
 * A process that opens the store of the folder it is given, says so, and writes until it is killed. Each
 * acknowledged swap is one line: key, revision, text.
 */
const [directory = '', life = ''] = process.argv.slice(2);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function writeForEver(): Promise<void> {
  const store = await openWalStore({ directory, segmentBytes: 256 * 1_024 });
  say(`open ${store.traits.firstRevisionOfLife}`);
  let next = 0;
  const write = async () => {
    for (;;) {
      const key = `${life}-${next++}`;
      const id = { scope: 'killed', key };
      const claim = { bytes: Buffer.from('claimed'), state: 'pending', dueAt: null } as const;
      const claimed = await store.swap(id, null, claim);
      if (!claimed.won) throw new Error(`${key} was not claimed and yet lost.`);
      say(`${key} ${claimed.revision} claimed`);
      const text = `settled-${key}`;
      const outcome = { bytes: Buffer.from(text), state: 'committed', dueAt: 1 } as const;
      const settled = await store.swap(id, claimed.revision, outcome);
      if (!settled.won) throw new Error(`${key} was ours and yet lost.`);
      say(`${key} ${settled.revision} ${text}`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, write));
}

writeForEver().catch((error: unknown) => {
  say(`refused ${error instanceof OncewardError ? error.code : String(error)}`);
  process.exitCode = 1;
});

import fc from 'fast-check';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { RecordStore, SwapResult } from '../../engine/record-store.ts';

/** Random histories of swaps, checked against what any right store must have answered. */
const STATES = ['pending', 'committed', 'rejected', 'in_doubt'] as const;

interface Step {
  readonly key: number;
  /** What the caller believes: right, absent, or out of date. */
  readonly belief: 'current' | 'absent' | 'stale';
  readonly forgets: boolean;
  readonly bytes: Uint8Array;
  readonly state: (typeof STATES)[number];
}

const step: fc.Arbitrary<Step> = fc.record({
  key: fc.nat(3),
  belief: fc.constantFrom('current', 'current', 'current', 'absent', 'stale'),
  forgets: fc.boolean(),
  bytes: fc.uint8Array({ maxLength: 40 }),
  state: fc.constantFrom(...STATES),
});

let histories = 0;

export async function checkSequentialHistories(store: RecordStore, runs: number): Promise<void> {
  const property = fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
    const scope = `sequential-${histories++}`;
    const model = new Map<string, { revision: Revision; bytes: Uint8Array; seen: Revision }>();
    let highest = 0;
    for (const one of steps) {
      const id = { scope, key: `key-${one.key}` };
      const kept = model.get(id.key);
      const expected = believed(one, kept?.revision ?? null, highest);
      const result = await store.swap(id, expected, nextOf(one));
      if ((kept?.revision ?? null) !== expected) {
        assertLost(result, kept ?? null);
      } else if (!result.won) {
        throw new Error(`A swap of ${id.key} lost although nothing had changed.`);
      } else {
        if (result.revision <= highest) throw new Error('A revision did not rise.');
        highest = result.revision;
        if (one.forgets) model.delete(id.key);
        else model.set(id.key, { revision: highest, bytes: one.bytes, seen: highest });
      }
      const stored = await store.read(id);
      assertSame(stored, model.get(id.key) ?? null);
    }
  });
  await fc.assert(property, { numRuns: runs });
}

function believed(one: Step, current: Revision | null, highest: Revision): Revision | null {
  if (one.belief === 'current') return current;
  return one.belief === 'absent' ? null : Math.max(1, highest - 1);
}

function nextOf(one: Step) {
  return one.forgets ? null : { bytes: one.bytes, state: one.state, dueAt: null };
}

interface Known {
  readonly revision: Revision;
  readonly bytes: Uint8Array;
}

function assertLost(result: SwapResult, current: Known | null): void {
  if (result.won) throw new Error('A swap won although its expectation was wrong.');
  assertSame(result.current, current);
}

function assertSame(stored: Known | null, known: Known | null): void {
  if (stored === null || known === null) {
    if (stored !== known) throw new Error('A record is absent here and present there.');
    return;
  }
  if (stored.revision !== known.revision) throw new Error('A record has another revision.');
  if (Buffer.compare(stored.bytes, known.bytes) !== 0) throw new Error('Bytes have changed.');
}

/**
 * Several clients work on the same few records at once. Each swap that won names the revision it replaced; for each
 * record these must form one chain without forks. Whatever a read or a lost swap showed must be a link of the chain,
 * and no client may see a record go back.
 */
export async function checkConcurrentHistories(store: RecordStore, runs: number): Promise<void> {
  const clients = fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), {
    minLength: 2,
    maxLength: 6,
  });
  const property = fc.asyncProperty(clients, async (programs) => {
    const scope = `concurrent-${histories++}`;
    const chains = new Map<string, Chain>();
    await Promise.all(programs.map((steps) => runClient(store, scope, steps, chains)));
    for (const [key, chain] of chains) await assertChain(store, { scope, key }, chain);
  });
  await fc.assert(property, { numRuns: runs });
}

interface Chain {
  readonly writes: { after: Revision | null; revision: Revision; bytes: Uint8Array | null }[];
  readonly seen: Known[];
}

async function runClient(
  store: RecordStore,
  scope: string,
  steps: readonly Step[],
  chains: Map<string, Chain>,
): Promise<void> {
  const lastSeen = new Map<string, Revision>();
  for (const one of steps) {
    const key = `key-${one.key}`;
    const chain = chains.get(key) ?? { writes: [], seen: [] };
    chains.set(key, chain);
    const current = await store.read({ scope, key });
    if (current) chain.seen.push(current);
    const expected = believed(one, current?.revision ?? null, current?.revision ?? 2);
    const result = await store.swap({ scope, key }, expected, nextOf(one));
    const shown = result.won ? result.revision : result.current?.revision;
    if (shown !== undefined) {
      if (shown < (lastSeen.get(key) ?? 0)) throw new Error(`${key} went back in time.`);
      lastSeen.set(key, shown);
    }
    if (result.won) {
      const bytes = one.forgets ? null : one.bytes;
      chain.writes.push({ after: expected, revision: result.revision, bytes });
    } else if (result.current) chain.seen.push(result.current);
  }
}

async function assertChain(store: RecordStore, id: OperationId, chain: Chain): Promise<void> {
  const writes = chain.writes.toSorted((a, b) => a.revision - b.revision);
  let current: Known | null = null;
  const links = new Map<Revision, Uint8Array>();
  for (const { after, revision, bytes } of writes) {
    const before: Revision | null = (current as Known | null)?.revision ?? null;
    if (after !== before) {
      throw new Error(`${id.key}: ${revision} replaced ${after}, but ${before} was there.`);
    }
    current = bytes === null ? null : { revision, bytes };
    if (bytes) links.set(revision, bytes);
  }
  for (const seen of chain.seen) {
    assertSame(seen, { revision: seen.revision, bytes: links.get(seen.revision) ?? EMPTY });
    if (!links.has(seen.revision))
      throw new Error(`${id.key}: ${seen.revision} was never written.`);
  }
  assertSame(await store.read(id), current);
}

const EMPTY = new Uint8Array(0);

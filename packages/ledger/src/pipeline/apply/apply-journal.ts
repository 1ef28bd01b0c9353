import { type Refusal, refuse } from '../../refusal.ts';
import type { JournalRequest } from '../../rules/request.ts';
import { transactionId } from '../../rules/transaction-id.ts';
import { hashKey, type KeyHash } from '../../state/key-hash.ts';
import type { Location } from '../../state/key-table.ts';
import type { KeyUse } from '../../state/key-window.ts';
import { KEY_EXPIRED, mayBeForgotten } from '../first-sent.ts';
import type { Machine } from '../machine.ts';
import { type Effect, effectsText, type Outcome } from '../outcome.ts';
import { post } from './post.ts';
import { transactionText } from './transaction-text.ts';

/** A batch of transactions: the second and third layers of duplicate detection, then each in turn. */
export function applyTransactions(
  machine: Machine,
  requests: readonly JournalRequest[],
  requestTexts: readonly string[],
  texts: string[],
): Outcome[] {
  const { hash_key } = machine.settings;
  const hashes = requests.map(({ credential, key }) => hashKey(hash_key, credential, key));
  const duplicates = findDuplicates(machine, requests, hashes);
  if (duplicates.size > 0 && undoesBatch(machine, duplicates)) {
    return requests.map((_, at) => ({
      did: 'refuse',
      refusal: duplicates.get(at) ?? ROLLED_BACK,
    }));
  }
  return requests.map((request, at) => {
    const refusal = duplicates.get(at);
    if (refusal !== undefined) return { did: 'refuse', refusal };
    const text = requestTexts[at] as string;
    return applyTransaction(machine, request, text, hashes[at] as KeyHash, texts);
  });
}

/** Only a key that is already committed does; one that is twice in the batch costs its second bearer alone. */
function undoesBatch({ settings }: Machine, duplicates: ReadonlyMap<number, Refusal>): boolean {
  if (settings.database_conflict !== 'rollback') return false;
  return [...duplicates.values()].some(({ layer }) => layer === 'database');
}

const ROLLED_BACK = refuse(
  'BATCH_ROLLED_BACK',
  'Another transaction of the same batch used a key that was already committed, so the whole batch was undone. ' +
    'Nothing of this transaction happened; send it again with the same key.',
);

const IN_BATCH = refuse(
  'DUPLICATE_IDEMPOTENCY_KEY',
  'An earlier transaction of the same batch has this idempotency key.',
  { layer: 'batch' },
);

function findDuplicates(
  machine: Machine,
  requests: readonly JournalRequest[],
  hashes: readonly KeyHash[],
): Map<number, Refusal> {
  const duplicates = new Map<number, Refusal>();
  const keys = new Set<string>();
  for (let at = 0; at < requests.length; at += 1) {
    const { key, first_sent } = requests[at] as JournalRequest;
    const used = findUse(machine, hashes[at] as KeyHash, machine.time);
    if (used !== undefined) duplicates.set(at, duplicateOf(used));
    else if (mayBeForgotten(machine, 'transactions', first_sent)) duplicates.set(at, KEY_EXPIRED);
    // Two credentials may well have one key; both are compared only if a key is there twice.
    else if (keys.has(key) && isRepeated(requests, at)) duplicates.set(at, IN_BATCH);
    keys.add(key);
  }
  return duplicates;
}

function isRepeated(requests: readonly JournalRequest[], at: number): boolean {
  const { credential, key } = requests[at] as JournalRequest;
  const first = requests.findIndex((other) => other.key === key && other.credential === credential);
  return first < at;
}

export function duplicateOf(location: Location): Refusal {
  return refuse(
    'DUPLICATE_IDEMPOTENCY_KEY',
    `This idempotency key belongs to transaction ${transactionId(location)}.`,
    { layer: 'database' },
  );
}

/** The transaction that used a key, if that was within the window as of `now`. */
export function findKey(
  machine: Machine,
  credential: string,
  key: string,
  now: number,
): KeyUse | undefined {
  return findUse(machine, hashKey(machine.settings.hash_key, credential, key), now);
}

/** A key is out of the window at the very millisecond. */
function findUse({ window, settings }: Machine, hash: KeyHash, now: number): KeyUse | undefined {
  return window.find(hash, now - settings.idempotency_ttl_ms + 1);
}

function applyTransaction(
  machine: Machine,
  request: JournalRequest,
  requestText: string,
  hash: KeyHash,
  texts: string[],
): Outcome {
  const position = texts.length;
  const { height } = machine;
  const mark = machine.mark();
  const effects: Effect[] = [];
  let refusal: Refusal | undefined;
  for (const entry of request.entries) {
    const result = post(machine, entry, { height, position, entry: entry.sequence });
    if ('ok' in result) {
      refusal = result;
      break;
    }
    effects.push(result);
  }
  const { idempotency_cleanup_ms } = machine.settings;
  machine.window.add(hash, machine.time, idempotency_cleanup_ms, { height, position });
  if (refusal !== undefined) {
    machine.undoTo(mark);
    const { code, message } = refusal;
    const result = `"status":"rejected","error":${JSON.stringify({ code, message })}`;
    texts.push(transactionText(height, position, requestText, result));
    return { did: 'reject', position, refusal };
  }
  const result = `"status":"committed","effects":${effectsText(effects)}`;
  texts.push(transactionText(height, position, requestText, result));
  return { did: 'post', position };
}

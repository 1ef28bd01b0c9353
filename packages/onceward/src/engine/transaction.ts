import { answerOf, packOutcome, refuse, replay } from './answer.ts';
import { decide } from './decide.ts';
import { OncewardError } from './errors.ts';
import { mayBeForgotten } from './first-sent.ts';
import { checkOutcome } from './input.ts';
import { NearAnswer } from './near-tier.ts';
import type { Attempt, Execution, Operation, Settlement } from './operation.ts';
import { callStore, type EngineParts, prepare, soundly, swapRecord, understand } from './parts.ts';
import type { PendingRecord, Revision, SettledRecord } from './record.ts';
import type { RecordStore, TransactionalStore } from './record-store.ts';
import { Rounds } from './rounds.ts';
import { claimRecord, doubtRecord, keepMsOf, settleRecord } from './transitions.ts';
import { SECOND } from './units.ts';

/** Runs `work` in one transaction of the caller's database: commits when it resolves, rolls back when it rejects. */
export type Transact<Tx> = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;

export type TransactionEffect<Tx> = (attempt: Attempt, tx: Tx) => Promise<Settlement>;

/**
 * Effect and record in one commit: both happened, or neither. The claim is made inside the transaction, so there
 * is no lease and nothing to take over; a second arrival waits in the database for the first to end.
 */
export async function executeInTransaction<Tx>(
  parts: EngineParts,
  store: TransactionalStore<Tx>,
  operation: Operation,
  transact: Transact<Tx>,
  effect: TransactionEffect<Tx>,
): Promise<Execution> {
  const { id } = operation;
  const known = parts.near.find(id, operation.fingerprint, parts.clock.retentionNow());
  if (known === 'mismatch') return refuse(parts, id, 'mismatch');
  if (known instanceof NearAnswer) return replay(parts, id, known, true);
  const owner = parts.nextOwner();
  const stop = new AbortController();
  let hasBegun = false;
  let done: Done | null = null;
  try {
    await parts.clock.ready();
    await transact(async (tx) => {
      const { signal } = stop;
      done = await runWithin(parts, store.within(tx), operation, owner, signal, (attempt) => {
        hasBegun = true;
        parts.observe({ type: 'claimed', id, attempt: attempt.number });
        return effect(attempt, tx);
      });
    });
  } catch (error) {
    stop.abort(error);
    if (isRolledBack(error)) {
      if (hasBegun) parts.observe({ type: 'released', id });
      return refuse(parts, id, 'rolled_back', { cause: error });
    }
    if (done !== null) return learnOutcome(parts, operation, done, error);
    if (hasBegun) return concludeRollback(parts, operation, owner, error);
    if (error instanceof RolledBack) return error.execution;
    if (!isStoreFault(error)) throw error;
    parts.observe({ type: 'store_error', phase: 'claim', error });
    return refuse(parts, id, 'store_unavailable', { retryAfterMs: RETRY_AFTER_MS, cause: error });
  }
  return conclude(parts, operation, done as unknown as Done);
}

const RETRY_AFTER_MS = 1 * SECOND;

/** The database has said that nothing of the transaction remains. */
function isRolledBack(error: unknown): boolean {
  return error instanceof OncewardError && error.code === 'ONCE_ROLLED_BACK';
}

/**
 * Whether what kept the effect from beginning is the database's: no connection, no BEGIN, no answer to the claim. A
 * `transact` of the caller's own raises what its driver does; a mistake in it is told as it is.
 */
function isStoreFault(error: unknown): boolean {
  if (error instanceof OncewardError) {
    return error.code === 'ONCE_STORE_UNAVAILABLE' || error.code === 'ONCE_STORE_FAILED';
  }
  return !(error instanceof TypeError || error instanceof ReferenceError);
}

/**
 * The effect ran and the transaction was rolled back, so the claim must be gone. If it is there, somebody has committed
 * the transaction meanwhile, and with it part of the effect: nobody may take such a claim for one that did nothing.
 */
async function concludeRollback(
  parts: EngineParts,
  operation: Operation,
  owner: string,
  error: unknown,
): Promise<Execution> {
  const { id, policy } = operation;
  const stored = await callStore(parts, 'read', policy, () => parts.store.read(id)).catch(
    () => null,
  );
  const current = understand(parts, id, stored);
  if (current?.record?.state === 'pending' && current.record.owner === owner) {
    const { record, revision } = current;
    const doubt = doubtRecord(record, revision, 'outcome_unknown', parts.clock.now());
    await swapRecord(parts, 'settle', policy, id, revision, prepare(id, doubt)).catch(() => null);
    parts.observe({ type: 'in_doubt', id, reason: 'outcome_unknown' });
    return refuse(parts, id, 'in_doubt', { cause: endedEarly(error) });
  }
  parts.observe({ type: 'released', id });
  if (error instanceof RolledBack) return error.execution;
  throw error;
}

function endedEarly(cause: unknown): OncewardError {
  return new OncewardError(
    'ONCE_IN_DOUBT',
    'the transaction was ended while the effect ran, so part of the effect is committed without its record; use ' +
      'savepoints within the transaction, and leave its end to whoever began it',
    { cause },
  );
}

interface Done {
  readonly record: SettledRecord;
  readonly settlement: Settlement;
  readonly fence: Revision;
}

/** Leaves the transaction with a result and no trace in the database. */
class RolledBack extends Error {
  readonly execution: Execution;
  constructor(execution: Execution) {
    super('rolled back');
    this.execution = execution;
  }
}

async function runWithin(
  parts: EngineParts,
  store: RecordStore,
  operation: Operation,
  owner: string,
  signal: AbortSignal,
  effect: (attempt: Attempt) => Promise<Settlement>,
): Promise<Done> {
  const { id, policy } = operation;
  if (operation.signal?.aborted) throw new RolledBack(refuse(parts, id, 'deadline'));
  const claiming = claimWithin(parts, store, operation, owner);
  const { record, revision } = await unlessAborted(parts, operation, claiming);
  if (operation.signal?.aborted) throw new RolledBack(refuse(parts, id, 'deadline'));
  // Whoever opened the transaction may have given it up while the claim waited, and the caller was refused.
  signal.throwIfAborted();
  const settlement = await effect({
    id,
    number: record.attempt,
    fence: revision,
    signal,
    downstreamKey: parts.downstreamKey(id),
    step: (_name, work) => work(),
  });
  if (!('outcome' in settlement)) {
    const { attempt } = record;
    const released: Execution = {
      kind: 'executed',
      settlement,
      attempt,
      fence: revision,
      recorded: true,
      keptUntil: null,
    };
    throw new RolledBack(released);
  }
  checkOutcome(settlement.outcome, policy.maxOutcomeBytes);
  const kept = await packOutcome(parts, settlement.outcome, policy.packAboveBytes);
  const keepMs = keepMsOf(policy, settlement.as);
  const now = parts.clock.settlingNow();
  const settled = settleRecord(record, revision, settlement.as, kept, keepMs, now);
  parts.world.crashPoint?.('before-settle');
  const result = await callStore(parts, 'settle', policy, () =>
    soundly(store.swap(id, revision, prepare(id, settled))),
  );
  if (!result.won)
    throw new RolledBack(refuse(parts, id, 'fence_lost', { retryAfterMs: RETRY_AFTER_MS }));
  return { record: settled, settlement, fence: revision };
}

interface Claimed {
  readonly record: PendingRecord;
  readonly revision: Revision;
}

/** A claim may wait long, for another transaction or for a connection that leads nowhere. */
function unlessAborted(
  parts: EngineParts,
  { id, signal }: Operation,
  claiming: Promise<Claimed>,
): Promise<Claimed> {
  if (signal === undefined) return claiming;
  return new Promise((resolve, reject) => {
    const leave = () => reject(new RolledBack(refuse(parts, id, 'deadline')));
    signal.addEventListener('abort', leave, { once: true });
    claiming.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

async function claimWithin(
  parts: EngineParts,
  store: RecordStore,
  operation: Operation,
  owner: string,
): Promise<Claimed> {
  const { id, policy } = operation;
  const rounds = new Rounds(parts.world);
  const time = parts.clock.time();
  const isTooOld = mayBeForgotten(operation.firstSentAt, policy, time);
  const first = isTooOld ? understand(parts, id, await store.read(id)) : null;
  let decision = decide(first, operation, policy, time);
  for (; decision.kind === 'claim'; await rounds.next()) {
    const now = parts.clock.now();
    const record = claimRecord(operation, owner, decision.attempt, [], now);
    const { expected } = decision;
    parts.world.crashPoint?.('before-claim');
    // No bound of ours: the wait for another's transaction belongs to the database and to the caller's.
    const result = await soundly(store.swap(id, expected, prepare(id, record)));
    if (result.won) return { record, revision: result.revision };
    const current = understand(parts, id, result.current);
    decision = decide(current, operation, policy, parts.clock.time());
  }
  if (decision.kind === 'replay') {
    const answer = await answerOf(parts, decision.record);
    if (answer === null) throw new RolledBack(refuse(parts, id, 'in_doubt'));
    parts.near.remember(id, answer);
    throw new RolledBack(replay(parts, id, answer, false));
  }
  if (decision.kind === 'refuse') throw new RolledBack(refuse(parts, id, decision.reason));
  if (decision.kind === 'doubt') throw new RolledBack(refuse(parts, id, 'in_doubt'));
  const details = { retryAfterMs: RETRY_AFTER_MS };
  throw new RolledBack(refuse(parts, id, 'in_progress', details));
}

/** The commit's reply was lost. The record, written in the same commit, tells whether it happened. */
async function learnOutcome(
  parts: EngineParts,
  operation: Operation,
  done: Done,
  error: unknown,
): Promise<Execution> {
  try {
    const stored = await callStore(parts, 'read', operation.policy, () =>
      parts.store.read(operation.id),
    );
    const record = understand(parts, operation.id, stored)?.record;
    if (record?.owner === done.record.owner) return conclude(parts, operation, done);
  } catch (cause) {
    if (!(cause instanceof OncewardError)) throw cause;
  }
  const details = { retryAfterMs: RETRY_AFTER_MS, cause: error };
  return refuse(parts, operation.id, 'outcome_unknown', details);
}

function conclude(parts: EngineParts, operation: Operation, done: Done): Execution {
  const { record, settlement, fence } = done;
  const { id } = operation;
  if ('outcome' in settlement) parts.near.remember(id, new NearAnswer(record, settlement.outcome));
  parts.observe({ type: 'settled', id, state: record.state, attempt: record.attempt });
  const { attempt, keepUntil: keptUntil } = record;
  return { kind: 'executed', settlement, attempt, fence, recorded: true, keptUntil };
}

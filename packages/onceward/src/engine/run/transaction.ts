import { OncewardError } from '../errors.ts';
import { checkOutcome } from '../input.ts';
import { NearAnswer } from '../near/near-tier.ts';
import type { Attempt, Execution, Operation, Settlement } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { Current, Decision } from '../record/decide.ts';
import { keepMsOf, settleRecord } from '../record/transitions.ts';
import type { Revision, SettledRecord } from '../record.ts';
import type { RecordStore, TransactionalStore } from '../record-store.ts';
import {
  callStore,
  prepare,
  readRecord,
  soundly,
  understand,
} from '../store-access/store-calls.ts';
import { packOutcome, RETRY_SOON, refuse, replay } from './answer.ts';
import type { Claim } from './claim.ts';
import { recordDoubt } from './doubt.ts';
import { Driver } from './driver.ts';
import type { Claiming } from './lost-claim.ts';

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
  const stop = new AbortController();
  /** Set when the effect begins. */
  let owner: string | null = null;
  let done: Done | null = null;
  try {
    await parts.clock.ready();
    await transact(async (tx) => {
      const within = store.within(tx);
      const claim = await claimWithin(parts, within, operation);
      // The transaction may have been given up while the claim waited, and the caller was refused.
      stop.signal.throwIfAborted();
      owner = claim.owner;
      parts.observe({ type: 'claimed', id, attempt: claim.attempt });
      const run = (attempt: Attempt) => effect(attempt, tx);
      done = await runWithin(parts, within, operation, claim, stop.signal, run);
    });
  } catch (error) {
    stop.abort(error);
    if (isRolledBack(error)) {
      if (owner !== null) parts.observe({ type: 'released', id });
      return refuse(parts, id, 'rolled_back', { cause: error });
    }
    if (done !== null) return learnOutcome(parts, operation, done, error);
    if (owner !== null) return concludeRollback(parts, operation, owner, error);
    if (error instanceof RolledBack) return error.execution;
    if (!isStoreFault(error)) throw error;
    parts.observe({ type: 'store_error', phase: 'claim', error });
    return refuse(parts, id, 'store_unavailable', { ...RETRY_SOON, cause: error });
  }
  return conclude(parts, operation, done as unknown as Done);
}

/** The database has said that nothing of the transaction remains. */
function isRolledBack(error: unknown): boolean {
  return error instanceof OncewardError && error.code === 'ONCE_ROLLED_BACK';
}

/**
 * Whether what kept the effect from beginning is the database's: no connection, no BEGIN, no answer to the claim. A
 * `transact` of the caller's own raises what its driver does; a mistake in it is thrown as it is.
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
  const current = await readRecord(parts, policy, id).catch(() => null);
  const record = current?.record;
  if (record?.state === 'pending' && record.owner === owner) {
    const found = { record, revision: current!.revision };
    await recordDoubt(parts, 'doubt', policy, id, found, 'outcome_unknown').catch(() => null);
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
      'savepoints within the transaction, and leave its end to the code that began it',
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

/** Claims in the caller's transaction. Leaves it where there is another result. */
async function claimWithin(
  parts: EngineParts,
  store: RecordStore,
  { signal, probe: _probe, ...operation }: Operation,
): Promise<Claim> {
  const left = () => new RolledBack(refuse(parts, operation.id, 'deadline'));
  if (signal?.aborted) throw left();
  const claim = await new Promise<Claim>((resolve, reject) => {
    // A claim may wait long, for another transaction or for a connection that leads nowhere.
    const leave = () => reject(left());
    signal?.addEventListener('abort', leave, { once: true });
    const driver = new Promise<Claim>((held, fail) => {
      new TransactionDriver(parts, operation, held, fail, store).begin();
    });
    driver.then(resolve, reject).finally(() => signal?.removeEventListener('abort', leave));
  });
  if (signal?.aborted) throw left();
  return claim;
}

/** Reads and claims in the store of a transaction, and gives the claim to the code that runs in it. */
class TransactionDriver extends Driver<Claim> {
  readonly #store: RecordStore;

  constructor(
    parts: EngineParts,
    operation: Operation,
    resolve: (claim: Claim) => void,
    reject: (error: unknown) => void,
    store: RecordStore,
  ) {
    super(parts, operation, parts.world.elapsed(), resolve, reject);
    this.#store = store;
  }

  protected override async read(): Promise<Current | null> {
    const { id } = this.operation;
    return understand(this.parts, id, await this.#store.read(id));
  }

  /** No bound of ours: the wait for another's transaction belongs to the database and to the caller's. */
  protected override swap({ expected, next }: Claiming): void {
    soundly(this.#store.swap(this.operation.id, expected, next)).then(
      (result) => this.succeeded(result),
      this.reject,
    );
  }

  /** A transaction would hold its locks while it waits, and a doubt would be rolled back with it. */
  protected override decide(current: Current | null): Decision {
    const decision = super.decide(current);
    if (decision.kind === 'wait') return { kind: 'refuse', reason: 'in_progress' };
    if (decision.kind !== 'doubt') return decision;
    return { kind: 'refuse', reason: 'in_doubt', revision: decision.revision, record: null };
  }

  protected override held(claim: Claim): void {
    this.resolve(claim);
  }

  protected override end(execution: Execution, answer: NearAnswer | null = null): void {
    if (answer !== null) this.parts.near.remember(this.operation.id, answer);
    this.reject(new RolledBack(execution));
  }
}

async function runWithin(
  parts: EngineParts,
  store: RecordStore,
  { id, policy }: Operation,
  { attempt, fence, record }: Claim,
  signal: AbortSignal,
  effect: (attempt: Attempt) => Promise<Settlement>,
): Promise<Done> {
  const settlement = await effect({
    id,
    number: attempt,
    fence,
    signal,
    downstreamKey: parts.downstreamKey(id),
    step: (_name, work) => work(),
  });
  if (!('outcome' in settlement)) {
    const unkept = { recorded: true, keptUntil: null } as const;
    throw new RolledBack({ kind: 'executed', settlement, attempt, fence, ...unkept });
  }
  checkOutcome(settlement.outcome, policy.maxOutcomeBytes);
  const kept = await packOutcome(parts, settlement.outcome, policy.packAboveBytes);
  const keepMs = keepMsOf(policy, settlement.as);
  const now = parts.clock.settlingNow();
  const settled = settleRecord(record, fence, settlement.as, kept, keepMs, now);
  parts.world.crashPoint?.('before-settle');
  const result = await callStore(parts, 'settle', policy, () =>
    soundly(store.swap(id, fence, prepare(id, settled))),
  );
  if (!result.won) throw new RolledBack(refuse(parts, id, 'fence_lost', RETRY_SOON));
  return { record: settled, settlement, fence };
}

/** The commit's reply was lost. The record, written in the same commit, says whether it happened. */
async function learnOutcome(
  parts: EngineParts,
  operation: Operation,
  done: Done,
  error: unknown,
): Promise<Execution> {
  try {
    const found = await readRecord(parts, operation.policy, operation.id);
    if (found?.record?.owner === done.record.owner) return conclude(parts, operation, done);
  } catch (cause) {
    if (!(cause instanceof OncewardError)) throw cause;
  }
  return refuse(parts, operation.id, 'outcome_unknown', { ...RETRY_SOON, cause: error });
}

function conclude(parts: EngineParts, operation: Operation, done: Done): Execution {
  const { record, settlement, fence } = done;
  const { id } = operation;
  if ('outcome' in settlement) parts.near.remember(id, new NearAnswer(record, settlement.outcome));
  parts.observe({ type: 'settled', id, state: record.state, attempt: record.attempt });
  const { attempt, keepUntil: keptUntil } = record;
  return { kind: 'executed', settlement, attempt, fence, recorded: true, keptUntil };
}

import { type AuditLine, NOT_RETAINED, type OperationRecord, type Revision } from 'onceward';
import type { Life } from '../life.ts';
import type { OperationPlan, Plan } from '../plan.ts';
import type { Kept, Write } from '../record-table.ts';
import { type AttemptFact, type Call, CaseFile, type SettledFact } from './case-file.ts';
import { judgeBegin, judgeHappening } from './effect-rules.ts';
import { keptText } from './outcome-text.ts';
import { attemptOf, isGivenBack, judgeWrite } from './transition-rules.ts';

/** A promise that was broken, and when. */
export interface Violation {
  readonly rule: string;
  readonly at: number;
  readonly operation: string;
}

const SKEW_MS = 40;

/** Watches from outside, and knows what the engine cannot: what is true. The first complaint ends the world. */
export class Judge {
  readonly files: readonly CaseFile[];
  violation: Violation | null = null;
  readonly #now: () => number;
  readonly #calmSince: () => number;
  readonly #tell: (text: string) => void;
  /** How long a write can be under way. */
  readonly #underWayMs: number;
  readonly #operatorKeepMs: readonly number[];
  readonly #hasStoreClock: boolean;

  constructor(
    plan: Plan,
    clock: { readonly now: () => number; readonly calmSince: () => number },
    tell: (text: string) => void,
  ) {
    this.files = plan.operations.map((operation) => new CaseFile(operation));
    this.#now = clock.now;
    this.#calmSince = clock.calmSince;
    this.#tell = tell;
    this.#underWayMs = longestDelay(plan);
    this.#hasStoreClock = plan.store.hasClock;
    this.#operatorKeepMs = plan.operations.map((operation) => shortestVerdict(plan, operation));
  }

  complain(rule: string, file: CaseFile | null): void {
    if (this.violation !== null) return;
    const id = file?.operation.id;
    const operation = id === undefined ? 'the world' : `${id.scope}/${id.key}`;
    this.violation = { rule, at: this.#now(), operation };
    this.#tell(`VIOLATION at ${operation}: ${rule}`);
  }

  fileOf(id: { readonly scope: string; readonly key: string }): CaseFile {
    return this.files.find(({ operation }) => {
      return operation.id.scope === id.scope && operation.id.key === id.key;
    })!;
  }

  seeAudit(actor: Life, line: AuditLine): void {
    this.fileOf(line).audits.push({ line, actor, at: this.#now() });
  }

  seeWrite(write: Write): void {
    const file = this.fileOf(write.id);
    this.#tell(describe(write));
    const complaint = judgeWrite(file, write, {
      now: this.#now(),
      calmSince: this.#calmSince(),
      underWayMs: this.#underWayMs + 4 * file.operation.policy.storeTimeoutMs,
      skewMs: SKEW_MS,
      hasStoreClock: this.#hasStoreClock,
    });
    if (complaint !== null) this.complain(complaint, file);
    file.lastRevision = write.revision;
    this.#noteWrite(file, write);
  }

  /** An effect is about to run under this fence. */
  seeBegin(call: Call, fence: Revision): AttemptFact | null {
    const { file } = call;
    const attempt = file.attempts.get(fence) ?? null;
    const complaint = judgeBegin(call, fence, attempt, this.#now());
    if (complaint !== null) this.complain(complaint, file);
    call.begun = true;
    if (attempt !== null) attempt.begun = call;
    return attempt;
  }

  /** The effect, or a step of it, happens outside. */
  seeHappening(file: CaseFile, attempt: AttemptFact, step: string | null): void {
    this.#tell(`effect ${step ?? ''} of fence ${attempt.fence} happens`);
    const complaint = judgeHappening(file, attempt, step);
    if (complaint !== null) this.complain(complaint, file);
    if (step === null) attempt.happened += 1;
    else attempt.steps.add(step);
  }

  #noteWrite(file: CaseFile, write: Write): void {
    const { before, after } = write;
    if (after === null || isReleased(after)) {
      const attempt = before === null ? undefined : attemptOf(file, before);
      if (attempt !== undefined && isGivenBack(file, write)) attempt.givenBack = true;
      return;
    }
    const { record } = after;
    if (record.state === 'in_doubt') file.doubted = true;
    if (record.state === 'pending' && record.owner !== before?.record.owner) {
      if (before === null || record.attempt === 1) file.lives += 1;
      file.attempts.set(after.revision, newAttempt(file, write, after));
      return;
    }
    const attempt = attemptOf(file, after);
    if (attempt !== undefined) attempt.writtenAt = this.#now();
    if (record.state === 'committed' || record.state === 'rejected') {
      this.#noteSettled(file, write, record, attempt);
    }
  }

  #noteSettled(
    file: CaseFile,
    write: Write,
    record: Extract<OperationRecord, { settledAt: number }>,
    attempt: AttemptFact | undefined,
  ): void {
    const { policy, index } = file.operation;
    const earlier = file.settled.findLast(({ owner }) => owner === record.owner);
    const verdictKeepMs = this.#operatorKeepMs[index] ?? 0;
    if (earlier !== undefined && write.before?.record.state === record.state) {
      earlier.keepUntil = record.keepUntil;
      const since = this.#saidAt(file, write, 'extend');
      const promised = since - write.actor.missedMs + verdictKeepMs;
      earlier.promisedUntil = Math.max(earlier.promisedUntil, promised);
      return;
    }
    const byOperator = record.resolution !== null && record.resolution.by !== 'probe';
    const verdictUntil = this.#saidAt(file, write, 'resolve') + verdictKeepMs;
    const policyKeepMs =
      record.state === 'committed' ? policy.keepCommittedMs : policy.keepRejectedMs;
    const underWayMs = this.#underWayMs + 10 * policy.storeTimeoutMs;
    const since = Math.max(attempt?.endedAt ?? 0, this.#now() - underWayMs);
    const fact: SettledFact = {
      fence: record.fence,
      life: attempt?.life ?? 0,
      owner: record.owner,
      state: record.state,
      fingerprint: record.fingerprint,
      outcome: keptText(record.outcome),
      retained: record.outcome.contentType !== NOT_RETAINED,
      byAttempt: record.resolution === null,
      appliedAt: this.#now(),
      // A machine that was suspended while its wall clock was wrong has no clock left to go by.
      promisedUntil: (byOperator ? verdictUntil : since + policyKeepMs) - write.actor.missedMs,
      keepUntil: record.keepUntil,
    };
    file.settled.push(fact);
  }

  /** When an operator said it: from then on the answer is to be kept, however long the write takes. */
  #saidAt(file: CaseFile, write: Write, action: AuditLine['action']): number {
    const said = file.audits.filter(({ line, actor }) => {
      return line.action === action && actor === write.actor;
    });
    return Math.min(this.#now(), ...said.map(({ at }) => at));
  }
}

function newAttempt(file: CaseFile, write: Write, after: Kept): AttemptFact {
  return {
    fence: after.revision,
    life: file.lives,
    owner: after.record.owner,
    fingerprint: after.record.fingerprint,
    actor: write.actor,
    claim: after.record,
    writtenAt: after.appliedAt,
    begun: null,
    happened: 0,
    steps: new Set(),
    inFlight: false,
    reserver: null,
    ending: null,
    endedAt: 0,
    givenBack: false,
  };
}

function isReleased({ record }: Kept): boolean {
  return record.state === 'pending' && record.leaseUntil === 0;
}

function longestDelay(plan: Plan): number {
  let longest = 4 * plan.store.latencyMs;
  for (const event of plan.events) {
    const fault = 'fault' in event ? event.fault : null;
    if (fault !== null && 'byMs' in fault) longest = Math.max(longest, fault.byMs);
    if (event.kind === 'pause') longest = Math.max(longest, event.forMs);
  }
  return longest;
}

function shortestVerdict(plan: Plan, operation: OperationPlan): number {
  let shortest = 60_000;
  for (const event of plan.events) {
    if (event.kind !== 'operator' || event.operation !== operation.index) continue;
    shortest = Math.min(shortest, event.keepMs);
  }
  return shortest;
}

function describe({ id, before, after, actor, revision }: Write): string {
  const to = after === null ? 'absent' : describeRecord(after.record);
  const from = before === null ? 'absent' : `${before.record.state} r${before.revision}`;
  return `store ${id.scope}/${id.key}: ${from} → ${to} r${revision} (by ${actor.token})`;
}

function describeRecord(record: OperationRecord): string {
  if (record.state !== 'pending') return record.state;
  return record.leaseUntil === 0 ? 'released' : `pending (attempt ${record.attempt})`;
}

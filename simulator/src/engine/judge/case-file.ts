import type { AuditLine, Execution, OperationRecord, Revision } from 'onceward';
import type { Life } from '../life.ts';
import type { Arrival, OperationPlan } from '../plan.ts';

/** Everything that is known of one operation, from outside: the judge's memory. */
export class CaseFile {
  readonly operation: OperationPlan;
  readonly attempts = new Map<Revision, AttemptFact>();
  readonly settled: SettledFact[] = [];
  readonly calls: Call[] = [];
  readonly audits: AuditFact[] = [];
  /** The lives of its record: each ends when the record is forgotten, given back or voided. */
  lives = 0;
  lastRevision: Revision = 0;
  /** An operator answered without looking, or purged what was not settled. */
  tainted = false;
  /** There has been something to doubt: a record in doubt, or one that was spoilt. */
  doubted = false;

  constructor(operation: OperationPlan) {
    this.operation = operation;
  }

  /** Repeating the effect does harm, so nothing but a person may do so. */
  get isFragile(): boolean {
    const { effect } = this.operation;
    return effect.kind === 'external' && effect.onLapse === 'in_doubt';
  }

  attemptsOfLife(life: number): AttemptFact[] {
    return [...this.attempts.values()].filter((attempt) => attempt.life === life);
  }

  /** Whether anything of this life of the record has happened outside, main effect or step. */
  hasHappened(life: number): boolean {
    return this.attemptsOfLife(life).some(
      (attempt) => attempt.happened > 0 || attempt.steps.size > 0,
    );
  }

  /** Whether something of this life may still happen. Only then is a doubt a doubt. */
  mayHappen(life: number): boolean {
    return this.attemptsOfLife(life).some(
      (attempt) =>
        attempt.inFlight ||
        attempt.reserver === 'active' ||
        (attempt.reserver === null && attempt.actor.alive && attempt.ending === null),
    );
  }
}

/** One claim that the store granted. */
export interface AttemptFact {
  readonly fence: Revision;
  readonly life: number;
  readonly owner: string;
  readonly fingerprint: string;
  readonly actor: Life;
  /** The record it claimed with: the steps in it are done. */
  readonly claim: OperationRecord;
  writtenAt: number;
  begun: Call | null;
  /** How often the effect happened outside. */
  happened: number;
  readonly steps: Set<string>;
  /** It is on its way and will happen whatever becomes of the process. */
  inFlight: boolean;
  /** A caller from afar that holds the fence: still at it, or done with it. */
  reserver: 'active' | 'done' | null;
  ending: AttemptEnding | null;
  endedAt: number;
  givenBack: boolean;
}

/** How the effect of an attempt ended, as its script knows it. */
export type AttemptEnding =
  | {
      readonly as: 'settle';
      readonly state: 'committed' | 'rejected';
      readonly outcome: string | null;
    }
  | { readonly as: 'release' }
  | { readonly as: 'doubt' };

/** An answer that the store has kept. */
export interface SettledFact {
  readonly fence: Revision;
  readonly life: number;
  readonly owner: string;
  readonly state: 'committed' | 'rejected';
  readonly fingerprint: string;
  readonly outcome: string;
  readonly retained: boolean;
  readonly byAttempt: boolean;
  readonly appliedAt: number;
  /** Virtual time until which it has been promised to be kept. */
  promisedUntil: number;
  /** As the record says it, in the clock of its writer. */
  keepUntil: number;
}

/** One arrival and what came of it. */
export interface Call {
  readonly number: number;
  readonly arrival: Arrival;
  readonly file: CaseFile;
  readonly life: Life;
  readonly startedAt: number;
  /** The clock of its process by which answers expire, when it came. */
  readonly retentionAtStart: number;
  /** Nothing has gone wrong in the world since it came, nor shortly before. */
  readonly wasCalm: () => boolean;
  /** Its caller has left. */
  aborted: boolean;
  /** An effect was begun for it. */
  begun: boolean;
  ended: boolean;
  endedAt: number;
  result: Execution | 'threw' | null;
}

export interface AuditFact {
  readonly line: AuditLine;
  readonly actor: Life;
  readonly at: number;
}

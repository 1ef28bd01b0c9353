import type { EngineParts } from '../parts.ts';
import { doneRecord } from '../record/transitions.ts';
import type { OperationId, SettledRecord } from '../record.ts';
import { plainOutcome } from '../run/answer.ts';
import { type Bound, swapRecord } from '../store-access/store-calls.ts';
import { KIB, MINUTE } from '../units.ts';

/** Larger than most records: a store with room for this one has room for the next. */
const PROBE_BYTES = 16 * KIB;

/**
 * Whether the store takes writes. A store that answers reads may still refuse every write, as one on a full disk does.
 * Nothing is tried while writes succeed. From the first that failed on, each question is answered by a write of its
 * own, so that a process that gets no requests while it is not ready finds out when it is.
 */
export class WriteCheck {
  #isSuspect = false;
  #trial: Promise<void> | null = null;

  /** A write has failed. */
  suspect(): void {
    this.#isSuspect = true;
  }

  /** Fails as the store does. */
  async assertWritable(parts: EngineParts, id: OperationId, bound: Bound): Promise<void> {
    if (!this.#isSuspect && this.#trial === null) return;
    this.#trial ??= this.#try(parts, id, bound).finally(() => {
      this.#trial = null;
    });
    await this.#trial;
  }

  async #try(parts: EngineParts, id: OperationId, bound: Bound): Promise<void> {
    // Set again by whatever fails meanwhile, this trial included.
    this.#isSuspect = false;
    const written = await swapRecord(parts, 'settle', bound, id, null, trialRecord(parts));
    const revision = written.won ? written.revision : written.current?.revision;
    if (revision !== undefined) await swapRecord(parts, 'release', bound, id, revision, null);
  }
}

/** If nobody is left to remove it, the sweeper does. */
function trialRecord(parts: EngineParts): SettledRecord {
  const byteLength = Math.min(PROBE_BYTES, Math.floor(parts.store.traits.maxRecordBytes / 2));
  const bytes = new Uint8Array(byteLength);
  const outcome = plainOutcome({ contentType: 'application/octet-stream', bytes });
  const work = { fingerprint: 'a trial', keepMs: MINUTE };
  return doneRecord(work, outcome, parts.nextOwner(), parts.clock.settlingNow());
}

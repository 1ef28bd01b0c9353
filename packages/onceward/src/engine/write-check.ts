import { plainOutcome } from './answer.ts';
import { type EngineParts, prepare, swapRecord } from './parts.ts';
import { profiles } from './profiles.ts';
import type { OperationId } from './record.ts';
import { claimRecord, settleRecord } from './transitions.ts';
import { type DurationMs, KIB, MINUTE } from './units.ts';

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
  async assertWritable(
    parts: EngineParts,
    id: OperationId,
    bound: { readonly storeTimeoutMs: DurationMs },
  ): Promise<void> {
    if (!this.#isSuspect && this.#trial === null) return;
    this.#trial ??= this.#try(parts, id, bound).finally(() => {
      this.#trial = null;
    });
    await this.#trial;
  }

  async #try(
    parts: EngineParts,
    id: OperationId,
    bound: { readonly storeTimeoutMs: DurationMs },
  ): Promise<void> {
    // Set again by whatever fails meanwhile, this trial included.
    this.#isSuspect = false;
    const written = await swapRecord(parts, 'settle', bound, id, null, trialRecord(parts, id));
    const revision = written.won ? written.revision : written.current?.revision;
    if (revision !== undefined) await swapRecord(parts, 'release', bound, id, revision, null);
  }
}

/** If nobody is left to remove it, the sweeper does. */
function trialRecord(parts: EngineParts, id: OperationId) {
  const now = parts.clock.settlingNow();
  const request = {
    fingerprint: 'a trial',
    effect: { kind: 'downstream' },
    policy: profiles.http,
  } as const;
  const byteLength = Math.min(PROBE_BYTES, Math.floor(parts.store.traits.maxRecordBytes / 2));
  const outcome = { contentType: 'application/octet-stream', bytes: new Uint8Array(byteLength) };
  const claim = claimRecord(request, parts.nextOwner(), 1, [], now);
  return prepare(id, settleRecord(claim, 0, 'committed', plainOutcome(outcome), MINUTE, now));
}

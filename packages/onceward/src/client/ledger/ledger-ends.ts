import type { Change, Entry, OutboxStorage } from '../storages/outbox-storage.ts';
import type { StoredWrite } from './ledger-doubt.ts';
import type { OnResult, WriterResult } from './writer-result.ts';

/** JSON has no bigints: the sequence of a success is text here. */
type StoredResult = WriterResult | (Omit<WriterResult & { ok: true }, 'sequence'> & Sequence);
interface Sequence {
  readonly sequence: string;
}

interface StoredEnd extends Entry {
  readonly operations: readonly unknown[];
  readonly result: StoredResult;
}

export interface End {
  readonly key: string;
  readonly operations: readonly unknown[];
  readonly result: WriterResult;
}

/**
 * The ends of writes for which `onResult` has not completed. An end is stored in the change that removes its write, and
 * removed after `onResult`: after a crash in between the callback is called again, and nothing is sent again.
 */
export class LedgerEnds {
  readonly #storage: OutboxStorage;
  readonly #prefix: string;
  readonly #onResult: OnResult | undefined;
  #telling = 0;

  constructor(storage: OutboxStorage, prefix: string, onResult: OnResult | undefined) {
    this.#storage = storage;
    this.#prefix = `${prefix}e/`;
    this.#onResult = onResult;
  }

  get isTelling(): boolean {
    return this.#telling > 0;
  }

  endOf({ sequence, idempotency_key, operations }: StoredWrite, result: WriterResult): End {
    // A number is used again after a refusal; a key never is.
    return {
      key: `${this.#prefix}${sequence.padStart(20, '0')}/${idempotency_key}`,
      operations,
      result,
    };
  }

  /** Empty without an `onResult`. */
  storing({ key, operations, result }: End): readonly Change[] {
    if (this.#onResult === undefined) return [];
    const stored = result.ok ? { ...result, sequence: result.sequence.toString() } : result;
    const next: StoredEnd = { version: 1, operations, result: stored };
    return [{ key, next }];
  }

  /** Those for which an earlier process has not completed `onResult`. */
  async stored(): Promise<readonly End[]> {
    if (this.#onResult === undefined) return [];
    const found = await this.#storage.range({ prefix: this.#prefix, limit: 1_000_000 });
    return found.map(({ key, entry }) => {
      const { operations, result } = entry as StoredEnd;
      const read = result.ok ? { ...result, sequence: BigInt(result.sequence) } : result;
      return { key, operations, result: read };
    });
  }

  /** Never rejects. An error of the application becomes an unhandled rejection. */
  async tell({ key, operations, result }: End): Promise<void> {
    if (this.#onResult === undefined) return;
    this.#telling += 1;
    try {
      await this.#onResult(operations, result);
      await this.#storage.swap([{ key, next: null }]).catch(() => {});
    } catch (error) {
      void Promise.reject(error);
    } finally {
      this.#telling -= 1;
    }
  }
}

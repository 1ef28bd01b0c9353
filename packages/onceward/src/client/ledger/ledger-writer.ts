import { toBase64 } from '../base64.ts';
import { ClientError } from '../client-error.ts';
import { type ClientWorld, mintKey, pause, realWorld } from '../client-world.ts';
import { backoffMs, RETRY_DEFAULTS } from '../retry-policy.ts';
import type { Change, Entry, OutboxStorage } from '../storages/outbox-storage.ts';
import { LedgerCallError } from './ledger-call-error.ts';
import type { LedgerClient, LedgerStream, WriteAnswer } from './ledger-client.ts';
import { isPastTtl, LEDGER_TTL_MS, PAST_TTL, type StoredWrite } from './ledger-doubt.ts';
import { type End, LedgerEnds } from './ledger-ends.ts';
import { endOf, happenedOf, isFinal } from './ledger-verdict.ts';
import { type OnResult, stillStored, type WriterResult } from './writer-result.ts';

export interface LedgerWriterOptions {
  readonly client: LedgerClient;
  /** One writer at a time may use a stream; a storage that locks sees to it. */
  readonly storage: OutboxStorage;
  readonly stream: LedgerStream;
  readonly world?: ClientWorld;
  /** Writes in flight at once. */
  readonly window?: number;
  /** How long the ledger knows a key: what `LEDGER_CLIENT_TTL_SECONDS` says there, or less. A day. */
  readonly ttlMs?: number;
  /** Called with the end of every write at least once, those of an earlier process included. */
  readonly onResult?: OnResult;
  /** Checks the proof of every write. */
  readonly verify?: boolean;
  /**
   * Called after the ledger refused the credential, once until it has accepted one. `true`: the client's
   * `headers()` has something new to offer. Otherwise the writer is paused until `resume()`; nothing is lost.
   */
  readonly refresh?: () => Promise<boolean>;
}

/** An operation as the ledger's JSON has it; bytes may be given as such. */
export type LedgerOperation = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

interface Head extends Entry {
  /** A u64 in decimal: the highest sequence that any write was given. */
  readonly last_used_sequence: string;
}

interface Waiting {
  storageKey: string;
  write: StoredWrite;
  isSent: boolean;
  failures: number;
  /** An earlier send got no answer, or one that is not proven yet: it may have been committed. */
  isInDoubt: boolean;
  readonly settle: (result: WriterResult) => void;
  readonly fail: (error: unknown) => void;
}

const WINDOW = 8;
const LARGEST_WINDOW = 32;

/**
 * Writes to one stream in order. Each write and the sequence it uses are stored before it is sent, so that after a
 * crash the same write goes out under the same key; the ledger runs it once.
 */
export class LedgerWriter {
  readonly #options: LedgerWriterOptions;
  readonly #world: ClientWorld;
  readonly #prefix: string;
  readonly #queue: Waiting[] = [];
  readonly #idle: (() => void)[] = [];
  readonly #closed = new AbortController();
  readonly #ends: LedgerEnds;
  /** Ends for which an earlier process has not completed `onResult`. */
  readonly #untold: End[] = [];
  #head: Head;
  #sending = 0;
  #isPaused = false;
  #hasRefreshed = false;
  /** Counts credentials. A refusal of an earlier one says nothing about the one of now. */
  #credential = 0;
  #mustResync = false;
  #isResyncing = false;
  #storing: Promise<void> = Promise.resolve();

  private constructor(options: LedgerWriterOptions, prefix: string, head: Head) {
    this.#options = options;
    this.#world = options.world ?? realWorld;
    this.#prefix = prefix;
    this.#head = head;
    this.#ends = new LedgerEnds(options.storage, prefix, options.onResult);
  }

  /** Goes on where the last writer of this stream stopped, and sends what has no answer yet. */
  static async open(options: LedgerWriterOptions): Promise<LedgerWriter> {
    const { storage, client, stream, window = WINDOW } = options;
    if (!(Number.isInteger(window) && window >= 1 && window <= LARGEST_WINDOW)) {
      throw new ClientError('INVALID_INPUT', `window must be from 1 to ${LARGEST_WINDOW}.`);
    }
    const parts = [stream.organization, stream.vault ?? '', stream.clientId];
    const prefix = `ledger/${parts.map(encodeURIComponent).join('/')}/`;
    const [stored] = (await storage.read([`${prefix}head`])) as [Head | undefined];
    // Nothing is stored: a new client, or one that lost its storage. The ledger knows which.
    const last = stored === undefined ? await askWhere(client, stream) : null;
    const head = stored ?? { version: 0, last_used_sequence: (last ?? 0n).toString() };
    const writer = new LedgerWriter(options, prefix, head);
    // The ledger cannot be asked now: nothing is sent before it has been.
    writer.#mustResync = stored === undefined && last === null;
    const waiting = await storage.range({ prefix: `${prefix}w/`, limit: 1_000_000 });
    for (const { key, entry } of waiting) {
      const none = () => {};
      const unheard = newWaiting(key, entry as StoredWrite, none, none);
      writer.#queue.push({ ...unheard, isInDoubt: (entry as StoredWrite).sent_at !== null });
    }
    writer.#untold.push(...(await writer.#ends.stored()));
    void writer.#tellUntold();
    writer.#pump();
    return writer;
  }

  /**
   * The highest sequence that any write was given; it may not be committed yet. Where nothing was stored it counts from
   * 0 until the ledger could be asked.
   */
  get lastUsedSequence(): bigint {
    return BigInt(this.#head.last_used_sequence);
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** Whether it waits for a credential that the ledger accepts. Writes are stored all the same. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Goes on after the user has signed in again. */
  resume(): void {
    this.#isPaused = false;
    this.#hasRefreshed = false;
    this.#credential += 1;
    this.#pump();
  }

  /** Stores the write, then sends it until the ledger has answered. Writes happen in the order of these calls. */
  async write(operations: readonly LedgerOperation[]): Promise<WriterResult> {
    if (this.#closed.signal.aborted) throw closed();
    const operationsInJson = JSON.parse(JSON.stringify(operations, bytesAsBase64)) as unknown[];
    const key = uuidToBase64(mintKey(this.#world));
    return new Promise((settle, fail) => {
      this.#exclusively(() => this.#store(key, operationsInJson, settle, fail)).catch(fail);
    });
  }

  /** Resolves when the ledger has answered every write, and `onResult` has completed for each. */
  idle(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  get #isIdle(): boolean {
    return this.#queue.length === 0 && this.#untold.length === 0 && !this.#ends.isTelling;
  }

  /** Stops sending. What is stored goes out when the stream is opened again. */
  close(): void {
    this.#closed.abort();
    for (const { fail } of this.#queue) fail(closed());
  }

  async #store(
    idempotency_key: string,
    operations: readonly unknown[],
    settle: Waiting['settle'],
    fail: Waiting['fail'],
  ): Promise<void> {
    if (this.#closed.signal.aborted) throw closed();
    const sequence = (this.lastUsedSequence + 1n).toString();
    const sent_at = this.#canSendNow() ? this.#world.now() : null;
    const write: StoredWrite = { version: 1, sequence, idempotency_key, operations, sent_at };
    const waiting = newWaiting(this.#keyOf(sequence), write, settle, fail);
    await this.#swap(sequence, [{ key: waiting.storageKey, expected: null, next: write }]);
    // `close` has failed those that were in the queue by then.
    if (this.#closed.signal.aborted) throw closed();
    this.#queue.push(waiting);
    this.#pump();
  }

  /** Then it is stored as sent: one change of the storage for a write that nothing keeps back. */
  #canSendNow(): boolean {
    const { window = WINDOW } = this.#options;
    return !this.#isPaused && !this.#mustResync && this.#queue.length < window;
  }

  /** Numbers are given and changed by one at a time. */
  #exclusively(work: () => Promise<void>): Promise<void> {
    const run = this.#storing.then(work);
    this.#storing = run.catch(() => {});
    return run;
  }

  /** Moves the head and makes the other changes, all or none. */
  async #swap(lastUsed: string, changes: readonly Change[]): Promise<void> {
    const { version } = this.#head;
    const next: Head = { version: version + 1, last_used_sequence: lastUsed };
    const expected = version === 0 ? null : version;
    const head: Change = { key: `${this.#prefix}head`, expected, next };
    if (!(await this.#options.storage.swap([head, ...changes]))) {
      throw new ClientError(
        'STORAGE_FAILED',
        'Another writer has used this stream; nothing was sent. Open it again.',
      );
    }
    this.#head = next;
  }

  #keyOf(sequence: string): string {
    return `${this.#prefix}w/${sequence.padStart(20, '0')}`;
  }

  /** Sends what may be sent. A write that cannot be in order yet waits for those before it. */
  #pump(): void {
    if (this.#closed.signal.aborted || this.#isPaused) return;
    if (this.#mustResync) {
      if (this.#sending === 0 && !this.#isResyncing) void this.#resync();
      return;
    }
    const { window = WINDOW } = this.#options;
    for (const waiting of this.#queue.slice(0, window)) {
      if (waiting.isSent) continue;
      waiting.isSent = true;
      this.#sending += 1;
      void this.#send(waiting);
    }
    this.#settleIdle();
  }

  #settleIdle(): void {
    if (this.#isIdle) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #send(waiting: Waiting): Promise<void> {
    const { client, stream, verify = false } = this.#options;
    const credential = this.#credential;
    try {
      if (this.#isLost(waiting)) return await this.#giveUp(waiting);
      const firstSentAt = waiting.isInDoubt ? waiting.write.sent_at : null;
      if (waiting.write.sent_at === null) await this.#markSent(waiting);
      const { sequence, idempotency_key: idempotencyKey, operations } = waiting.write;
      const named = { ...stream, sequence: BigInt(sequence), idempotencyKey, operations };
      const call = { ...named, ...(typeof firstSentAt === 'number' && { firstSentAt }) };
      const answer = await client.write(call, verify, () => {
        waiting.isInDoubt = true;
      });
      this.#hasRefreshed = false;
      await this.#handleAnswer(waiting, answer);
    } catch (error) {
      await this.#handleFailure(waiting, error, credential);
    } finally {
      this.#sending -= 1;
      this.#pump();
    }
  }

  /** In doubt, and its outcome can no longer be learned. */
  #isLost({ isInDoubt, write }: Waiting): boolean {
    const { ttlMs = LEDGER_TTL_MS } = this.#options;
    return isInDoubt && isPastTtl(write, this.#world.now(), ttlMs);
  }

  /** It may have used its sequence or not, so those behind it are numbered from where the ledger is. */
  #giveUp(waiting: Waiting): Promise<void> {
    this.#mustResync = true;
    return this.#finish(waiting, PAST_TTL);
  }

  async #markSent(waiting: Waiting): Promise<void> {
    const { version } = waiting.write;
    const next = { ...waiting.write, version: version + 1, sent_at: this.#world.now() };
    const isStored = await this.#options.storage.swap([
      { key: waiting.storageKey, expected: version, next },
    ]);
    if (!isStored) throw new ClientError('STORAGE_FAILED', 'Another writer has used this stream.');
    waiting.write = next;
  }

  async #handleAnswer(waiting: Waiting, answer: WriteAnswer): Promise<void> {
    if (answer.kind === 'success') {
      return this.#finish(waiting, { ...answer, ok: true, wasRepeat: false });
    }
    const { code, message, committedTxId, committedBlockHeight, assignedSequence } = answer;
    if (code === 'ALREADY_COMMITTED' && committedTxId !== null) {
      const sequence = assignedSequence ?? BigInt(waiting.write.sequence);
      const blockHeight = committedBlockHeight ?? 0;
      const result = { ok: true, txId: committedTxId, blockHeight, sequence } as const;
      return this.#finish(waiting, { ...result, wasRepeat: true });
    }
    if (code === 'SEQUENCE_GAP' || code === 'ALREADY_COMMITTED') {
      // The ledger knows every key of its time, and not this one: it did not happen. Either one before it is still
      // on its way, or the ledger counts differently. Reading both settles it.
      waiting.isSent = false;
      this.#mustResync = true;
      return;
    }
    // It used up no sequence, so those behind it move up.
    this.#mustResync = this.#queue.length > 1;
    await this.#finish(waiting, { ok: false, code, message, happened: happenedOf(code) });
  }

  async #handleFailure(waiting: Waiting, error: unknown, credential: number): Promise<void> {
    if (error instanceof LedgerCallError && error.isUnauthenticated) {
      waiting.isSent = false;
      return this.#signIn(credential);
    }
    if (error instanceof LedgerCallError && isFinal(error, waiting.isInDoubt)) {
      this.#mustResync = true;
      return this.#finish(waiting, endOf(error, waiting.isInDoubt));
    }
    waiting.failures += 1;
    waiting.isInDoubt = true;
    const wait = backoffMs(RETRY_DEFAULTS, waiting.failures, this.#world);
    await pause(this.#world, wait, this.#closed.signal);
    waiting.isSent = false;
  }

  /** Sends nothing more until there is another credential. Writes that failed together ask for one once. */
  async #signIn(credential: number): Promise<void> {
    if (this.#isPaused || credential !== this.#credential) return;
    this.#isPaused = true;
    if (this.#hasRefreshed || this.#options.refresh === undefined) return;
    this.#hasRefreshed = true;
    const refreshed = await this.#options.refresh().catch(() => false);
    // Without a pump: the caller pumps next.
    if (!refreshed) return;
    this.#isPaused = false;
    this.#credential += 1;
  }

  /** Settles the caller's promise once it can no longer be sent again. */
  async #finish(waiting: Waiting, result: WriterResult): Promise<void> {
    const { storage } = this.#options;
    let end = this.#ends.endOf(waiting.write, result);
    try {
      await storage.swap([{ key: waiting.storageKey, next: null }, ...this.#ends.storing(end)]);
    } catch {
      end = { ...end, result: stillStored(result) };
    }
    const at = this.#queue.indexOf(waiting);
    if (at >= 0) this.#queue.splice(at, 1);
    waiting.settle(end.result);
    // Not awaited: a slow `onResult` does not hold up the writes behind.
    void this.#tell(end);
  }

  async #tell(end: End): Promise<void> {
    await this.#ends.tell(end);
    this.#settleIdle();
  }

  /** After `open` has returned, since the application may use the writer in `onResult`. */
  async #tellUntold(): Promise<void> {
    await pause(this.#world, 0, this.#closed.signal);
    while (!this.#closed.signal.aborted) {
      const end = this.#untold.shift();
      if (end === undefined) return;
      void this.#tell(end);
    }
  }

  /** Nothing is in flight: numbers what waits from where the ledger is, under the same keys. */
  async #resync(): Promise<void> {
    this.#isResyncing = true;
    const { client, stream } = this.#options;
    let failures = 0;
    try {
      while (!this.#closed.signal.aborted && !this.#isPaused) {
        try {
          const last = await client.lastCommittedSequence(stream);
          this.#hasRefreshed = false;
          for (const lost of this.#queue.filter((waiting) => this.#isLost(waiting))) {
            await this.#finish(lost, PAST_TTL);
          }
          await this.#exclusively(() => this.#renumber(last));
          this.#mustResync = false;
          return;
        } catch (error) {
          if (error instanceof LedgerCallError && error.isUnauthenticated) {
            await this.#signIn(this.#credential);
            continue;
          }
          failures += 1;
          await pause(
            this.#world,
            backoffMs(RETRY_DEFAULTS, failures, this.#world),
            this.#closed.signal,
          );
          if (error instanceof ClientError) {
            for (const { fail } of this.#queue) fail(error);
            this.close();
          }
        }
      }
    } finally {
      this.#isResyncing = false;
      this.#pump();
    }
  }

  async #renumber(last: bigint): Promise<void> {
    const removed = this.#queue.map(({ storageKey }) => ({ key: storageKey, next: null }));
    const renumbered = this.#queue.map((waiting, at) => {
      const sequence = (last + BigInt(at) + 1n).toString();
      const write = { ...waiting.write, version: waiting.write.version + 1, sequence };
      return { waiting, write, storageKey: this.#keyOf(sequence) };
    });
    const added = renumbered.map(({ storageKey, write }) => ({ key: storageKey, next: write }));
    const kept = new Set(added.map(({ key }) => key));
    const dropped = removed.filter(({ key }) => !kept.has(key));
    await this.#swap((last + BigInt(this.#queue.length)).toString(), [...dropped, ...added]);
    for (const { waiting, write, storageKey } of renumbered) {
      waiting.write = write;
      waiting.storageKey = storageKey;
      // The ledger has just answered.
      waiting.failures = 0;
    }
  }
}

function newWaiting(
  storageKey: string,
  write: StoredWrite,
  settle: Waiting['settle'],
  fail: Waiting['fail'],
): Waiting {
  return { storageKey, write, isSent: false, failures: 0, isInDoubt: false, settle, fail };
}

/** `null`: the ledger cannot be asked now, without a connection or a valid credential. */
async function askWhere(client: LedgerClient, stream: LedgerStream): Promise<bigint | null> {
  try {
    return await client.lastCommittedSequence(stream);
  } catch (error) {
    if (!(error instanceof LedgerCallError)) throw error;
    if (error.isTransient || error.isUnauthenticated) return null;
    throw error;
  }
}

function closed(): ClientError {
  return new ClientError('OUTBOX_CLOSED', 'The writer is closed. What is stored is sent later.');
}

/** Reads the member itself: Node's buffers are already converted by `toJSON` in `value`. */
function bytesAsBase64(this: Readonly<Record<string, unknown>>, key: string, value: unknown) {
  const member = this[key];
  return member instanceof Uint8Array ? toBase64(member) : value;
}

function uuidToBase64(uuid: string): string {
  const hex = uuid.replaceAll('-', '');
  const bytes = Uint8Array.from({ length: 16 }, (_, at) =>
    Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16),
  );
  return toBase64(bytes);
}

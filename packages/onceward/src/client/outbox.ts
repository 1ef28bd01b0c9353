import { type BreakerPolicy, Breakers } from './circuit-breaker.ts';
import { ClientError } from './client-error.ts';
import {
  type ClientTimer,
  type ClientWorld,
  DAY,
  HOUR,
  mintKey,
  realWorld,
} from './client-world.ts';
import { alwaysOnline, browserConnectivity, type Connectivity } from './connectivity.ts';
import { Enqueuer, type Queued, type Wanted } from './enqueue.ts';
import { FailedOperations } from './failed-operations.ts';
import { type GroupStep, takeGroup } from './group-intake.ts';
import { forgetOld, RETENTION_DEFAULTS, type Retention } from './housekeeping.ts';
import type { Operation, WaitingOperation } from './operation.ts';
import { OperationBook } from './operation-book.ts';
import {
  type Bulletin,
  broadcastBulletin,
  Listeners,
  type Notice,
  type OutboxEvent,
  type PauseReason,
  type Settled,
  silentBulletin,
} from './outbox-events.ts';
import { LiveStatus, type StatusStore } from './outbox-status.ts';
import type { OutboxStorage } from './outbox-storage.ts';
import {
  checkKey,
  checkName,
  checkOptions,
  fingerprintOf,
  invalid,
  type OutboxRequest,
  takeRequest,
} from './request-intake.ts';
import { RETRY_DEFAULTS, type RetryPolicy } from './retry-policy.ts';
import { Runner, type RunnerOptions } from './runner.ts';
import { noLock, type RunnerLock, webLock } from './runner-lock.ts';
import type { OutboxAuth, RedirectedAnswer } from './sender.ts';
import { grantWish } from './transition.ts';

export interface OutboxOptions {
  readonly storage: OutboxStorage;
  /** Names the lock and the channel that tabs share; one per storage. */
  readonly name?: string;
  /**
   * How long the server remembers a key. An operation that was sent, got no answer and is older is not sent
   * again but moved to the failed ones as `unknown`. 24 h unless said otherwise; a server of profile `http`
   * remembers for 5 minutes only.
   */
  readonly replayWindowMs?: number;
  /** Catches the same payload queued again under another key within this time. Off unless given. */
  readonly catchDuplicatesWithinMs?: number;
  readonly auth?: OutboxAuth;
  /**
   * Asked about the answer at the end of a redirect, which is not taken for the API's own: it may be the page that asks
   * for a sign-in. `true`: the operation is done.
   */
  readonly isDone?: (answer: RedirectedAnswer) => boolean;
  readonly retry?: Partial<RetryPolicy>;
  readonly breaker?: BreakerPolicy;
  readonly retention?: Partial<Retention>;
  /** How many lanes send at the same time. */
  readonly concurrency?: number;
  /** `false`: nothing is sent but in `drain()`. For service workers and tests. */
  readonly start?: boolean;
  readonly fetch?: typeof fetch;
  readonly world?: ClientWorld;
  readonly lock?: RunnerLock;
  readonly bulletin?: Bulletin;
  readonly connectivity?: Connectivity;
}

const KNOWN = {
  storage: true,
  name: true,
  replayWindowMs: true,
  catchDuplicatesWithinMs: true,
  auth: true,
  isDone: true,
  retry: true,
  breaker: true,
  retention: true,
  concurrency: true,
  start: true,
  fetch: true,
  world: true,
  lock: true,
  bulletin: true,
  connectivity: true,
} satisfies Record<keyof OutboxOptions, true>;

export interface EnqueueOptions {
  /** Operations of one lane are sent in the order in which they were queued; lanes do not wait for each other. */
  readonly lane?: string;
  /** The key, if the application has one. Queueing it again adds nothing. */
  readonly key?: string;
  readonly label?: string;
  /** Takes the place of a waiting, never sent operation of the same lane with the same tag. */
  readonly coalesce?: string;
  /** For this once, do not look for the same payload under another key. */
  readonly allowDuplicate?: boolean;
}

/**
 * `replaced`: it was never sent, and has the new payload and a new key. `settling`: it was sent and the outcome
 * is not known yet; the edit is stored, and made if the old key turns out not to have happened. Otherwise it
 * is found among the failed operations as `too_late`.
 */
export type EditResult = 'replaced' | 'settling' | 'not_waiting';

/** `cancelled`: it will never happen. `settling`: as soon as the outcome is known, or a group has turned back. */
export type CancelResult = 'cancelled' | 'settling' | 'not_waiting';

/**
 * Operations that happen once, though the device is offline, killed or opened twice. What `enqueue` has answered
 * for is stored and is sent until a definite answer comes, under one key.
 */
export class Outbox {
  readonly status: StatusStore;
  readonly failed: FailedOperations;
  readonly #options: OutboxOptions;
  readonly #world: ClientWorld;
  readonly #book: OperationBook;
  readonly #enqueuer: Enqueuer;
  readonly #status: LiveStatus;
  readonly #listeners = new Listeners<OutboxEvent>();
  readonly #bulletin: Bulletin;
  readonly #lock: RunnerLock;
  readonly #closing = new AbortController();
  readonly #runnerOptions: RunnerOptions;
  #runner: Runner | null = null;
  #paused: PauseReason | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #housekeeping: ClientTimer | null = null;

  constructor(options: OutboxOptions) {
    checkOptions(options, KNOWN);
    const name = `onceward:${options.name ?? 'outbox'}`;
    const inBrowser = isBrowser();
    const connectivity = options.connectivity ?? (inBrowser ? browserConnectivity() : alwaysOnline);
    this.#options = options;
    this.#world = options.world ?? realWorld;
    this.#lock = options.lock ?? (inBrowser ? webLock(name) : noLock);
    this.#bulletin = options.bulletin ?? (inBrowser ? broadcastBulletin(name) : silentBulletin);
    this.#book = new OperationBook(options.storage);
    this.#enqueuer = new Enqueuer(this.#book, this.#world, (queued, lane) =>
      this.#queued(queued, lane),
    );
    this.#runnerOptions = this.#composeRunner(connectivity);
    this.#status = new LiveStatus(options.storage, this.#world, () => ({
      sending: this.#runner?.sending ?? 0,
      running: this.#runner !== null,
      paused: this.#paused,
      online: connectivity.online(),
    }));
    this.status = this.#status;
    this.failed = new FailedOperations(this.#book, this.#world, (operation) =>
      this.#changed(operation),
    );
    this.#bulletin.listen((notice) => this.#hear(notice));
    this.#status.touch();
    if (options.start !== false) this.#running = this.#run((runner) => runner.run(), false);
  }

  #composeRunner(connectivity: Connectivity): RunnerOptions {
    const options = this.#options;
    const world = this.#world;
    const policy = { ...RETRY_DEFAULTS, ...options.retry };
    const send: typeof fetch = options.fetch ?? ((input, init) => fetch(input, init));
    return {
      book: this.#book,
      world,
      policy,
      breakers: new Breakers(world, options.breaker),
      connectivity,
      sender: { fetch: send, auth: options.auth, isDone: options.isDone, policy, world },
      concurrency: options.concurrency ?? 6,
      replayWindowMs: options.replayWindowMs ?? DAY,
      tell: (event, operation) => this.#tell(event, operation),
      isPaused: () => this.#paused !== null,
      onUnauthorized: () => this.#pause('auth'),
    };
  }

  /** Stores an operation and answers when it is safe. It is sent when its turn comes. */
  enqueue(request: OutboxRequest, options: EnqueueOptions = {}): Promise<Queued> {
    return this.#add(takeRequest, request, options);
  }

  /**
   * Stores several operations that end all done or all undone. Each but the last says how it is taken back;
   * when one is refused, those before it are taken back in reverse order, each once.
   */
  enqueueGroup(
    steps: readonly GroupStep[],
    options: Omit<EnqueueOptions, 'coalesce'> = {},
  ): Promise<Queued> {
    return this.#add(takeGroup, steps, options);
  }

  /** Not an async function: those leave much to the collector, which may have to move ten thousand of them. */
  #add<T>(
    take: (given: T, key: string | undefined, world: ClientWorld) => Wanted['taken'],
    given: T,
    options: EnqueueOptions,
  ): Promise<Queued> {
    try {
      this.#checkOpen();
      const { lane = 'default', label = null, key, coalesce = null, allowDuplicate } = options;
      checkKey(key);
      if (coalesce !== null) checkName('coalesce', coalesce);
      checkName('lane', lane);
      return this.#enqueuer.add({
        lane,
        label,
        key,
        taken: take(given, key, this.#world),
        catchWithinMs: allowDuplicate ? null : (this.#options.catchDuplicatesWithinMs ?? null),
        coalesce,
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #queued({ id, superseded }: Queued, lane: string): void {
    if (superseded !== null) this.#tell({ type: 'superseded', id: superseded }, null);
    const operation = { id, lane };
    this.#tell({ type: 'queued', ...operation }, operation);
    this.#runner?.wake(lane);
  }

  find(id: string): Promise<Operation | null> {
    return this.#book.find(id);
  }

  findByKey(key: string): Promise<Operation | null> {
    return this.#book.findByKey(key);
  }

  /** Everything that has not been sent with an answer yet, in order within each lane. */
  waiting(): AsyncIterable<WaitingOperation> {
    return this.#book.all<WaitingOperation>('waiting/');
  }

  /** The operation when it has ended, `null` if it was cancelled or is not known. */
  async whenSettled(id: string, signal?: AbortSignal): Promise<Settled | null> {
    let heard: () => void = () => {};
    const unlisten = this.#listeners.add((event) => {
      if (!('id' in event) || event.id === id || event.id === null) heard();
    });
    try {
      for (;;) {
        const hearing = new Promise<void>((resolve) => {
          heard = resolve;
          signal?.addEventListener('abort', () => resolve(), { once: true });
        });
        const operation = await this.#book.find(id);
        if (operation?.state !== 'waiting') return operation;
        this.#checkOpen();
        signal?.throwIfAborted();
        await hearing;
      }
    } finally {
      unlisten();
    }
  }

  /** Gives a waiting operation another payload, under a new key and with its attempts reset. */
  async edit(id: string, request: OutboxRequest): Promise<EditResult> {
    this.#checkOpen();
    const stored = takeRequest(request);
    const key = mintKey(this.#world);
    const hash = await fingerprintOf([stored], this.#world);
    const wish = { kind: 'edit', key, request: stored, hash } as const;
    const changed = await this.#wish(id, wish);
    if (changed === 'granted') this.#tell({ type: 'edited', id, key }, null);
    return changed === 'granted' ? 'replaced' : changed;
  }

  /** Takes an operation back before it happens. A group takes back the steps that are done. */
  async cancel(id: string): Promise<CancelResult> {
    this.#checkOpen();
    const changed = await this.#wish(id, { kind: 'cancel' });
    if (changed === 'granted') this.#tell({ type: 'cancelled', id }, null);
    return changed === 'granted' ? 'cancelled' : changed;
  }

  async #wish(
    id: string,
    wish: NonNullable<WaitingOperation['wish']>,
  ): Promise<'granted' | 'settling' | 'not_waiting'> {
    for (;;) {
      const operation = await this.#book.waiting(id);
      if (operation === null) return 'not_waiting';
      if (wish.kind === 'edit' && operation.group) {
        throw invalid('a group cannot be edited; cancel it');
      }
      const wishing: WaitingOperation = { ...operation, wish };
      const granted = grantWish(wishing, this.#world.now());
      if (!(await this.#book.replace(operation, granted ?? wishing))) continue;
      this.#changed(operation);
      const ended = granted?.state === 'gone' || (granted !== null && wish.kind === 'edit');
      return ended ? 'granted' : 'settling';
    }
  }

  /** Sends nothing more until `resume`. What is on its way is settled first. */
  pause(): void {
    this.#pause('user');
  }

  /** Goes on after `pause`, or after the user has signed in again. */
  resume(): void {
    this.#pause(null);
  }

  /** Sends what can be sent now, if no other tab is at it, and answers when that is done. */
  async drain(): Promise<void> {
    this.#checkOpen();
    await this.#run((runner) => runner.drain(), true);
  }

  /** Every event of this outbox until the returned function is called. */
  subscribe(listener: (event: OutboxEvent) => void): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Stops sending. What was given to `enqueue` is stored first. A request on its way is broken off; the next life
   * sends it again under its key.
   */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.#housekeeping?.cancel();
    await this.#running;
    await this.#enqueuer.last;
    this.#status.close();
    this.#bulletin.close();
    this.#tell({ type: 'changed_elsewhere', id: null }, null);
    await this.#options.storage.close();
  }

  async #run(work: (runner: Runner) => Promise<void>, ifFree: boolean): Promise<void> {
    if (this.#runner !== null) return work(this.#runner);
    const { signal } = this.#closing;
    await this.#lock.hold(
      async () => {
        const runner = new Runner(this.#runnerOptions, signal);
        this.#runner = runner;
        this.#status.touch();
        this.#keepHouse();
        await work(runner);
        this.#runner = null;
      },
      { signal, ifFree },
    );
  }

  /** The runner forgets what is old, now and every hour. */
  #keepHouse(): void {
    const retention = { ...RETENTION_DEFAULTS, ...this.#options.retention };
    forgetOld(this.#book, retention, this.#world)
      .catch((error) => this.#tell({ type: 'storage_failed', message: String(error) }, null))
      .finally(() => {
        if (this.#closing.signal.aborted || this.#runner === null) return;
        this.#housekeeping = this.#world.startTimer(HOUR, () => this.#keepHouse());
      });
  }

  #pause(reason: PauseReason | null): void {
    this.#setPaused(reason);
    this.#bulletin.post({ kind: 'paused', reason });
  }

  #setPaused(reason: PauseReason | null): void {
    this.#paused = reason;
    if (reason === null) this.#runner?.wakeAll();
    this.#tell(reason === null ? { type: 'resumed' } : { type: 'paused', reason }, null);
  }

  /** `operation` is given when the other tabs should look at it too. */
  #tell(event: OutboxEvent, operation: { id: string; lane: string } | null): void {
    this.#status.touch();
    this.#listeners.tell(event);
    if (operation !== null && event.type !== 'sending') this.#post(operation);
  }

  #changed(operation: { id: string; lane: string }): void {
    this.#status.touch();
    this.#runner?.wake(operation.lane);
    this.#post(operation);
  }

  #post({ id, lane }: { id: string; lane: string }): void {
    this.#bulletin.post({ kind: 'changed', id, lane });
  }

  #hear(notice: Notice): void {
    if (notice.kind === 'paused') {
      this.#setPaused(notice.reason);
      return;
    }
    this.#runner?.wake(notice.lane);
    this.#tell({ type: 'changed_elsewhere', id: notice.id }, null);
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted)
      throw new ClientError('OUTBOX_CLOSED', 'the outbox is closed');
  }
}

/** Later Nodes have a `navigator` with locks too, but they do not know whether they are online. */
function isBrowser(): boolean {
  return typeof navigator !== 'undefined' && 'onLine' in navigator && 'locks' in navigator;
}

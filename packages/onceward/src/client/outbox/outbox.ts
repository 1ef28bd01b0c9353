import { BREAKER_DEFAULTS, type BreakerPolicy, breakersBy } from '../circuit-breaker.ts';
import { ClientError } from '../client-error.ts';
import {
  type ClientWorld,
  DAY,
  MINUTE,
  mintKey,
  pause,
  realWorld,
  SECOND,
} from '../client-world.ts';
import { alwaysOnline, browserConnectivity, type Connectivity } from '../connectivity.ts';
import { RETRY_DEFAULTS, type RetryPolicy } from '../retry-policy.ts';
import type { OutboxStorage } from '../storages/outbox-storage.ts';
import { Enqueuer, type Queued, type Wanted } from './enqueue.ts';
import { FailedOperations } from './failed-operations.ts';
import type { GroupStep, Groups } from './groups.ts';
import { RETENTION_DEFAULTS, type Retention } from './housekeeping.ts';
import {
  layout,
  type Operation,
  type Pause,
  type WaitingOperation,
  type Wish,
} from './operation.ts';
import { OperationBook } from './operation-book.ts';
import {
  type Bulletin,
  broadcastBulletin,
  eventOf,
  Listeners,
  type Notice,
  type OutboxEvent,
  type PauseReason,
  type Settled,
} from './outbox-events.ts';
import { LiveStatus, type StatusStore } from './outbox-status.ts';
import {
  checkKey,
  checkName,
  checkOptions,
  fingerprintOf,
  invalid,
  type OutboxRequest,
  takeRequest,
  toJson,
} from './request-intake.ts';
import { type OutboxCore, Runner } from './runner.ts';
import { noLock, type RunnerLock, webLock } from './runner-lock.ts';
import type { OutboxAuth, RedirectedAnswer } from './sender.ts';
import { fail, grantWish, isAtStart, type Next, theGroups } from './transition.ts';

export interface OutboxOptions {
  readonly storage: OutboxStorage;
  /** Names the lock and the channel that tabs share; one per storage. */
  readonly name?: string;
  /**
   * Who is signed in; `null`: no one. Stored with each operation when it is queued: only operations of the one who is
   * signed in are sent. Left out, all operations belong to nobody in particular.
   */
  readonly owner?: string | null | (() => string | null);
  /**
   * How long the server remembers a key. An operation that was sent, got no answer and is older is not sent
   * again but moved to the failed ones as `unknown`. 5 minutes unless given, as for a server of profile `http`.
   */
  readonly replayWindowMs?: number;
  /** How long a server may say "not now" (429, 503, Retry-After) before an operation is given up. A day. */
  readonly giveUpAfterMs?: number;
  /** Catches the same payload queued again under another key within this time. Off unless given. */
  readonly catchDuplicatesWithinMs?: number;
  readonly auth?: OutboxAuth;
  /** Makes each new key, for a server that wants keys of a form of its own. A UUID unless given. */
  readonly mintKey?: () => string;
  /** `false`: repeats do not carry `Idempotency-First-Sent`. For a server of another origin that does not allow it. */
  readonly firstSent?: boolean;
  /**
   * Asked about the answer at the end of a redirect, which is not taken for the API's own: it may be the page that asks
   * for a sign-in. `true`: the operation is done.
   */
  readonly isDone?: (answer: RedirectedAnswer) => boolean;
  /** `groups` of this package, where `enqueueGroup` is used. */
  readonly groups?: Groups;
  readonly retry?: Partial<RetryPolicy>;
  readonly breaker?: Partial<BreakerPolicy>;
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

const KNOWN =
  'storage,name,owner,replayWindowMs,giveUpAfterMs,catchDuplicatesWithinMs,auth,mintKey,firstSent,isDone,groups,retry,breaker,retention,concurrency,start,fetch,world,lock,bulletin,connectivity';

export interface EnqueueOptions {
  /** Operations of one lane are sent in the order in which they were queued; lanes do not wait for each other. */
  readonly lane?: string;
  /** The key, if the application has one. Queueing it again adds nothing. */
  readonly key?: string;
  readonly label?: string;
  /** Whatever the application wants to find with the operation: a JSON value. */
  readonly meta?: unknown;
  /** Takes the place of a waiting, never sent operation of the same lane with the same tag. */
  readonly coalesce?: string;
  /** For this call, do not check for the same payload under another key. */
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

/** `unknown`: it may have happened, and is among the failed operations with its key. */
export type AbandonResult = 'cancelled' | 'unknown' | 'not_waiting';

/**
 * Operations that happen once, though the device is offline, killed or opened twice. What `enqueue` has answered
 * for is stored and is sent until a definite answer comes, under one key.
 */
export class Outbox {
  readonly status: StatusStore;
  readonly failed: FailedOperations;
  readonly #core: OutboxCore;
  readonly #enqueuer: Enqueuer;
  readonly #status: LiveStatus;
  readonly #listeners = new Listeners<OutboxEvent>();
  readonly #bulletin: Bulletin | null;
  readonly #closing = new AbortController();
  #runner: Runner | null = null;
  /** As it is stored. */
  #pause: Pause | null = null;
  /** Of a service worker, which may lack the credentials that the pages have: it stops, and they go on. */
  #ownPause: Pause | null = null;
  /** As it was last emitted. */
  #emittedPause: PauseReason | null = null;
  #running: Promise<unknown> | null = null;
  #draining: Promise<unknown> | null = null;

  constructor(options: OutboxOptions) {
    checkOptions(options, KNOWN);
    const name = `onceward:${options.name ?? 'outbox'}`;
    // Later Nodes have a `navigator` too, but they do not know whether they are online.
    const inBrowser = globalThis.navigator?.onLine !== undefined;
    this.#bulletin = options.bulletin ?? (inBrowser ? broadcastBulletin(name) : null);
    const connectivity = options.connectivity ?? (inBrowser ? browserConnectivity() : alwaysOnline);
    const lock = options.lock ?? (inBrowser ? webLock(name, options.world) : noLock);
    const core = this.#compose(options, connectivity, lock);
    this.#core = core;
    this.#enqueuer = new Enqueuer(core, ({ id, superseded }, lane) => {
      if (superseded !== null) this.#emit({ type: 'superseded', id: superseded });
      this.#emit({ type: 'queued', id, lane });
      core.changed(id);
    });
    this.#status = new LiveStatus(core, () => ({
      sending: this.#runner?.sending ?? 0,
      running: this.#runner !== null,
      paused: this.#pauseReason(),
      online: connectivity.online(),
    }));
    this.status = this.#status;
    this.failed = new FailedOperations(core);
    this.#bulletin?.listen((notice) => this.#receive(notice));
    this.#status.touch();
    // So that a page that does not send shows it too.
    core.readPause().catch(() => {});
    if (options.start !== false) this.#running = this.#run((runner) => runner.run(), false);
  }

  #compose(given: OutboxOptions, connectivity: Connectivity, lock: RunnerLock): OutboxCore {
    const { world = realWorld, giveUpAfterMs = DAY, concurrency = 6, owner, ...options } = given;
    return {
      ...options,
      fetch: options.fetch ?? ((input, init) => fetch(input, init)),
      mintKey: options.mintKey ?? (() => mintKey(world)),
      concurrency,
      replayWindowMs: options.replayWindowMs ?? 5 * MINUTE,
      connectivity,
      lock,
      world,
      book: new OperationBook(options.storage),
      policy: { ...RETRY_DEFAULTS, ...options.retry, giveUpAfterMs },
      retention: { ...RETENTION_DEFAULTS, ...options.retention },
      // Nobody waits for an error here, so the server is asked twice as often as by `idempotentFetch`.
      breakerFor: breakersBy(world, {
        ...BREAKER_DEFAULTS,
        openMs: 30 * SECOND,
        ...options.breaker,
      }),
      owner: () => (typeof owner === 'function' ? owner() : owner) ?? null,
      base:
        globalThis.document?.baseURI ??
        globalThis.location?.href ??
        (options.fetch && 'http://localhost'),
      emit: (event) => this.#emit(event),
      changed: (id) => {
        this.#status.touch();
        this.#runner?.wake(layout.queueOf(id));
        this.#bulletin?.post({ kind: 'changed', id });
      },
      became: (previous, next) => {
        const event = eventOf(previous, next);
        if (event !== null) this.#emit(event);
        this.#core.changed(previous.id);
      },
      isPaused: () => this.#pauseReason() !== null,
      readPause: async () => {
        const [paused] = (await options.storage.read([layout.pause])) as (Pause | undefined)[];
        this.#pause = paused ?? this.#ownPause;
        const reason = this.#pauseReason();
        if (reason === this.#emittedPause) return;
        this.#emittedPause = reason;
        this.#emit(reason ? { type: 'paused', reason } : { type: 'resumed' });
      },
      refused: async (owner) => {
        const pause = { version: 1, owner };
        if (options.start === false) this.#ownPause = pause;
        else if (this.#pauseReason() !== 'user') await this.#storePause(pause);
      },
    };
  }

  /** Stores an operation and answers when it is safe. It is sent when its turn comes. */
  enqueue(request: OutboxRequest, options: EnqueueOptions = {}): Promise<Queued> {
    return this.#add(() => takeRequest(request, this.#core), options);
  }

  /**
   * Stores several operations that end all done or all undone. Each but the last says how it is taken back;
   * when one is refused, those before it are taken back in reverse order, each once.
   */
  enqueueGroup(
    steps: readonly GroupStep[],
    options: Omit<EnqueueOptions, 'coalesce'> = {},
  ): Promise<Queued> {
    return this.#add((key) => theGroups(this.#core).take(steps, key, this.#core), options);
  }

  /** Not an async function: those allocate much, and the GC may have to copy ten thousand of them. */
  #add(
    take: (key: string | undefined) => Wanted['taken'],
    options: EnqueueOptions,
  ): Promise<Queued> {
    try {
      this.#checkOpen();
      checkOptions(options, 'lane,key,label,meta,coalesce,allowDuplicate');
      const { lane = 'default', label = null, meta = null, key, coalesce = null } = options;
      checkKey(key);
      if (coalesce !== null) checkName('coalesce', coalesce);
      checkName('lane', lane);
      const owner = this.#core.owner();
      if (owner !== null) checkName('owner', owner);
      return this.#enqueuer.add({
        owner,
        lane,
        label,
        meta: JSON.parse(toJson(meta, 'meta')),
        key,
        taken: take(key),
        catchWithinMs: options.allowDuplicate ? null : (this.#core.catchDuplicatesWithinMs ?? null),
        coalesce,
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  find(id: string): Promise<Operation | null> {
    return this.#core.book.find(id);
  }

  findByKey(key: string): Promise<Operation | null> {
    return this.#core.book.findByKey(this.#core.owner(), key);
  }

  /** What the current owner has queued and has no answer yet, in order within each lane. */
  waiting(): AsyncIterable<WaitingOperation> {
    return this.#core.book.all<WaitingOperation>(layout.waiting, this.#core.owner());
  }

  /** The operation when it has ended, `null` if it was cancelled or is not known. */
  async whenSettled(id: string, signal?: AbortSignal): Promise<Settled | null> {
    let change: AbortController;
    const onChange = () => change.abort();
    const unlisten = this.#listeners.add(onChange);
    signal?.addEventListener('abort', onChange);
    try {
      for (;;) {
        change = new AbortController();
        const operation = await this.#core.book.find(id);
        if (operation?.state !== 'waiting') return operation;
        this.#checkOpen();
        signal?.throwIfAborted();
        await pause(this.#core.world, POLL_EVERY, change.signal);
      }
    } finally {
      unlisten();
      signal?.removeEventListener('abort', onChange);
    }
  }

  /** Gives a waiting operation another payload, under a new key and with its attempts reset. */
  async edit(id: string, request: OutboxRequest): Promise<EditResult> {
    this.#checkOpen();
    const stored = takeRequest(request, this.#core);
    const key = this.#core.mintKey();
    const hash = await fingerprintOf([stored], this.#core.world);
    const next = await this.#wish(id, { kind: 'edit', key, request: stored, hash });
    if (next === null) return 'not_waiting';
    return next.state === 'waiting' && next.wish !== null ? 'settling' : 'replaced';
  }

  /** Takes an operation back before it happens. A group takes back the steps that are done. */
  async cancel(id: string): Promise<CancelResult> {
    const next = await this.#wish(id, { kind: 'cancel' });
    if (next === null) return 'not_waiting';
    return next.state === 'cancelled' ? 'cancelled' : 'settling';
  }

  #wish(id: string, wish: Wish): Promise<Next | null> {
    return this.#replace(id, (operation) => {
      if (wish.kind === 'edit' && operation.group) {
        throw invalid('groups cannot be edited');
      }
      const wishing: WaitingOperation = { ...operation, wish };
      return grantWish(wishing, this.#core) ?? wishing;
    });
  }

  /**
   * Gives up an operation now, though it may have happened: for one that can be neither settled nor cancelled. Then it
   * is kept among the failed ones as `unknown`. A group is left as far as it has come.
   */
  async abandon(id: string): Promise<AbandonResult> {
    const next = await this.#replace(id, (operation) =>
      operation.unsettledSince === null && isAtStart(operation)
        ? { state: 'cancelled' }
        : fail(operation, 'unknown', ABANDONED, this.#core.world.now()),
    );
    if (next === null) return 'not_waiting';
    return next.state === 'cancelled' ? 'cancelled' : 'unknown';
  }

  /** Tries a waiting operation again at once, if it is its turn. `false`: it does not wait. */
  async retryNow(id: string): Promise<boolean> {
    return (await this.#replace(id, (waiting) => ({ ...waiting, notBefore: -1 }))) !== null;
  }

  /** Retries until no other tab writes between the read and the swap. `null`: it is not waiting. */
  async #replace(id: string, change: (operation: WaitingOperation) => Next): Promise<Next | null> {
    this.#checkOpen();
    for (;;) {
      const operation = await this.#core.book.waiting(id);
      if (operation === null) return null;
      const next = change(operation);
      if (await this.#core.book.replace(operation, next)) {
        this.#core.became(operation, next);
        return next;
      }
    }
  }

  /**
   * Nothing more is begun until `resume`, by any tab, in this run of the app or a later one. What is in flight is
   * settled. Answers when that is stored.
   */
  async pause(): Promise<void> {
    await this.#storePause({ version: 1 });
  }

  /** Goes on after `pause`. Also to be called when someone has signed in. */
  async resume(): Promise<void> {
    this.#ownPause = null;
    await this.#storePause(null);
  }

  async #storePause(next: Pause | null): Promise<void> {
    await this.#core.book.swap([{ key: layout.pause, next }]);
    this.#bulletin?.post({ kind: 'paused' });
    await this.#pauseChanged();
  }

  /** Someone has paused, or goes on. */
  async #pauseChanged(): Promise<void> {
    await this.#core.readPause();
    // The counts are those of the current owner, who may have changed.
    this.#status.touch();
    void this.#runner?.wakeAll();
  }

  /** Sends what can be sent now, if no other tab is sending, and resolves when that is done. */
  async drain(): Promise<void> {
    this.#checkOpen();
    this.#draining = this.#run((runner) => runner.drain(), true);
    await this.#draining;
  }

  /** Every event of this outbox until the returned function is called. */
  subscribe(listener: (event: OutboxEvent) => void): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Stops sending. What was given to `enqueue` is stored first. A request in flight is aborted; the next process
   * sends it again under its key.
   */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    await this.#running;
    await this.#draining;
    await this.#enqueuer.last;
    this.#status.close();
    this.#bulletin?.close();
    this.#emit({ type: 'changed_elsewhere', id: null });
    await this.#core.book.storage.close();
  }

  async #run(work: (runner: Runner) => Promise<void>, ifFree: boolean): Promise<void> {
    if (this.#runner !== null) return work(this.#runner);
    await this.#core.lock.hold(
      async (held) => {
        const runner = new Runner(this.#core, held);
        this.#runner = runner;
        this.#status.touch();
        await work(runner);
        this.#runner = null;
        this.#status.touch();
      },
      { signal: this.#closing.signal, ifFree },
    );
  }

  #pauseReason(): PauseReason | null {
    if (this.#pause === null) return null;
    const { owner } = this.#pause;
    if (owner === undefined) return 'user';
    return owner === this.#core.owner() ? 'auth' : null;
  }

  #emit(event: OutboxEvent): void {
    this.#status.touch();
    this.#listeners.emit(event);
  }

  #receive(notice: Notice): void {
    if (notice.kind === 'paused') this.#pauseChanged().catch(() => {});
    else {
      this.#runner?.wake(layout.queueOf(notice.id));
      this.#emit({ type: 'changed_elsewhere', id: notice.id });
    }
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) {
      throw new ClientError('OUTBOX_CLOSED', 'the outbox is closed');
    }
  }
}

/** Notices of other tabs may be lost. */
const POLL_EVERY = 2 * SECOND;
const ABANDONED = { code: 'ABANDONED', reason: 'abandoned' } as const;

import type { FailedOperation, OutboxRequest, WaitingOperation } from 'onceward/client';
import type { SimulatedDevice, Tab } from '../outbox/simulated-device.ts';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import type { Judge } from './judge.ts';
import type { EndToEndPlan, PlannedIntention } from './plan.ts';
import type { Tokens } from './tokens.ts';
import type { Command } from './upstream.ts';
import type { WitnessedStorage } from './witnessed-storage.ts';

/** What became of an intention, as far as its user has done anything about it. */
interface Wanted {
  readonly intention: PlannedIntention;
  id: string | null;
  isCancelled: boolean;
  retriesLeft: number;
}

export interface UserSurroundings {
  readonly plan: EndToEndPlan;
  readonly device: SimulatedDevice;
  readonly stored: WitnessedStorage;
  readonly tokens: Tokens;
  readonly time: VirtualTime;
  readonly dice: Dice;
  readonly judge: Judge;
}

/** The user of the device: wants things done, tries again after every crash, changes and takes back some. */
export class User {
  readonly wanted: readonly Wanted[];
  readonly #around: UserSurroundings;
  /** When a key was first on its way, in true time. */
  readonly #firstSent = new Map<string, number>();

  constructor(around: UserSurroundings) {
    this.#around = around;
    this.wanted = around.plan.intentions
      .filter(({ kind }) => kind !== 'write')
      .map((intention) => ({
        intention,
        id: null,
        isCancelled: false,
        retriesLeft: intention.retries,
      }));
    for (const wanted of this.wanted) {
      around.time.after(wanted.intention.at, () => void this.#enqueue(wanted));
    }
  }

  /** Called by the storage: something is about to be sent. */
  noteSending(operation: WaitingOperation): void {
    if (operation.unsettledSince === null) return;
    const key = currentKey(operation);
    if (!this.#firstSent.has(key)) this.#firstSent.set(key, this.#around.time.now);
  }

  get hasQueuedAll(): boolean {
    return this.wanted.every(({ id }) => id !== null);
  }

  /** Somebody who has something to queue, or something that waits for them; `null`: nobody. */
  get whoIsMissed(): string | null {
    const { operations } = this.#around.stored;
    const missed = this.wanted.find(
      ({ id }) => id === null || operations.get(id)?.state === 'waiting',
    );
    return missed?.intention.user ?? null;
  }

  /** Failed operations that a retry under the same key can still clear up. */
  get doubtful(): FailedOperation[] {
    return [...this.#around.stored.operations.values()].filter(
      (operation): operation is FailedOperation =>
        operation.state === 'failed' &&
        operation.outcome === 'unknown' &&
        this.#isWithin(operation),
    );
  }

  /** Reads what has failed, and retries some of it. */
  lookAtFailed(): void {
    for (const wanted of this.wanted) {
      const operation = this.#around.stored.operations.get(wanted.id ?? '');
      if (operation?.state !== 'failed' || wanted.retriesLeft === 0) continue;
      if (!this.#mayRetry(wanted, operation)) continue;
      wanted.retriesLeft -= 1;
      this.retry(operation);
    }
  }

  retry({ id }: FailedOperation): void {
    this.#anyTab()
      ?.outbox.failed.retry(id)
      .catch(() => {});
  }

  #mayRetry({ intention }: Wanted, operation: FailedOperation): boolean {
    // What came too late is another wish by now. A job has a key of another form than those that are minted.
    if (operation.outcome === 'too_late') return false;
    return operation.outcome === 'unknown' || intention.kind !== 'job';
  }

  /** Whether the server still knows the key. */
  #isWithin(operation: FailedOperation): boolean {
    const since = this.#firstSent.get(currentKey(operation)) ?? -Infinity;
    return this.#around.time.now - since < this.#around.plan.windowMs;
  }

  /** Tries in whatever tab is open until one says that it is stored; the key makes that safe. */
  async #enqueue(wanted: Wanted): Promise<void> {
    const { time } = this.#around;
    while (wanted.id === null) {
      const tab = this.#anyTab();
      if (tab === null || !this.#isSignedIn(wanted)) {
        await time.sleep(1_000);
        continue;
      }
      const queued = this.#enqueueIn(tab, wanted.intention).then(
        ({ id }) => {
          wanted.id ??= id;
        },
        () => {},
      );
      // A killed tab never answers; the user looks again after a while.
      await Promise.race([queued, time.sleep(2_000)]);
    }
    const { editAfterMs, cancelAfterMs } = wanted.intention;
    if (editAfterMs !== null) time.after(editAfterMs, () => void this.#edit(wanted));
    if (cancelAfterMs !== null) time.after(cancelAfterMs, () => void this.#cancel(wanted));
  }

  #enqueueIn(tab: Tab, intention: PlannedIntention): Promise<{ id: string }> {
    const { name, kind, lane, steps, refused, unsendable } = intention;
    if (kind === 'job') {
      const key = `device:${name.slice(2)}:0123456789abcdef`;
      const json = {
        type: refused ? 'unheard-of' : 'charge',
        payload: { ...commandOf(intention, 0), key },
      };
      return tab.outbox.enqueue({ url: 'https://serve.test/jobs', json }, { lane, key });
    }
    // As every profile takes it.
    const options = { lane, key: `00000000-0000-4000-8000-00000000000${name.slice(2)}` };
    const last = steps - 1;
    const request = (step: number, undo = false) => ({
      url: 'https://api.test/orders',
      json: {
        ...commandOf(intention, step),
        refuse: refused && step === last && !undo,
        undo,
        ...(kind === 'group' && unsendable && step === last && !undo && { note: '{{0.nothing}}' }),
      },
    });
    if (kind === 'plain') {
      if (intention.unsendable) this.#tryUnsendable(tab, request(0));
      return tab.outbox.enqueue(request(0), options);
    }
    const group = Array.from({ length: steps }, (_, step) => ({
      ...request(step),
      undo: request(step, true),
    }));
    return tab.outbox.enqueueGroup(group, options);
  }

  /** It has to be told so at once: in the lane, everything behind it would wait for nothing. */
  #tryUnsendable({ outbox }: Tab, request: OutboxRequest): void {
    const { dice, judge } = this.#around;
    const url = dice.pick(['https://api.test:99999/orders', 'ftp://api.test/orders', 'http://[']);
    outbox.enqueue({ ...request, url }).then(
      ({ id }) => judge.violate('what can never be sent is not taken', `${url} as ${id}`),
      () => {},
    );
  }

  #isSignedIn({ intention }: Wanted): boolean {
    return this.#around.tokens.user === intention.user;
  }

  async #edit(wanted: Wanted): Promise<void> {
    const { id, intention } = wanted;
    if (!this.#isSignedIn(wanted)) return;
    const json = { ...commandOf(intention, 0), long: !intention.long };
    const edited = this.#anyTab()?.outbox.edit(id ?? '', { url: 'https://api.test/orders', json });
    await edited?.catch(() => {});
  }

  async #cancel(wanted: Wanted): Promise<void> {
    const tab = this.#anyTab();
    if (tab === null || !this.#isSignedIn(wanted)) return;
    wanted.isCancelled = true;
    await tab.outbox.cancel(wanted.id ?? '').catch(() => {});
  }

  #anyTab(): Tab | null {
    const { device, dice } = this.#around;
    return device.tabs.length === 0 ? null : dice.pick(device.tabs);
  }
}

function commandOf({ name, user, long }: PlannedIntention, step: number): Command {
  return { intention: name, step, undo: false, user, refuse: false, long };
}

/** The key that was sent last. */
function currentKey({ steps, cursor, direction }: WaitingOperation | FailedOperation): string {
  const step = steps[cursor];
  return (direction === 'forward' ? step?.key : step?.undo?.key) ?? '';
}

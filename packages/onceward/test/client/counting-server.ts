/**
 * A server that keeps its side of the bargain, in a few lines: one effect per key, every effect counted. Its
 * `fetch` stands for the whole way there and back, and can be told to fail anywhere on it.
 */
export class CountingServer {
  readonly effects: string[] = [];
  readonly requests: {
    readonly key: string;
    readonly url: string;
    readonly item: string;
    readonly headers: Headers;
    readonly body: unknown;
  }[] = [];
  /** The effect happens, and its answer never arrives; this many times. */
  loseAnswers = 0;
  unreachable = false;
  /** The answer to refused requests. */
  retryAfter: string | null = null;
  /** Requests wait at the door until `release`. */
  holdBack = false;
  #held: (() => void)[] = [];
  readonly #statuses: number[] = [];
  readonly #refused = new Map<string, { status: number; text: string }>();
  readonly #lost = new Set<string>();
  readonly #answers = new Map<string, { status: number; text: string }>();

  refuseNext(...statuses: number[]): void {
    this.#statuses.push(...statuses);
  }

  /** With a problem it is refused at the door, before its key is looked up: that is not kept. */
  refuseItem(item: string, status: number, problem?: object): void {
    this.#refused.set(item, { status, text: problem === undefined ? '' : JSON.stringify(problem) });
  }

  accept(item: string): void {
    this.#refused.delete(item);
  }

  /** Every answer about this item is lost. */
  loseItem(item: string): void {
    this.#lost.add(item);
  }

  forgetKeys(): void {
    this.#answers.clear();
  }

  release(): void {
    this.holdBack = false;
    for (const go of this.#held.splice(0)) go();
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers);
    const key = headers.get('idempotency-key') ?? '';
    const item = itemOf(String(input), init?.body);
    this.requests.push({ key, url: String(input), item, headers, body: init?.body });
    if (this.unreachable) throw new TypeError('fetch failed');
    if (this.holdBack) {
      const released = new Promise<void>((go) => this.#held.push(go));
      await Promise.race([released, silence(init?.signal)]);
    }

    const turnedAway = this.#statuses.shift();
    if (turnedAway !== undefined) {
      const advice = new Headers(
        this.retryAfter === null ? {} : { 'retry-after': this.retryAfter },
      );
      return new Response('', { status: turnedAway, headers: advice });
    }
    const { answer, replayed } = this.#answer(key, item);
    if (this.loseAnswers > 0 || this.#lost.has(item)) {
      this.loseAnswers -= 1;
      return silence(init?.signal);
    }
    const response = {
      'content-type': 'application/json',
      'idempotency-replayed': String(replayed),
    };
    return new Response(answer.text, { status: answer.status, headers: response });
  };

  #answer(key: string, item: string) {
    const known = this.#answers.get(key);
    if (known !== undefined) return { answer: known, replayed: true };
    const refusal = this.#refused.get(item);
    if (refusal === undefined) this.effects.push(item);
    const answer = refusal ?? { status: 201, text: JSON.stringify({ id: `id-of-${item}` }) };
    // What was turned away before it began is not kept.
    const isKept = ![401, 429, 503].includes(answer.status) && !(refusal && refusal.text !== '');
    if (isKept) this.#answers.set(key, answer);
    return { answer, replayed: false };
  }
}

function itemOf(url: string, body: unknown): string {
  try {
    return String((JSON.parse(String(body)) as { item: unknown }).item);
  } catch {
    return url;
  }
}

function silence(signal: AbortSignal | null | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}

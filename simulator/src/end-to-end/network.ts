import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';

export interface WireRequest {
  readonly host: string;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface WireAnswer {
  readonly status: number;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** The sender of a request, as far as the server knows. */
export interface Caller {
  hasLeft: boolean;
  /** Called when it becomes known that it has. */
  whenLeft: (() => void) | null;
}

/** `null`: the connection broke before an answer was there. */
export type Reply = (answer: WireAnswer | null) => void;

/** A server that can be reached. `null`: nobody listens there now. */
export type Host = () => ((request: WireRequest, caller: Caller, reply: Reply) => void) | null;

export interface NetworkFaults {
  lostRequest: number;
  lostAnswer: number;
  lateRequest: number;
  atTheDoor: number;
}

/** Longer than a client waits for an answer, and so after it has tried again. */
const LATEST_MS = 50_000;

/** The way from the devices to the servers: requests and answers are lost, held up, and broken off. */
export class Network {
  readonly faults: NetworkFaults;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #hosts: Readonly<Record<string, Host>>;

  constructor(
    time: VirtualTime,
    dice: Dice,
    hosts: Readonly<Record<string, Host>>,
    faults: NetworkFaults,
  ) {
    this.#time = time;
    this.#dice = dice;
    this.#hosts = hosts;
    this.faults = faults;
  }

  /** `fetch` as one life on a device sees it. It follows redirects, as browsers do, with a GET. */
  fetchOf(isAlive: () => boolean): typeof fetch {
    return (input, init) =>
      new Promise((resolve, reject) => {
        const caller: Caller = { hasLeft: false, whenLeft: null };
        const tell = (act: () => void) => isAlive() && act();
        const leave = () => {
          tell(() => reject(init?.signal?.reason));
          if (!this.#dice.chance(0.5)) return;
          caller.hasLeft = true;
          caller.whenLeft?.();
        };
        init?.signal?.addEventListener('abort', leave, { once: true });
        this.#carry(requestOf(String(input), init), caller, (answer, error) => {
          // A combined signal that someone listens to is never collected, nor is the world that the listener holds.
          init?.signal?.removeEventListener('abort', leave);
          tell(() => (answer === null ? reject(error) : resolve(responseOf(answer))));
        });
      });
  }

  #carry(
    request: WireRequest,
    caller: Caller,
    arrive: (answer: WireAnswer | null, error: Error | null) => void,
  ): void {
    const { faults } = this;
    const dice = this.#dice;
    // The connection breaks at once, or nothing is ever heard again.
    const lose = () => dice.chance(0.5) && arrive(null, new TypeError('fetch failed'));
    const isLate = dice.chance(faults.lateRequest);
    const delay = isLate ? dice.between(100, LATEST_MS) : dice.between(1, 30);
    this.#time.after(delay, () => {
      if (dice.chance(faults.lostRequest)) return lose();
      const receive = this.#hosts[request.host]?.() ?? null;
      if (receive === null) {
        const refused = new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } });
        return arrive(null, refused);
      }
      const answered: typeof receive = dice.chance(faults.atTheDoor)
        ? (_request, _caller, reply) => reply(dice.pick(AT_THE_DOOR))
        : receive;
      answered(request, caller, (answer) => {
        this.#time.after(dice.between(1, 30), () => {
          if (answer === null || dice.chance(faults.lostAnswer)) lose();
          else arrive(answer, null);
        });
      });
    });
  }
}

function requestOf(address: string, init: RequestInit | undefined): WireRequest {
  const { host, pathname, search } = new URL(address);
  const headers: Record<string, string> = {};
  for (const [name, value] of new Headers(init?.headers)) headers[name] = value;
  const body = String(init?.body ?? '');
  return { host, method: init?.method ?? 'GET', target: pathname + search, headers, body };
}

/** Only what clients read of a response; real ones bring macrotasks of their own into the schedule. */
function responseOf(answer: WireAnswer): Response {
  const redirected = answer.status >= 301 && answer.status <= 303;
  const { status, headers, body } = redirected ? LOGIN_PAGE : answer;
  const get = (name: string) => {
    const at = headers.findIndex((other, i) => i % 2 === 0 && other.toLowerCase() === name);
    return at === -1 ? null : (headers[at + 1] ?? null);
  };
  const response = {
    status,
    ok: status >= 200 && status < 300,
    redirected,
    url: redirected ? 'https://api.test/login' : '',
    headers: { get },
    text: async () => body,
  };
  return response as unknown as Response;
}

/** What a firewall says, or a proxy that has lost its routes. */
const AT_THE_DOOR: readonly WireAnswer[] = [403, 404].map((status) => ({
  status,
  headers: ['content-type', 'text/html'],
  body: '<h1>No</h1>',
}));

const LOGIN_PAGE: WireAnswer = {
  status: 200,
  headers: ['content-type', 'text/html'],
  body: '<form>Sign in</form>',
};

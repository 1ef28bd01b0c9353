import { Engine } from '../../engine/engine.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import type { HttpEvent, RouteOptions } from '../../http/index.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import type { DoorAnswer, DoorCall, DoorRoute, Listen, ListeningDoor } from './door-app.ts';
import { DoorClient, type DoorReply, type DoorRequest } from './door-client.ts';

export interface OpenedDoor {
  send(request?: DoorRequest): Promise<DoorReply>;
  readonly client: DoorClient;
  /** How often a handler ran. */
  readonly runs: number;
  readonly events: readonly HttpEvent[];
  /** While false, every request is refused before it reaches the door. */
  isOpen: boolean;
}

export type Answers = Readonly<
  Record<string, (call: DoorCall) => DoorAnswer | Promise<DoorAnswer>>
>;

export interface OpenDoorOptions extends RouteOptions<unknown> {
  readonly store?: RecordStore;
  /** By method and path; `POST /orders` answers 201 by default. */
  readonly answers?: Answers;
  /** An engine of its own, as another process would have: doors on one store share one otherwise. */
  readonly apart?: boolean;
}

/** Opens doors for one test, and closes them after it. */
export class DoorBench {
  readonly #listen: Listen;
  readonly #closing: (() => Promise<void>)[] = [];

  constructor(listen: Listen) {
    this.#listen = listen;
  }

  async open(options: OpenDoorOptions = {}): Promise<OpenedDoor> {
    const { answers = {}, store = memoryStore(), apart = false, ...own } = options;
    const events: HttpEvent[] = [];
    const state = { runs: 0, isOpen: true };
    const routes = Object.entries({ 'POST /orders': newOrder, ...answers }).map(([name, answer]) =>
      toRoute(name, async (call) => {
        state.runs += 1;
        return answer(call);
      }),
    );
    const engine = apart
      ? { engine: new Engine({ store, world: nodeWorld(), platform: nodePlatform() }) }
      : { store };
    const listening = await this.#listen({
      options: {
        effect: { kind: 'external', onLapse: 'in_doubt' },
        log: (event) => events.push(event),
        ...own,
        ...engine,
      },
      authorize: () => state.isOpen,
      routes,
    });
    const client = new DoorClient(listening.url);
    this.#closing.push(() => closeDoor(client, listening, engine.engine));
    return {
      send: (request) => client.send(request),
      client,
      events,
      get runs() {
        return state.runs;
      },
      get isOpen() {
        return state.isOpen;
      },
      set isOpen(isOpen) {
        state.isOpen = isOpen;
      },
    };
  }

  async close(): Promise<void> {
    for (const close of this.#closing) await close();
  }
}

async function closeDoor(
  client: DoorClient,
  listening: ListeningDoor,
  engine: Engine | undefined,
): Promise<void> {
  client.close();
  await listening.close();
  await engine?.close();
}

function toRoute(name: string, respond: DoorRoute['respond']): DoorRoute {
  const [method, path] = name.split(' ');
  return { method: method as DoorRoute['method'], path: path ?? '/', respond };
}

let orders = 0;

/** Answers differently each time, so that a second run shows. */
export function newOrder(call: DoorCall): DoorAnswer {
  orders += 1;
  return { kind: 'json', status: 201, value: { order: orders, asked: call.body ?? null } };
}

export function bytesAnswer(
  bytes: Uint8Array,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
  status = 200,
): DoorAnswer {
  return { kind: 'bytes', status, headers, bytes };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Waits for a condition, and fails the test when it never holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    if (await holds()) return;
    await sleep(10);
  }
  throw new Error(`this never came true: ${what}`);
}

/** A gate that a handler waits at until the test opens it. */
export class Gate {
  open: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

export interface DoorLaw {
  readonly title: string;
  check(bench: DoorBench): Promise<void>;
}

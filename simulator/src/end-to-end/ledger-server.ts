import { createConnectRouter } from '@connectrpc/connect';
import { type Ledger, openLedger } from '@onceward/ledger';
import { ReadService, WriteService } from '@onceward/ledger/rpc';
import { MemoryHome } from '../../../packages/ledger/src/state/memory-home.ts';
import { authenticate, hideFaults } from '../../../packages/server/src/ledger/grpc/authenticate.ts';
import { readService } from '../../../packages/server/src/ledger/grpc/read-service.ts';
import { writeService } from '../../../packages/server/src/ledger/grpc/write-service.ts';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import { LogDisk, SimulatedLog } from './ledger-log.ts';
import type { Life } from './life.ts';
import type { Caller, Reply, WireRequest } from './network.ts';
import type { EndToEndPlan } from './plan.ts';

const CREDENTIAL = { apiKey: 'ak_shop', role: 'client', tenant: 'shop' } as const;
const OWNER = { actor: 'system:simulator', credential: 'ak_owner' } as const;

/** What outlives the processes of a ledger. */
export class LedgerDisk {
  readonly log = new LogDisk();
  readonly home = new MemoryHome();
  organization = '';
}

type Handler = ReturnType<typeof createConnectRouter>['handlers'][number];

/** One life of a ledger: the real pipeline behind its real Connect services, without sockets. */
export class LedgerServer {
  ledger: Ledger | null = null;
  readonly #life: Life;
  readonly #open = new Set<Reply>();
  #handlers: readonly Handler[] = [];

  private constructor(life: Life) {
    this.#life = life;
    life.whenOver(() => {
      for (const reply of this.#open) reply(null);
    });
  }

  static async open(
    life: Life,
    disk: LedgerDisk,
    plan: EndToEndPlan,
    time: VirtualTime,
    dice: Dice,
  ): Promise<LedgerServer> {
    const server = new LedgerServer(life);
    const ledger = await openLedger({
      home: disk.home,
      log: new SimulatedLog(disk.log, life, time, dice),
      world: life.world,
      // Small, so that checkpoints, snapshots, trimming and eviction all come about.
      checkpointBytes: 1_500,
      snapshotBytes: 4_000,
      historyBytes: 2_000,
      idempotencyTtlMs: 10_000,
      evictionInterval: 3,
      clientTtlMs: plan.keepMs,
      workingSetRows: 100,
    });
    if (disk.organization === '') {
      const made = await ledger.createOrganization(OWNER, { name: 'shop' });
      if (!made.ok) throw new Error(made.message);
      disk.organization = made.id;
    }
    server.ledger = ledger;
    server.#handlers = handlersOf(ledger);
    return server;
  }

  receive(request: WireRequest, _caller: Caller, reply: Reply): void {
    this.#open.add(reply);
    void this.#serve(request).then((answer) => {
      if (!this.#life.alive) return;
      this.#open.delete(reply);
      reply(answer);
    });
  }

  async #serve({ target, headers, body }: WireRequest) {
    const handler = this.#handlers.find(({ requestPath }) => requestPath === target);
    if (handler === undefined) throw new Error(`nobody answers ${target}`);
    const answer = await handler({
      httpVersion: '1.1',
      method: 'POST',
      url: `https://serve.test${target}`,
      header: new Headers(headers),
      body: piecesOf(Buffer.from(body)),
      signal: new AbortController().signal,
    });
    const pieces: Uint8Array[] = [];
    for await (const piece of (answer.body ?? []) as AsyncIterable<Uint8Array>) pieces.push(piece);
    const list = [...(answer.header ?? [])].flat();
    return { status: answer.status, headers: list, body: Buffer.concat(pieces).toString() };
  }
}

async function* piecesOf(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

function handlersOf(ledger: Ledger): readonly Handler[] {
  // Callers are not authenticated: credentials are not under test here.
  const credentials = {
    verify: async (apiKey: string) => (apiKey === CREDENTIAL.apiKey ? CREDENTIAL : null),
  } as unknown as Parameters<typeof authenticate>[0];
  const log = { error() {} } as unknown as Parameters<typeof hideFaults>[0];
  const router = createConnectRouter({
    requestGate: authenticate(credentials),
    interceptors: [hideFaults(log)],
    jsonOptions: { alwaysEmitImplicit: true },
  });
  router.service(WriteService, writeService(ledger));
  router.service(ReadService, readService(ledger, credentials));
  return router.handlers;
}

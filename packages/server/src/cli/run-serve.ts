import type { AddressInfo } from 'node:net';
import { buildApp } from '../app.ts';
import { compose, type Program } from '../compose.ts';
import { type GrpcServer, listenGrpc } from '../ledger/grpc/serve-grpc.ts';
import { programLog } from '../observability/program-log.ts';
import { EXIT } from './exit-code.ts';
import { runUntilSignal } from './lifecycle.ts';
import { listenFailure, urlOf } from './listen.ts';
import { print } from './output.ts';
import { configFor } from './setting-flags.ts';

/** Serves until a signal ends it, and gives the exit code. */
export async function runServe(options: Record<string, unknown>): Promise<number> {
  const config = configFor(options);
  const { host, port, logLevel, drainSeconds } = config.settings;
  const log = programLog(logLevel);
  const { ledger, role } = config.settings;
  const program = await compose(config, log, { ledger: ledger && role === 'both' });
  announceCredential(program);
  const app = await buildApp(program, { demo: config.settings.demo });
  let grpc: GrpcServer | null;
  try {
    await app.listen({ host, port }).catch((error: unknown) => {
      throw listenFailure(error, host, port);
    });
    grpc = await listenForGrpc(program);
  } catch (error) {
    await app.close();
    await program.close();
    throw error;
  }
  // From here on a signal drains; one may come as soon as the ready line is read.
  const exit = runUntilSignal(
    {
      async drain() {
        await Promise.all([app.close(), grpc?.close()]);
        await program.close();
      },
      cutOff() {
        app.server.closeAllConnections();
        grpc?.cutOff();
      },
    },
    drainSeconds * 1_000,
    log,
  );
  const address = app.server.address() as AddressInfo;
  if (grpc !== null) print(`onceward serves gRPC on ${urlOf(host, grpc.port)}`);
  print(`onceward is ready on ${urlOf(host, address.port)}`);
  return EXIT[await exit].code;
}

/** By default on the port after the other. */
async function listenForGrpc(program: Program): Promise<GrpcServer | null> {
  const { host, port, ledgerGrpcPort } = program.config.settings;
  if (program.ledger === null) return null;
  const wanted = ledgerGrpcPort ?? (port === 0 ? 0 : port + 1);
  return listenGrpc(program, program.ledger, host, wanted).catch((error: unknown) => {
    throw listenFailure(error, host, wanted, 'choose another with LEDGER_GRPC_PORT (--grpc-port)');
  });
}

/** Before anything else can fail: it was stored, and is never printed again. */
export function announceCredential({ madeCredential }: Program): void {
  if (madeCredential === null) return;
  print('The admin credential, shown this once; only its hash is kept:');
  print(`  ONCEWARD_API_KEY=${madeCredential.apiKey}`);
  print(`  ONCEWARD_API_SECRET=${madeCredential.apiSecret}`);
}

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buildApp } from '../app.ts';
import { compose } from '../compose.ts';
import { Gateway } from '../gateway/gateway.ts';
import { requireKeySets } from '../gateway/identity/key-set.ts';
import { programLog } from '../observability/program-log.ts';
import { CommandFailure, EXIT } from './exit-code.ts';
import { runUntilSignal } from './lifecycle.ts';
import { listenFailure, urlOf } from './listen.ts';
import { print } from './output.ts';
import { announceCredential } from './run-serve.ts';
import { configFor } from './setting-flags.ts';

/** Proxies the API until a signal ends it, and gives the exit code. */
export async function runGateway(options: Record<string, unknown>): Promise<number> {
  const config = configFor(options);
  const { host, port, adminHost, adminPort, upstream, logLevel, drainSeconds } = config.settings;
  if (upstream === null) {
    throw new CommandFailure('usage', 'ONCEWARD_UPSTREAM is not set; say --upstream URL');
  }
  requireKeySets(config);
  const log = programLog(logLevel);
  const program = await compose(config, log);
  announceCredential(program);
  const gateway = new Gateway(program, upstream);
  let draining = false;
  const admin = await buildApp(program, {
    demo: false,
    host: adminHost,
    isDraining: () => draining,
  });
  try {
    await admin.listen({ host: adminHost, port: adminPort }).catch((error: unknown) => {
      const settings = 'ONCEWARD_ADMIN_HOST and ONCEWARD_ADMIN_PORT';
      const remedy = `choose another with ${settings} (--admin-host, --admin-port)`;
      throw listenFailure(error, adminHost, adminPort, remedy);
    });
    gateway.server.listen(port, host);
    await once(gateway.server, 'listening').catch((error: unknown) => {
      throw listenFailure(error, host, port);
    });
  } catch (error) {
    await admin.close();
    await program.close();
    throw error;
  }
  const exit = runUntilSignal(
    {
      async drain() {
        draining = true;
        await gateway.close();
        await admin.close();
        await program.close();
      },
      cutOff() {
        gateway.cutOff();
        admin.server.closeAllConnections();
      },
    },
    drainSeconds * 1_000,
    log,
  );
  const own = gateway.server.address() as AddressInfo;
  const other = admin.server.address() as AddressInfo;
  print(`onceward admin is on ${urlOf(adminHost, other.port)}`);
  print(`onceward is ready on ${urlOf(host, own.port)}`);
  return EXIT[await exit].code;
}

import { localAccess } from '../api/local-access.ts';
import type { Api, ZodTypes } from '../api/zod-schemas.ts';
import type { Program } from '../compose.ts';
import { jobRoutes } from './job-routes.ts';
import { managerRoutes } from './manager-routes.ts';
import { openJobs } from './open-jobs.ts';

/**
 * Opens this process's part of the jobs and hangs it on the server, which listens on `host`. It is closed with the
 * server.
 */
export async function serveJobs(app: Api, program: Program, host: string): Promise<void> {
  const { config, engine, log, credentials, quota, events } = program;
  const { settings } = config;
  const jobs = await openJobs({ settings, engine, log, quota, observe: events.emit });
  const { gate, endpoint, globalView } = jobs;
  app.addHook('onClose', () => jobs.close(config.settings.drainSeconds * 1_000));
  const local = localAccess({ host, localAccess: config.settings.localAccess });
  if (gate !== null) jobRoutes(app, { gate, globalView, credentials, local });
  if (endpoint !== null) {
    await app.register(async (scope) => {
      managerRoutes(scope.withTypeProvider<ZodTypes>(), endpoint);
    });
  }
}

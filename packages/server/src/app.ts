import Fastify, { type FastifyBaseLogger, LogController } from 'fastify';
import { adminRoutes } from './api/admin/admin-routes.ts';
import { auditRoutes } from './api/admin/audit-routes.ts';
import { eventStream } from './api/admin/event-stream.ts';
import { describeApi, serveDocuments } from './api/documents.ts';
import { healthRoutes } from './api/health-routes.ts';
import { hostCheck } from './api/host-check.ts';
import { OpenConnections } from './api/open-connections.ts';
import { operationsRoutes } from './api/operations-routes.ts';
import { assertHost, refuseMalformed, SERVER_OPTIONS } from './api/raw-refusals.ts';
import { refuseEarly, refuseProperly } from './api/refusals.ts';
import { type Api, validateWithZod, type ZodTypes } from './api/zod-schemas.ts';
import type { Program } from './compose.ts';
import { demoRoutes } from './demo/demo-routes.ts';
import { serveJobs } from './jobs/serve-jobs.ts';
import { serveConnect } from './ledger/grpc/serve-grpc.ts';
import { serveRest } from './ledger/rest/serve-rest.ts';
import { VERSION } from './version.ts';

/** A scope and a key fill a path; each of their characters may take up nine (`%F0%9F%98` and so on). */
const LONGEST_PARAMETER = 6_000;

export interface AppOptions {
  /** Whether the demo orders API is served too. */
  readonly demo: boolean;
  /** Where it listens; `HOST` by default. */
  readonly host?: string;
  /** Whether what this stands beside is finishing, and should get no new requests. */
  isDraining?(): boolean;
}

export async function buildApp(program: Program, options: AppOptions): Promise<Api> {
  const { config, log } = program;
  let closing = false;
  const app: Api = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.settings.maxRequestBytes,
    requestTimeout: SERVER_OPTIONS.requestTimeout,
    http: SERVER_OPTIONS,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    frameworkErrors: refuseEarly,
  }).withTypeProvider<ZodTypes>();
  const connections = new OpenConnections(app.server);
  connections.countRequests(app.server);
  refuseMalformed(app.server, connections);
  const host = options.host ?? config.settings.host;
  const checkHost = hostCheck({ host, allowedHosts: config.settings.allowedHosts });
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    assertHost(raw);
    done(checkHost({ host: raw.headers.host, socket: raw.socket }));
  });
  app.addHook('preClose', async () => {
    closing = true;
    connections.endIdle();
  });

  validateWithZod(app);
  refuseProperly(app, log);
  timeRequests(app, program);
  await describeApi(app, VERSION);
  healthRoutes(app, program, () => closing || options.isDraining?.() === true);
  // A gate decides nothing, so it has no store to inspect and nothing to offer but jobs.
  if (config.settings.role !== 'gate') {
    operationsRoutes(app, program);
    adminRoutes(app, program);
  }
  auditRoutes(app, program);
  eventStream(app, program);
  await serveJobs(app, program, host);
  if (program.ledger !== null) {
    await serveRest(app, program, program.ledger);
    await serveConnect(app, program, program.ledger);
  }
  if (options.demo && config.settings.role !== 'gate') {
    await app.register((scope) => demoRoutes(scope.withTypeProvider<ZodTypes>(), program));
  }
  await serveDocuments(app);
  return app;
}

function timeRequests(app: Api, { metrics, log }: Program): void {
  app.addHook('onResponse', (request, reply, done) => {
    // Unknown paths are one route, or a client could grow our memory with made-up paths.
    const route = request.routeOptions.url ?? 'none';
    const { method } = request;
    const status = reply.statusCode;
    const ms = reply.elapsedTime;
    metrics.timeRequest(method, route, status, ms / 1_000);
    if (log.isLevelEnabled('debug')) {
      log.debug({ method, route, status, ms: Math.round(ms) }, 'request');
    }
    done();
  });
}

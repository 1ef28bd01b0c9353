import { once, setMaxListeners } from 'node:events';
import {
  constants,
  createServer,
  type Http2Server,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { ConnectRouter } from '@connectrpc/connect';
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import type { Ledger } from '@onceward/ledger';
import { AdminService, ReadService, WriteService } from '@onceward/ledger/rpc';
import { hostCheck } from '../../api/host-check.ts';
import type { Problem } from '../../api/problem.ts';
import { SERVER_OPTIONS } from '../../api/raw-refusals.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { Program } from '../../compose.ts';
import { adminService } from './admin-service.ts';
import { authenticate, contextOf, hideFaults } from './authenticate.ts';
import { readService } from './read-service.ts';
import { writeService } from './write-service.ts';

/** How long a connection whose session has ended waits for its peer to close it. */
const LINGER_MS = 250;
/** Calls of one connection at once; more have to wait for their turn. */
const MOST_CALLS = 256;

/**
 * What is the same for both ports. Zeros are sent, so that a client in JSON reads a 0 and not nothing. Members that
 * are not in the .proto are refused: one that was dropped may have been a condition.
 */
function connectOptions({ config, credentials, log }: Program, ledger: Ledger) {
  return {
    contextValues: contextOf,
    requestGate: authenticate(credentials),
    interceptors: [hideFaults(log)],
    jsonOptions: { alwaysEmitImplicit: true, ignoreUnknownFields: false },
    readMaxBytes: config.settings.maxRequestBytes,
    routes(router: ConnectRouter) {
      router.service(WriteService, writeService(ledger));
      router.service(ReadService, readService(ledger, credentials));
      router.service(AdminService, adminService(ledger));
    },
  };
}

/** Connect and gRPC-Web on the main port, for browsers and clients without HTTP/2. */
export async function serveConnect(app: Api, program: Program, ledger: Ledger): Promise<void> {
  // A watcher would hold the server open for as long as it likes.
  const closing = closingSignal();
  app.addHook('preClose', async () => closing.abort());
  await app.register(async (scope) => {
    // The .proto describes these; OpenAPI cannot.
    scope.addHook('onRoute', (route) => {
      route.schema = { hide: true };
    });
    await scope.register(fastifyConnectPlugin, {
      ...connectOptions(program, ledger),
      shutdownSignal: closing.signal,
    });
  });
}

function refuse(response: Http2ServerResponse, problem: Problem): void {
  response.writeHead(problem.status, { 'content-type': 'application/problem+json' });
  response.end(JSON.stringify(problem.toBody()));
}

export interface GrpcServer {
  readonly port: number;
  close(): Promise<void>;
  cutOff(): void;
}

/** gRPC without TLS on a port of its own. */
export async function listenGrpc(
  program: Program,
  ledger: Ledger,
  host: string,
  port: number,
): Promise<GrpcServer> {
  const closing = closingSignal();
  const options = { ...connectOptions(program, ledger), shutdownSignal: closing.signal };
  const checkHost = hostCheck(program.config.settings);
  const serve = connectNodeAdapter(options);
  const server = createServer(
    { settings: { maxConcurrentStreams: MOST_CALLS } },
    (request, response) => {
      const { authority, headers, socket } = request;
      const problem = checkHost({ host: authority || headers.host, socket });
      if (problem === undefined) serve(request, response);
      else refuse(response, problem);
    },
  );
  server.on('stream', endSlowUpload);
  const { sessions, sockets } = track(server);
  server.listen(port, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      closing.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.close();
      // A peer that got the end may still hold its own side open for ever.
      const reaper = setInterval(() => {
        for (const socket of sockets) if (socket.writableFinished) socket.destroy();
      }, LINGER_MS);
      await closed;
      clearInterval(reaper);
    },
    cutOff() {
      // Not the sessions: one that is closing already leaves its connection to the peer.
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Every call listens to it, and there may be any number of calls. */
function closingSignal(): AbortController {
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  return closing;
}

/** All that a client sends is one message, even if it then watches for days. */
function endSlowUpload(stream: ServerHttp2Stream): void {
  const timer = setTimeout(
    () => stream.close(constants.NGHTTP2_CANCEL),
    SERVER_OPTIONS.requestTimeout,
  );
  timer.unref();
  const arrived = () => clearTimeout(timer);
  stream.once('end', arrived).once('close', arrived);
}

function track(server: Http2Server) {
  const sessions = new Set<ServerHttp2Session>();
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
    // The peer's own end of it is no fault of ours; what it was doing ends with it.
    session.on('error', () => session.destroy());
  });
  return { sessions, sockets };
}

import 'reflect-metadata';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import fastifyCompress from '@fastify/compress';
import fastifyHelmet from '@fastify/helmet';
import {
  type ArgumentsHost,
  type CallHandler,
  ConflictException,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  HttpException,
  type INestApplication,
  Module,
  type NestInterceptor,
  Req,
  RequestMapping,
  RequestMethod,
  Res,
  StreamableFile,
  ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { map, tap } from 'rxjs';
import { describe, it } from 'vitest';
import { IdempotencyModule } from '../../src/doors/nest.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';
import {
  type App,
  doorOptions,
  has,
  KINDS,
  type Kind,
  LARGE,
  type Neighbour,
  pieces,
  proveBeside,
  proveWork,
  Runs,
  type Start,
  TERMS,
} from './matrix.ts';

type NestNeighbour = Neighbour<(app: INestApplication) => unknown>;

interface AnyResponse {
  status(code: number): unknown;
  header(name: string, value: string): unknown;
}

const answers: Partial<Record<Kind, (response: AnyResponse) => unknown>> = {
  json: () => ({ got: 'widget' }),
  stream: () => new StreamableFile(Readable.from(pieces(), { objectMode: false }) as never),
  file: () => new StreamableFile(createReadStream(TERMS), { type: 'text/plain' }),
  redirect: (response) => {
    response.header('location', '/orders/1');
    response.status(303);
  },
  refused: () => {
    throw new ConflictException('sold out');
  },
  failed: () => {
    throw new Error('broken');
  },
  empty: (response) => {
    response.status(204);
  },
  large: () => LARGE,
};

const ANSWERED = KINDS.filter((kind) => kind in answers);

/** A controller as its decorators would make it, with one method for each kind of answer. */
function controllerOf(runs: Runs): new () => object {
  class NeighbourController {}
  const { prototype } = NeighbourController;
  for (const [kind, answer] of Object.entries(answers)) {
    const value = (_request: unknown, response: AnyResponse) => {
      runs.note(kind);
      return answer(response);
    };
    Object.defineProperty(prototype, kind, { value, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(prototype, kind)!;
    RequestMapping({ path: kind, method: RequestMethod.POST })(prototype, kind, descriptor);
    Req()(prototype, kind, 0);
    Res({ passthrough: true })(prototype, kind, 1);
  }
  Controller()(NeighbourController);
  return NeighbourController;
}

/** Touches the answer after the handler, as interceptors that measure do. */
const measuring: NestInterceptor = {
  intercept: (context: ExecutionContext, next: CallHandler) =>
    next.handle().pipe(
      tap(() => context.switchToHttp().getResponse<AnyResponse>().header('x-measured', 'yes')),
      map((value: unknown) => value),
    ),
};

const telling: ExceptionFilter = {
  catch(error: unknown, host: ArgumentsHost) {
    const status = error instanceof HttpException ? error.getStatus() : 500;
    const response = host.switchToHttp().getResponse<{
      status(code: number): { send(body: unknown): unknown };
    }>();
    response.status(status).send({ told: status });
  },
};

const OF_NEST: readonly NestNeighbour[] = [
  { name: 'an interceptor', mount: () => (app) => app.useGlobalInterceptors(measuring) },
  { name: 'an exception filter', mount: () => (app) => app.useGlobalFilters(telling) },
  { name: 'a validation pipe', mount: () => (app) => app.useGlobalPipes(new ValidationPipe()) },
];

const ON_EXPRESS: readonly NestNeighbour[] = [...PACKAGES, ...OWN_WRAPS].map((one) => ({
  name: one.name,
  mount: (log) => (app) => app.use(one.mount(log)),
}));

const ON_FASTIFY: readonly NestNeighbour[] = [
  {
    name: '@fastify/helmet',
    mount: () => (app) => (app as NestFastifyApplication).register(fastifyHelmet as never),
    works: has('content-security-policy'),
  },
  {
    name: '@fastify/compress',
    mount: () => (app) =>
      (app as NestFastifyApplication).register(fastifyCompress as never, { encodings: ['gzip'] }),
  },
];

function nestStart(
  adapter: () => ExpressAdapter | FastifyAdapter,
  neighbours: readonly NestNeighbour[],
): Start {
  return async (hasDoor): Promise<App> => {
    class NeighbourModule {}
    Module({})(NeighbourModule);
    const runs = new Runs();
    const root = {
      module: NeighbourModule,
      imports: hasDoor ? [IdempotencyModule.forRoot(doorOptions())] : [],
      controllers: [controllerOf(runs)],
    };
    const app = await NestFactory.create(root, adapter(), {
      logger: false,
      forceCloseConnections: true,
    });
    for (const { mount } of neighbours) await mount([])(app);
    await app.listen(0, '127.0.0.1');
    return { url: await app.getUrl(), runs, close: () => app.close() };
  };
}

const platforms = [
  ['Express', () => new ExpressAdapter(), [...OF_NEST, ...ON_EXPRESS]],
  ['Fastify', () => new FastifyAdapter(), [...OF_NEST, ...ON_FASTIFY]],
] as const;

describe.each(platforms)('Nest on %s', (_name, adapter, neighbours) => {
  it.each(neighbours)(
    '[H14] $name beside the Nest door works, and so does the door',
    async (one) => {
      proveWork(one, 'before', await proveBeside(nestStart(adapter, [one]), ANSWERED));
    },
  );

  it('[H14] all of them together beside the Nest door are well', async () => {
    const all = neighbours.filter(({ name }) => name !== 'cookie-session');
    for (const order of [all, all.toReversed()]) {
      await proveBeside(nestStart(adapter, order), ANSWERED);
    }
  });
});

import 'reflect-metadata';
import {
  Body,
  type CanActivate,
  Controller,
  type DynamicModule,
  type ExecutionContext,
  Module,
  Req,
  RequestMapping,
  RequestMethod,
  Res,
  StreamableFile,
  UnauthorizedException,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { DoorAnswer, DoorApp, DoorRoute } from '../testing/doors/door-app.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { IdempotencyModule, type NestRequest } from './nest.ts';

/** What both adapters' responses can do. */
interface AnyResponse {
  status(code: number): unknown;
  header(name: string, value: string): unknown;
}

function reply(response: AnyResponse, answer: DoorAnswer): unknown {
  if (answer.kind === 'throw') throw answer.error;
  response.status(answer.kind === 'readable' ? 200 : answer.status);
  if (answer.kind === 'json') return answer.value;
  for (const [name, value] of Object.entries(answer.headers)) {
    response.header(name, value as string);
  }
  if (answer.kind === 'empty') return undefined;
  return new StreamableFile(answer.kind === 'bytes' ? answer.bytes : (answer.readable as never));
}

/** A controller as its decorators would make it, with one method for each route. */
function controllerOf(routes: readonly DoorRoute[]): new () => object {
  class SuiteController {}
  routes.forEach((route, index) => {
    const name = `route${index}`;
    const method = async (body: unknown, request: NestRequest, response: AnyResponse) => {
      const { idempotency } = request;
      const sent = request.headers['content-length'] === '0' ? undefined : body;
      return reply(response, await route.respond({ body: sent, idempotency }));
    };
    Object.defineProperty(SuiteController.prototype, name, { value: method, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(SuiteController.prototype, name)!;
    RequestMapping({ path: route.path, method: RequestMethod[route.method] })(
      SuiteController.prototype,
      name,
      descriptor,
    );
    Body()(SuiteController.prototype, name, 0);
    Req()(SuiteController.prototype, name, 1);
    Res({ passthrough: true })(SuiteController.prototype, name, 2);
  });
  Controller()(SuiteController);
  return SuiteController;
}

function guardOf(app: DoorApp): CanActivate {
  return {
    canActivate(context: ExecutionContext) {
      const { headers } = context.switchToHttp().getRequest<NestRequest>();
      if (!app.authorize(headers.authorization)) throw new UnauthorizedException();
      return true;
    },
  };
}

async function listen(app: DoorApp, adapter: ExpressAdapter | FastifyAdapter) {
  class SuiteModule {}
  Module({})(SuiteModule);
  const root: DynamicModule = {
    module: SuiteModule,
    imports: [
      IdempotencyModule.forRoot({
        ...app.options,
        scopeFrom: (request) => String(request.headers['x-user']),
      }),
    ],
    controllers: [controllerOf(app.routes)],
  };
  const nest = await NestFactory.create(root, adapter, {
    rawBody: true,
    logger: false,
    forceCloseConnections: true,
  });
  nest.useGlobalGuards(guardOf(app));
  await nest.listen(0, '127.0.0.1');
  return { url: await nest.getUrl(), close: () => nest.close() };
}

const skip = {
  '[H9] a stream that breaks off frees its key':
    'Nest ends a file that breaks off as if it were whole, so nobody below can tell',
};

doorSuite({ name: 'nest on express', listen: (app) => listen(app, new ExpressAdapter()), skip });
doorSuite({ name: 'nest on fastify', listen: (app) => listen(app, new FastifyAdapter()), skip });

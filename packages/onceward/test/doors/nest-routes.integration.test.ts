import 'reflect-metadata';
import {
  Body,
  Controller,
  type DynamicModule,
  type INestApplication,
  Module,
  ParseIntPipe,
  Post,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { map } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { IdempotencyModule, Idempotent, SkipIdempotency } from '../../src/doors/nest.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const options = () =>
  ({
    store: memoryStore(),
    scopeFrom: () => 'ada',
    effect: { kind: 'external', onLapse: 'in_doubt' },
  }) as const;

const runs = { plain: 0, strict: 0, free: 0, number: 0 };

class RoutesController {
  plain() {
    runs.plain += 1;
    return { n: runs.plain };
  }
  strict() {
    runs.strict += 1;
    return { n: runs.strict };
  }
  free() {
    runs.free += 1;
    return { n: runs.free };
  }
  number(amount: number) {
    runs.number += 1;
    return { amount };
  }
}

// Decorators by hand: the compiler of the tests only erases types.
Controller()(RoutesController);
for (const name of ['plain', 'strict', 'free', 'number'] as const) {
  const descriptor = Object.getOwnPropertyDescriptor(RoutesController.prototype, name)!;
  Post(name)(RoutesController.prototype, name, descriptor);
  if (name === 'strict')
    Idempotent({ required: true })(RoutesController.prototype, name, descriptor);
  if (name === 'free') SkipIdempotency()(RoutesController.prototype, name, descriptor);
}
Body('amount', ParseIntPipe)(RoutesController.prototype, 'number', 0);

async function start(
  adapter: ExpressAdapter | FastifyAdapter,
  module: DynamicModule,
): Promise<DoorClient> {
  class Root {}
  Module({})(Root as Type);
  const root = { module: Root, imports: [module], controllers: [RoutesController] };
  const app: INestApplication = await NestFactory.create(root, adapter, { logger: false });
  // As many applications have one: it wraps every result.
  app.useGlobalInterceptors({
    intercept: (_context, next) => next.handle().pipe(map((data: unknown) => ({ data }))),
  });
  await app.listen(0, '127.0.0.1');
  const client = new DoorClient(await app.getUrl());
  closing.push(
    () => client.close(),
    () => app.close(),
  );
  Object.assign(runs, { plain: 0, strict: 0, free: 0, number: 0 });
  return client;
}

const adapters = {
  express: () => new ExpressAdapter(),
  fastify: () => new FastifyAdapter(),
};

for (const [name, adapter] of Object.entries(adapters)) {
  describe(`Nest on ${name}`, () => {
    it('[H14] routes change their settings with @Idempotent, or are left alone', async () => {
      const client = await start(adapter(), IdempotencyModule.forRoot(options()));
      expect((await client.send({ path: '/strict' })).status).toBe(400);
      for (const path of ['/plain', '/strict', '/free']) {
        await client.send({ path, key: 'one' });
        await client.send({ path, key: 'one' });
      }
      expect(runs).toMatchObject({ plain: 1, strict: 1, free: 2 });
    });

    it('[H5] a replay is not wrapped a second time by other interceptors', async () => {
      const client = await start(adapter(), IdempotencyModule.forRoot(options()));
      const original = await client.send({ path: '/plain', key: 'one' });
      const replay = await client.send({ path: '/plain', key: 'one' });
      expect(original.json()).toEqual({ data: { n: 1 } });
      expect(replay.text).toBe(original.text);
    });

    it('[H6] what a pipe refuses is not kept', async () => {
      const client = await start(adapter(), IdempotencyModule.forRoot(options()));
      const wrong = { path: '/number', key: 'one', body: { amount: 'many' } };
      for (const _ of [1, 2]) {
        const reply = await client.send(wrong);
        expect(reply.status).toBe(400);
        expect(reply.headers['idempotency-replayed']).toBe('false');
      }
      const right = await client.send({ ...wrong, body: { amount: 7 } });
      expect([right.status, right.json()]).toEqual([201, { data: { amount: 7 } }]);
      expect(runs.number).toBe(1);
    });

    it('[H14] options may come from a factory, and only decorated routes may be managed', async () => {
      const module = IdempotencyModule.forRootAsync({
        useFactory: async () => ({ ...options(), routes: 'decorated' }),
      });
      const client = await start(adapter(), module);
      for (const path of ['/plain', '/strict']) {
        await client.send({ path, key: 'one' });
        await client.send({ path, key: 'one' });
      }
      expect(runs).toMatchObject({ plain: 2, strict: 1 });
    });
  });
}

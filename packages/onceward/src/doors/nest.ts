import {
  type CustomDecorator,
  type DynamicModule,
  Module,
  type ModuleMetadata,
  type Provider,
  SetMetadata,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import type { RouteOptions } from '../http/index.ts';
import {
  IdempotencyInterceptor,
  type NestOptions,
  type NestRequest,
  ROUTE_OPTIONS,
} from './nest-interceptor.ts';

export type { HttpOptions, IdempotencyContext, RouteOptions } from '../http/index.ts';
export { IdempotencyInterceptor, type NestOptions, type NestRequest } from './nest-interceptor.ts';

/** What `forRootAsync` needs: a function for the options, and what to call it with. */
export interface NestAsyncOptions<Request extends NestRequest = NestRequest>
  extends Pick<ModuleMetadata, 'imports'> {
  readonly inject?: Exclude<Parameters<typeof asProvider>[1], undefined>;
  readonly useFactory: (
    ...injected: never[]
  ) => NestOptions<Request> | Promise<NestOptions<Request>>;
}

/**
 * Makes the routes of an application idempotent, on Express and on Fastify:
 *
 *     IdempotencyModule.forRoot({ store, scopeFrom: (request) => request.user.id, effect })
 *
 * Guards run before it, so the caller is known; pipes run behind it, and what they refuse is not kept.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class.
export class IdempotencyModule {
  static forRoot<Request extends NestRequest = NestRequest>(
    options: NestOptions<Request>,
  ): DynamicModule {
    const interceptor = new IdempotencyInterceptor<Request>(options);
    return {
      module: IdempotencyModule,
      providers: [{ provide: APP_INTERCEPTOR, useValue: interceptor }],
    };
  }

  static forRootAsync<Request extends NestRequest = NestRequest>(
    options: NestAsyncOptions<Request>,
  ): DynamicModule {
    const { imports = [], inject, useFactory } = options;
    const make = async (...injected: never[]) =>
      new IdempotencyInterceptor<Request>(await useFactory(...injected));
    return { module: IdempotencyModule, imports, providers: [asProvider(make, inject)] };
  }
}

Module({})(IdempotencyModule);

function asProvider(
  useFactory: (...injected: never[]) => Promise<unknown>,
  inject?: Extract<Provider, { useFactory: unknown }>['inject'],
): Provider {
  return {
    provide: APP_INTERCEPTOR,
    useFactory: useFactory as (...injected: unknown[]) => Promise<unknown>,
    inject: inject ?? [],
  };
}

/** Settings of its own for a route or a controller. */
export function Idempotent<Request extends NestRequest = NestRequest>(
  options: RouteOptions<Request> = {},
): CustomDecorator<symbol> {
  return SetMetadata(ROUTE_OPTIONS, options);
}

/** Leaves a route or a controller alone. */
export function SkipIdempotency(): CustomDecorator<symbol> {
  return SetMetadata(ROUTE_OPTIONS, false);
}

import type { Readable } from 'node:stream';
import type { HttpOptions, IdempotencyContext } from '../../http/index.ts';

/** The application that a door is tried with. Each door's test builds it with its framework. */
export interface DoorApp {
  /** For the door, as they are; `scopeFrom` is to return the header `x-user`. */
  readonly options: DoorOptions;
  /** Asked with the header `authorization` before the door is reached; `false` answers 401. */
  authorize(credential: string | undefined): boolean;
  readonly routes: readonly DoorRoute[];
}

type WithoutScope<T> = T extends unknown ? Omit<T, 'scopeFrom'> : never;
export type DoorOptions = WithoutScope<HttpOptions<unknown>>;

export interface DoorRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  respond(call: DoorCall): Promise<DoorAnswer>;
}

export interface DoorCall {
  /** The body as the framework's own parser read it from JSON; `undefined` without one. */
  readonly body: unknown;
  readonly idempotency: IdempotencyContext | null | undefined;
}

/** What the handler of a route does, in the framework's usual way of doing it. */
export type DoorAnswer =
  | { readonly kind: 'json'; readonly status: number; readonly value: unknown }
  | {
      readonly kind: 'bytes';
      readonly status: number;
      /** To be set before the body; a list is several lines. */
      readonly headers: Readonly<Record<string, string | readonly string[]>>;
      readonly bytes: Uint8Array;
    }
  | {
      readonly kind: 'empty';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: 'readable';
      readonly headers: Readonly<Record<string, string>>;
      /** Handed to the framework, or piped into the response. Status 200. */
      readonly readable: Readable;
    }
  | { readonly kind: 'throw'; readonly error: Error };

/** A door that listens. */
export interface ListeningDoor {
  /** Without a slash at the end. */
  readonly url: string;
  close(): Promise<void>;
}

export type Listen = (app: DoorApp) => Promise<ListeningDoor>;

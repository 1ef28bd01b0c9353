import { randomUUID } from 'node:crypto';
import { type Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { ADMIN, type startServer } from './running-program.ts';

export type Server = Awaited<ReturnType<typeof startServer>>;
type Headers = Readonly<Record<string, string>>;

export const withHeaders =
  (headers: Headers): Interceptor =>
  (next) =>
  (request) => {
    for (const [name, value] of Object.entries(headers)) request.header.set(name, value);
    return next(request);
  };

/** To the port that the server says it serves gRPC on. */
export async function grpcTo(server: Server, headers: Headers = ADMIN): Promise<Transport> {
  const baseUrl = (await server.program.printed(/serves gRPC on (\S+)/))[1] ?? '';
  return createGrpcTransport({ baseUrl, interceptors: [withHeaders(headers)] });
}

/** The bytes of a UUID of version 4. */
export function newRpcKey(): Uint8Array {
  return new Uint8Array(Buffer.from(randomUUID().replaceAll('-', ''), 'hex'));
}

export const bytes = (text: string) => new TextEncoder().encode(text);
export const set = (key: string, value: string) => ({
  kind: { case: 'setEntity' as const, value: { key, value: bytes(value) } },
});

/** How a call failed. */
export async function failure(promise: Promise<unknown>): Promise<{ code: Code; message: string }> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => ConnectError.from(reason),
  );
  if (error === null) throw new Error('it did not fail');
  return { code: error.code, message: error.rawMessage };
}

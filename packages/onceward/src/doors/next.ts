/**
 * Makes a route handler of Next.js idempotent, on its Node.js runtime:
 *
 *     export const POST = withIdempotency(handler, { store, scopeFrom: userOf, effect, route: '/api/orders' })
 *
 * A route handler is a fetch handler with its parameters behind the request; those are handed through.
 */
export {
  type FetchOptions as NextOptions,
  type HttpOptions,
  type IdempotencyContext,
  idempotencyOf,
  withIdempotency,
} from './fetch.ts';

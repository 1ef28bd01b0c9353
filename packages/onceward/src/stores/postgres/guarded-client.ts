import { findTransactionControl, refuseControl } from '../transaction-control.ts';
import type { PgPoolClient } from './pg-driver.ts';

type Query = (...parameters: readonly unknown[]) => unknown;

/**
 * The connection as the work of a transaction gets it. A BEGIN or COMMIT of code that does not know that a
 * transaction is open, such as a mapper's own `transaction()`, would end it half-way: it is refused. The connection
 * cannot be given back either before the transaction has ended.
 */
export function guardedClient(client: PgPoolClient): PgPoolClient {
  const query: Query = (...parameters) => {
    const statement = findTransactionControl(textOf(parameters[0]));
    if (statement === null) return (client.query as Query).apply(client, [...parameters]);
    return refuse(statement, parameters);
  };
  const own: Record<PropertyKey, unknown> = { query, release: () => {} };
  return new Proxy(client, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name];
      const value: unknown = Reflect.get(target, name, target);
      // The driver's methods want the client itself, not its guard.
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** `pg` takes a text, a description with a text, or an object that sends itself. */
function textOf(first: unknown): string {
  if (typeof first === 'string') return first;
  const text = (first as { readonly text?: unknown } | null | undefined)?.text;
  return typeof text === 'string' ? text : '';
}

/** By callback or promise, as the caller wants it. */
function refuse(statement: string, parameters: readonly unknown[]): unknown {
  const error = refuseControl(statement);
  const done = parameters.at(-1);
  if (typeof done === 'function') {
    process.nextTick(() => (done as (error: Error) => void)(error));
    return undefined;
  }
  if (typeof (parameters[0] as { readonly submit?: unknown })?.submit === 'function') throw error;
  return Promise.reject(error);
}

import { findTransactionControl, refuseControl } from '../transaction-control.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';

/**
 * The connection as the work of a transaction gets it. A BEGIN or COMMIT of code that does not know that a
 * transaction is open would end it half-way: it is refused.
 */
export function guardedDatabase(database: SqliteDatabase): SqliteDatabase {
  const refuseEnd = (sql: string) => {
    const statement = findTransactionControl(sql);
    if (statement !== null) throw refuseControl(statement);
  };
  const own: Record<PropertyKey, unknown> = {
    exec(sql: string) {
      refuseEnd(sql);
      return database.exec(sql);
    },
    prepare(sql: string) {
      refuseEnd(sql);
      return database.prepare(sql);
    },
  };
  return new Proxy(database, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name];
      const value: unknown = Reflect.get(target, name, target);
      // The driver's methods want the database itself, not its guard.
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

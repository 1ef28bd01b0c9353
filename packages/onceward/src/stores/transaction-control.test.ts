import { describe, expect, it } from 'vitest';
import { findTransactionControl } from './transaction-control.ts';

describe('findTransactionControl', () => {
  it.each([
    'begin',
    ' BEGIN isolation level serializable',
    'start transaction read only',
    'commit;',
    '/* a comment */ -- another\n COMMIT AND CHAIN',
    'insert into orders values (1); commit',
    "insert into orders values ('a;b');\nrollback",
    'END',
    'abort',
    'rollback work',
    "prepare transaction 'one'",
    'begin immediate',
    "select e'it\\'s;'; commit",
  ])('[E7] finds the end or the beginning of a transaction in %j', (text) => {
    expect(findTransactionControl(text)).not.toBeNull();
  });

  it.each([
    'insert into orders values (1)',
    'savepoint a',
    'rollback to a',
    'ROLLBACK TO SAVEPOINT a',
    'rollback transaction to savepoint a',
    'release savepoint a',
    'select case when true then 1 end',
    "insert into notes values ('; commit')",
    'select 1 -- ; commit',
    'select 1 /* ; commit */',
    'select $body$ ; commit; $body$',
    'select "begin" from "end"',
    'prepare plan as select 1',
    'create trigger t after insert on orders begin select 1; end;',
    'create function f() returns int language sql begin atomic select 1; end',
    'do $$ begin perform 1; end $$',
  ])('finds none in %j', (text) => {
    expect(findTransactionControl(text)).toBeNull();
  });
});

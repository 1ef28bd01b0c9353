/**
 * The schema, one entry per version; an entry that was released never changes.
 *
 * onceward.records    one row per operation. `hash` is the first half of the SHA-256 of scope and key; both stand
 *                     beside it and are compared, so two operations can never be taken for one. It is the only index:
 *                     a claim and its settle touch nothing else. Pages are filled to 40 % by claims, because a settled
 *                     record is larger than its claim: nine of ten settles then stay on their page (HOT), and the
 *                     pages end up full all the same.
 * onceward.revisions  a sequence: a revision is never given out twice, whatever is rolled back.
 * onceward.waiting    who wants to be told of a change; unlogged, since a waiter that is not told asks again.
 *
 * onceward.swap       carries out a batch of swaps in one statement, each on its own:
 *   lock_ids          advisory lock of each operation, derived from its hash
 *   hashes … bytes    the operations, the expected revisions (null: nothing is there) and what comes in their
 *                     place (state null: nothing)
 *   wait_for_locks    whether to wait for another transaction that is writing the same operation
 *   returns           per row: its place in the batch, the outcome (1 won, 0 lost, 2 another transaction is writing
 *                     it, 3 the hash belongs to another operation), the revision and, for losers, what is there
 *
 * Rows are handled one after the other, in the order given, each statement with a snapshot of its own: a loser sees
 * the row that beat it, lookups go by the index whatever the planner thinks of a fresh table, and nothing waits while
 * it holds locks, so that batches cannot deadlock.
 */
export const MIGRATIONS: readonly string[] = [
  `
create table onceward.records (
  hash uuid primary key,
  scope text not null,
  key text not null,
  revision bigint not null,
  state smallint not null,
  due_at bigint,
  bytes bytea not null
) with (fillfactor = 40);

alter table onceward.records alter column bytes set storage external;

create sequence onceward.revisions;

create unlogged table onceward.waiting (
  hash uuid not null,
  until timestamptz not null
);
create index waiting_hash on onceward.waiting (hash);

create function onceward.swap(
  lock_ids int[], hashes uuid[], scopes text[], keys text[], expected bigint[],
  states smallint[], dues bigint[], contents bytea[], wait_for_locks boolean
) returns table (place int, outcome smallint, revision bigint, bytes bytea)
language plpgsql volatile as $$
declare
  one record;
  existing record;
begin
  for one in
    select * from unnest(lock_ids, hashes, scopes, keys, expected, states, dues, contents)
      with ordinality as t(lock_id, hash, scope, key, expected, state, due, content, place)
  loop
    place := one.place;
    revision := null;
    bytes := null;
    if wait_for_locks then
      perform pg_advisory_xact_lock(1869505381, one.lock_id);
    elsif not pg_try_advisory_xact_lock(1869505381, one.lock_id) then
      outcome := 2;
      return next;
      continue;
    end if;

    if one.expected is null and one.state is not null then
      insert into onceward.records as r
        values (one.hash, one.scope, one.key, nextval('onceward.revisions'),
                one.state, one.due, one.content)
        on conflict (hash) do nothing
        returning r.revision into revision;
    elsif one.state is not null then
      update onceward.records as r
        set revision = nextval('onceward.revisions'), state = one.state,
            due_at = one.due, bytes = one.content
        where r.hash = one.hash and r.revision = one.expected
          and r.scope = one.scope and r.key = one.key
        returning r.revision into revision;
    elsif one.expected is not null then
      delete from onceward.records as r
        where r.hash = one.hash and r.revision = one.expected
          and r.scope = one.scope and r.key = one.key
        returning nextval('onceward.revisions') into revision;
    end if;

    if revision is null then
      select r.revision, r.bytes, r.scope = one.scope and r.key = one.key as same
        into existing from onceward.records as r where r.hash = one.hash;
      if not found and one.expected is null and one.state is null then
        outcome := 1;
        revision := nextval('onceward.revisions');
      elsif found and not existing.same then
        outcome := 3;
      else
        outcome := 0;
        revision := existing.revision;
        bytes := existing.bytes;
      end if;
    else
      outcome := 1;
      if one.expected is not null then
        delete from onceward.waiting as w where w.hash = one.hash;
        if found then
          perform pg_notify('onceward', one.hash::text);
        end if;
      end if;
    end if;
    return next;
  end loop;
end
$$;
`,
];

/** What the records table must look like, as `information_schema` tells it. */
export const RECORD_COLUMNS = [
  'hash uuid',
  'scope text',
  'key text',
  'revision bigint',
  'state smallint',
  'due_at bigint',
  'bytes bytea',
] as const;

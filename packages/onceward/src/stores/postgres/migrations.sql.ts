/**
 * The schema, one entry per version; an entry that was released never changes.
 *
 * onceward.records    one row per operation. `hash` is the first half of the SHA-256 of scope and key; both stand
 *                     beside it and are compared by whoever reads it or loses to it, so two operations can never be
 *                     taken for one. It is the only index: a claim and its settle touch nothing else. Pages are
 *                     filled to 40 % by claims, because a settled record is larger than its claim: nine of ten
 *                     settles then stay on their page (HOT), and the pages end up full all the same.
 * onceward.revisions  a sequence: a revision is never given out twice, whatever is rolled back. Only a server that
 *                     crashes may give those again that no committed row has.
 * onceward.waiting    who wants to be told of a change; unlogged, since a waiter that is not told asks again.
 */
const TABLES = `
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
`;

/** Made a function that the next entry replaced before anybody had it; databases of that time are at this version. */
const REPLACED = 'select';

/**
 * Called by processes of an earlier release, which may run beside newer ones; these call `swap_batch`.
 *
 * onceward.swap_all   carries out a batch of swaps, each on its own, no two of them of one operation:
 *   lock_ids          advisory lock of each operation, derived from its hash
 *   hashes … dues     the operations, the expected revisions (null: nothing is there) and what comes in their
 *                     place (state null: nothing)
 *   starts, sizes     where the bytes of each stand in `contents`: one value in binary is cheaper than an array
 *   wait_for_locks    whether to wait for another transaction that is writing the same operation
 *   returns           first a row for place 0 with the revision of place 1; those of the other places follow on it.
 *                     Every place that no other row names has won. The rows after it: the place in the batch, the
 *                     outcome (1 won, 0 lost, 2 another transaction is writing it, 3 the hash belongs to another
 *                     operation), the revision and, for losers, what is there
 *
 * A statement for the claims, one for the settles, and so on, each with a snapshot that is younger than the locks: a
 * loser sees the row that beat it. Nothing waits while it holds locks, so that batches cannot deadlock. Whoever writes
 * a row holds its advisory lock; only the removal of what is due does not, and it skips rows that are being written.
 *
 * Revisions are taken from the sequence 1,024 at once, more than a batch has places, and only when the locks are held:
 * for each operation they rise.
 *
 * Joins go by the index, whatever the planner thinks of a table that was empty when the session planned them.
 */
const SWAP_ALL = `
alter sequence onceward.revisions increment by 1024;

drop function if exists onceward.swap;

create function onceward.swap_all(
  lock_ids int[], hashes uuid[], scopes text[], keys text[], expected bigint[],
  states smallint[], dues bigint[], starts int[], sizes int[], contents bytea, wait_for_locks boolean
) returns table (place int, outcome smallint, revision bigint, bytes bytea)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  held boolean[];
  removed int[] := '{}';
  base bigint;
  to_insert int;
  to_update int;
  to_delete int;
  to_win int;
  won int := 0;
  done int;
begin
  if wait_for_locks then
    perform pg_advisory_xact_lock(1869505381, t.lock_id) from unnest(lock_ids) as t(lock_id);
  end if;

  select array_agg(t.held),
      count(*) filter (where t.held),
      count(*) filter (where t.held and t.expected is null and t.state is not null),
      count(*) filter (where t.held and t.expected is not null and t.state is not null),
      count(*) filter (where t.held and t.expected is not null and t.state is null)
    into held, to_win, to_insert, to_update, to_delete
    from (
      select pg_try_advisory_xact_lock(1869505381, u.lock_id) as held, u.expected, u.state
        from unnest(lock_ids, expected, states) as u(lock_id, expected, state)
    ) as t;
  base := nextval('onceward.revisions');
  place := 0;
  outcome := 1;
  revision := base;
  return next;

  if to_insert > 0 then
    insert into onceward.records as r
      select t.hash, t.scope, t.key, base + t.place - 1, t.state, t.due,
          substr(contents, t.start, t.size)
        from unnest(held, hashes, scopes, keys, expected, states, dues, starts, sizes)
          with ordinality as t(held, hash, scope, key, expected, state, due, start, size, place)
        where t.held and t.expected is null and t.state is not null
      on conflict (hash) do nothing;
    get diagnostics done = row_count;
    won := won + done;
  end if;

  if to_update > 0 then
    update onceward.records as r
      set revision = base + t.place - 1, state = t.state, due_at = t.due,
          bytes = substr(contents, t.start, t.size)
      from unnest(held, hashes, scopes, keys, expected, states, dues, starts, sizes)
        with ordinality as t(held, hash, scope, key, expected, state, due, start, size, place)
      where t.held and t.expected is not null and t.state is not null
        and r.hash = t.hash and r.revision = t.expected and r.scope = t.scope and r.key = t.key;
    get diagnostics done = row_count;
    won := won + done;
  end if;

  if to_delete > 0 then
    with gone as (
      delete from onceward.records as r
        using unnest(held, hashes, scopes, keys, expected, states)
          with ordinality as t(held, hash, scope, key, expected, state, place)
        where t.held and t.expected is not null and t.state is null
          and r.hash = t.hash and r.revision = t.expected and r.scope = t.scope and r.key = t.key
        returning t.place::int as place)
      select coalesce(array_agg(gone.place), '{}') into removed from gone;
    won := won + cardinality(removed);
  end if;

  if won < to_win then
    return query
      select t.place::int,
          case when r.hash is null and t.expected is null
                 then case when t.state is null then 1 else 2 end
               when r.scope <> t.scope or r.key <> t.key then 3
               else 0 end::smallint,
          case when r.hash is null and t.expected is null then base + t.place - 1 else r.revision end,
          r.bytes
        from unnest(held, hashes, scopes, keys, expected, states)
          with ordinality as t(held, hash, scope, key, expected, state, place)
        left join onceward.records as r on r.hash = t.hash
        where t.held and r.revision is distinct from base + t.place - 1
          and t.place::int <> all (removed);
  end if;

  if to_win < cardinality(held) then
    return query
      select t.place::int, 2::smallint, null::bigint, null::bytea
        from unnest(held) with ordinality as t(held, place) where not t.held;
  end if;

  if to_update + to_delete > 0 and exists (select from onceward.waiting) then
    with told as (delete from onceward.waiting as w where w.hash = any (hashes) returning w.hash)
      select count(pg_notify('onceward', told.hash::text)) into done from told;
  end if;
end
$$;
`;

/** Of a batch, what is to stand where nothing is. */
const INSERT_NEW = `insert into onceward.records
      select t.hash, t.scope, t.key, base + t.place - 1, t.state, t.due, t.content
        from (
          select unnest(new_hashes) as hash, unnest(new_scopes) as scope, unnest(new_keys) as key,
              unnest(new_states) as state, unnest(new_dues) as due, unnest(new_contents) as content,
              generate_series(1, news) as place
        ) as t`;

/**
 * onceward.swap_batch carries out a batch of swaps, each on its own, no two of them of one operation. Three groups, and
 * within the batch the places of each follow on those of the group before it:
 *   new_…             where nothing is expected: what is to stand there
 *   changed_…         what stands at the expected revision, and what takes its place
 *   gone_…            what is to be removed; expected null: there is nothing to remove
 *   lock_ids          advisory lock of each operation, derived from its hash
 *   wait_for_locks    whether to wait for another transaction that is writing the same operation
 *   returns           first a row for place 0 with the revision of place 1; those of the other places follow on it.
 *                     Every place that no other row names has won. The rows after it: the place in the batch, the
 *                     outcome (1 won, 0 lost, 2 another transaction is writing it) and, for losers, what is there:
 *                     whoever asks compares scope and key, lest two operations with one hash be taken for one
 *
 * Each statement has a snapshot that is younger than the locks: a loser sees the row that beat it. Whoever writes a row
 * holds its advisory lock; only the removal of what is due does not, and it skips rows that are being written. A batch
 * waits for nothing while it holds locks, but for a row that is just being removed as due, and that removal waits for
 * nothing at all: nobody can deadlock.
 *
 * So what a snapshot does not show nobody else can insert, and a plain insert is enough; "on conflict" would make two
 * steps of each. In a transaction of the caller the snapshot may be older than the locks: there it is needed, and
 * fails a claim that missed a younger row as PostgreSQL fails any write that did.
 *
 * Revisions are taken from the sequence 1,024 at once, more than a batch has places, and only when the locks are held:
 * for each operation they rise. No two committed rows ever had the same, so hash and revision name a record.
 *
 * Joins go by the index, whatever the planner thinks of a table that was empty when the session planned them. Each
 * statement is planned once: what is best for one batch is best for all, and to plan anew for each would cost a lone
 * claim more than all else. Arrays are unnested side by side in a select list, which takes value by value; as tables,
 * each would first be copied into one of its own. The planner then expects a thousand of them, and must not compile.
 */
const SWAP_BATCH = `
create function onceward.swap_batch(
  lock_ids int[],
  new_hashes uuid[], new_scopes text[], new_keys text[],
  new_states smallint[], new_dues bigint[], new_contents bytea[],
  changed_hashes uuid[], changed_expected bigint[],
  changed_states smallint[], changed_dues bigint[], changed_contents bytea[],
  gone_hashes uuid[], gone_expected bigint[],
  wait_for_locks boolean
) returns table (place int, outcome smallint, revision bigint, scope text, key text, bytes bytea)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set plan_cache_mode = force_generic_plan set jit = off
as $$
#variable_conflict use_column
declare
  news int := cardinality(new_hashes);
  changes int := cardinality(changed_hashes);
  removals int := cardinality(gone_hashes);
  busy int;
  base bigint;
  removed int[] := '{}';
  won int := 0;
  done int;
begin
  if wait_for_locks then
    perform pg_advisory_xact_lock(1869505381, t.lock_id) from unnest(lock_ids) as t(lock_id);
  else
    select count(*) into busy from unnest(lock_ids) as t(lock_id)
      where not pg_try_advisory_xact_lock(1869505381, t.lock_id);
    if busy > 0 then
      -- Without its hash, an operation that another transaction is writing has no part in what follows.
      select
          array_agg(t.hash order by t.place) filter (where t.place <= news),
          array_agg(t.hash order by t.place) filter (where t.place > news and t.place <= news + changes),
          array_agg(t.hash order by t.place) filter (where t.place > news + changes)
        into new_hashes, changed_hashes, gone_hashes
        from (
          select u.place,
              case when pg_try_advisory_xact_lock(1869505381, u.lock_id) then u.hash end as hash
            from unnest(lock_ids, new_hashes || changed_hashes || gone_hashes)
              with ordinality as u(lock_id, hash, place)
        ) as t;
    end if;
  end if;

  base := nextval('onceward.revisions');
  place := 0;
  outcome := 1;
  revision := base;
  return next;

  if news > 0 then
    if wait_for_locks then
      ${INSERT_NEW}
        on conflict (hash) do nothing;
    else
      ${INSERT_NEW}
        where t.hash is not null
          and not exists (select from onceward.records as r where r.hash = t.hash);
    end if;
    get diagnostics done = row_count;
    won := won + done;
  end if;

  if changes > 0 then
    update onceward.records as r
      set revision = base + news + t.place - 1, state = t.state, due_at = t.due, bytes = t.content
      from (
        select unnest(changed_hashes) as hash, unnest(changed_expected) as expected,
            unnest(changed_states) as state, unnest(changed_dues) as due,
            unnest(changed_contents) as content, generate_series(1, changes) as place
      ) as t
      where r.hash = t.hash and r.revision = t.expected;
    get diagnostics done = row_count;
    won := won + done;
  end if;

  if removals > 0 then
    with gone as (
      delete from onceward.records as r
        using unnest(gone_hashes, gone_expected) with ordinality as t(hash, expected, place)
        where r.hash = t.hash and r.revision = t.expected
        returning (news + changes + t.place)::int as place)
      select coalesce(array_agg(gone.place), '{}') into removed from gone;
    won := won + cardinality(removed);
  end if;

  if won < cardinality(lock_ids) then
    return query
      select t.place::int,
          case when t.hash is null then 2
               when r.hash is not null then 0
               when t.place <= news then 2
               when t.place > news + changes and gone_expected[t.place - news - changes] is null then 1
               else 0 end::smallint,
          coalesce(r.revision, base + t.place - 1), r.scope, r.key, r.bytes
        from unnest(new_hashes || changed_hashes || gone_hashes) with ordinality as t(hash, place)
        left join onceward.records as r on r.hash = t.hash
        where r.revision is distinct from base + t.place - 1
          and t.place::int <> all (removed);
  end if;

  if changes + removals > 0 and exists (select from onceward.waiting) then
    with told as (
      delete from onceward.waiting as w
        where w.ctid = any (array(
          select c.ctid from onceward.waiting as c
            where c.hash = any (changed_hashes || gone_hashes) for update skip locked))
        returning w.hash)
      select count(pg_notify('onceward', told.hash::text)) into done from told;
  end if;
end
$$;
`;

export const MIGRATIONS: readonly string[] = [TABLES, REPLACED, SWAP_ALL, SWAP_BATCH];

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

-- onceward.swap_batch carries out a batch of swaps, each on its own, no two of them of one operation. Three groups, and
-- within the batch the places of each follow on those of the group before it:
--   new_…             where nothing is expected: what is to stand there
--   changed_…         what stands at the expected revision, and what takes its place
--   removed_…            what is to be removed; expected null: there is nothing to remove
--   lock_ids          advisory lock of each operation, derived from its hash
--   wait_for_locks    whether to wait for another transaction that is writing the same operation
--   returns           first a row for place 0 with the revision of place 1; those of the other places follow on it.
--                     Every place that no other row names has won. The rows after it: the place in the batch, the
--                     outcome (1 won, 0 lost, 2 another transaction is writing it) and, for losers, what is there:
--                     the caller compares scope and key, so that a hash collision is not taken for a duplicate
--
-- Each statement has a snapshot that is younger than the locks: a loser sees the row that beat it. A writer of a row
-- holds its advisory lock; only the removal of what is due does not, and it skips rows that are being written. A batch
-- waits for nothing while it holds locks, but for a row that is just being removed as due, and that removal waits for
-- nothing at all: there is no deadlock.
--
-- So what a snapshot does not show no other session can insert, and a plain insert is enough; "on conflict" would make two
-- steps of each. In a transaction of the caller the snapshot may be older than the locks: there it is needed, and
-- fails a claim that missed a younger row as PostgreSQL fails any write that did.
--
-- Revisions are taken from the sequence 1,024 at once, more than a batch has places, and only when the locks are held:
-- for each operation they rise. No two committed rows ever had the same, so hash and revision name a record.
--
-- Joins go by the index, whatever the planner thinks of a table that was empty when the session planned them. Each
-- statement is planned once: what is best for one batch is best for all, and planning each again would cost a lone
-- claim more than all else. Arrays are unnested side by side in a select list, which takes value by value; as tables,
-- each would first be copied into one of its own. The planner then expects a thousand of them, and must not compile.

create function onceward.swap_batch(
  lock_ids int[],
  new_hashes uuid[], new_scopes text[], new_keys text[],
  new_states smallint[], new_dues bigint[], new_contents bytea[],
  changed_hashes uuid[], changed_expected bigint[],
  changed_states smallint[], changed_dues bigint[], changed_contents bytea[],
  removed_hashes uuid[], removed_expected bigint[],
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
  removals int := cardinality(removed_hashes);
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
        into new_hashes, changed_hashes, removed_hashes
        from (
          select u.place,
              case when pg_try_advisory_xact_lock(1869505381, u.lock_id) then u.hash end as hash
            from unnest(lock_ids, new_hashes || changed_hashes || removed_hashes)
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
      insert into onceward.records
      select t.hash, t.scope, t.key, base + t.place - 1, t.state, t.due, t.content
        from (
          select unnest(new_hashes) as hash, unnest(new_scopes) as scope, unnest(new_keys) as key,
              unnest(new_states) as state, unnest(new_dues) as due, unnest(new_contents) as content,
              generate_series(1, news) as place
        ) as t
        on conflict (hash) do nothing;
    else
      insert into onceward.records
      select t.hash, t.scope, t.key, base + t.place - 1, t.state, t.due, t.content
        from (
          select unnest(new_hashes) as hash, unnest(new_scopes) as scope, unnest(new_keys) as key,
              unnest(new_states) as state, unnest(new_dues) as due, unnest(new_contents) as content,
              generate_series(1, news) as place
        ) as t
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
    with deleted as (
      delete from onceward.records as r
        using unnest(removed_hashes, removed_expected) with ordinality as t(hash, expected, place)
        where r.hash = t.hash and r.revision = t.expected
        returning (news + changes + t.place)::int as place)
      select coalesce(array_agg(deleted.place), '{}') into removed from deleted;
    won := won + cardinality(removed);
  end if;

  if won < cardinality(lock_ids) then
    return query
      select t.place::int,
          case when t.hash is null then 2
               when r.hash is not null then 0
               when t.place <= news then 2
               when t.place > news + changes and removed_expected[t.place - news - changes] is null then 1
               else 0 end::smallint,
          coalesce(r.revision, base + t.place - 1), r.scope, r.key, r.bytes
        from unnest(new_hashes || changed_hashes || removed_hashes) with ordinality as t(hash, place)
        left join onceward.records as r on r.hash = t.hash
        where r.revision is distinct from base + t.place - 1
          and t.place::int <> all (removed);
  end if;

  if changes + removals > 0 and exists (select from onceward.waiting) then
    with notified as (
      delete from onceward.waiting as w
        where w.ctid = any (array(
          select c.ctid from onceward.waiting as c
            where c.hash = any (changed_hashes || removed_hashes) for update skip locked))
        returning w.hash)
      select count(pg_notify('onceward', notified.hash::text)) into done from notified;
  end if;
end
$$;

-- onceward_records  one row per operation. `hash` is the first half of the SHA-256 of scope and key; both stand beside
--                   it and are compared, so two operations can never be taken for one. The rows themselves are kept in
--                   the order of a small integer, and the unique hash is the only index.
-- onceward_meta     the version of the schema, and the last revision that was given out.

create table if not exists onceward_meta (name text primary key, value integer not null);
create table if not exists onceward_records (
  place integer primary key,
  hash blob not null unique,
  scope text not null,
  key text not null,
  revision integer not null,
  state integer not null,
  due_at integer,
  bytes blob not null
);
insert or ignore into onceward_meta values ('version', 1), ('revision', 0);

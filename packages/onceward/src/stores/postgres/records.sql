-- onceward.records    one row per operation. `hash` is the first half of the SHA-256 of scope and key; both stand
--                     beside it and are compared by every reader and every loser, so two operations can never be
--                     taken for one. It is the only index: a claim and its settle touch nothing else. Pages are
--                     filled to 40 % by claims, because a settled record is larger than its claim: nine of ten
--                     settles then stay on their page (HOT), and the pages end up full all the same.
-- onceward.revisions  a sequence: a revision is never given out twice, whatever is rolled back. Only a server that
--                     crashes may give those again that no committed row has.
-- onceward.waiting    who wants to be notified of a change; unlogged, since a waiter also polls.

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

create sequence onceward.revisions increment by 1024;

create unlogged table onceward.waiting (
  hash uuid not null,
  until timestamptz not null
);
create index waiting_hash on onceward.waiting (hash);

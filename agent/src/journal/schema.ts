// The journal's tables. Only the daemon opens it; runners, supervisors and SSH processes use files. Integers are 64
// bits wide: rows use bigint, and readers convert those that are small. Deliberately absent: secrets, log bytes,
// anything that the control plane sends again by itself.
export const SCHEMA_VERSION = 1

export const SCHEMA = `
create table meta (
  id integer primary key check (id = 1),
  journal_id text not null,
  boot_id text not null,
  next_event_seq integer not null,
  assignments_version integer not null
) strict;

create table attempts (
  id text primary key,
  environment_id integer not null,
  fence integer not null,
  state integer not null,
  desired integer not null,
  assignment blob not null,
  start_within_ms integer not null,
  received_mono_ms integer not null,
  received_boot_id text not null,
  waiting_for text not null default '',
  pid integer not null default 0,
  start_ticks text not null default '',
  imported_ordinal integer not null default 0,
  report blob not null
) strict;
create index attempts_of_environment on attempts (environment_id, fence);

create table fences (
  environment_id integer primary key,
  max_fence integer not null,
  seen_at integer not null
) strict;

create table tombstones (
  attempt_id text primary key,
  environment_id integer not null,
  fence integer not null,
  state integer not null,
  report blob not null,
  expires_at integer not null
) strict;
create index tombstones_by_end on tombstones (expires_at);

create table outbox (
  seq integer primary key,
  attempt_id text not null,
  ordinal integer,
  body blob not null,
  unique (attempt_id, ordinal)
) strict;

create table log_cursors (
  attempt_id text primary key,
  acked_seq integer not null
) strict;
`

/** Not part of the schema version, so an older agent ignores it. Each environment's identity, as first received. */
export const KNOWN_ENVIRONMENTS_SCHEMA = `
create table if not exists known_environments (
  environment_id integer primary key,
  created_at integer not null,
  project_id integer not null,
  task_id integer not null
) strict;
`

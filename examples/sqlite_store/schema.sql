-- Run on each new connection: it sets what holds for a connection, and adds what is missing in the file.
--
-- The tables are STRICT, and their checks rule out whatever could not be loaded: so no row is ever unreadable (D-05).
-- Ids are 16 bytes, which sort as the ids do. Times are microseconds since 1970 in UTC, durations microseconds.

pragma foreign_keys = on;
-- A commit is durable when it has been answered, whatever the library was compiled to do.
pragma synchronous = full;
-- Readers see what was committed before, and neither wait for the writer nor are waited for; and a commit costs one sync
-- (1,000 sessions with their views close in 1.1 s, not in 8.7 s). Kept in the file.
pragma journal_mode = wal;

create table if not exists sessions (
    id blob not null primary key check (length(id) = 16),
    anonymous_id blob not null check (length(anonymous_id) = 16),
    user_id blob check (length(user_id) = 16),
    status text not null check (status in ('Active', 'Inactive')),
    -- From the year 1, before which Python has no time, to the year 3938.
    created_at integer not null check (abs(created_at) < 62135596800000000),
    last_activity_at integer not null check (abs(last_activity_at) < 62135596800000000),
    ended_at integer check (abs(ended_at) < 62135596800000000),
    duration integer constraint chk_sessions_duration_nonneg check (duration >= 0)
) strict;
create index if not exists ix_sessions_active_last_activity
    on sessions (last_activity_at, id) where status = 'Active';
create unique index if not exists ux_sessions_active_anonymous_id on sessions (anonymous_id) where status = 'Active';

create table if not exists property_object_views (
    id blob not null primary key check (length(id) = 16),
    property_object_id blob not null check (length(property_object_id) = 16),
    session_id blob not null references sessions (id) on delete restrict,
    anonymous_id blob not null check (length(anonymous_id) = 16),
    view_source text not null,
    -- Text, not the library's own form of JSON: numbers of any size stay as they are (D-10).
    filter_snapshot text check (filter_snapshot is null or json_valid(filter_snapshot)),
    status text not null check (status in ('Active', 'Inactive')),
    created_at integer not null check (abs(created_at) < 62135596800000000),
    last_activity_at integer not null check (abs(last_activity_at) < 62135596800000000),
    ended_at integer check (abs(ended_at) < 62135596800000000),
    duration integer constraint chk_property_object_views_duration_nonneg check (duration >= 0)
) strict;
create index if not exists ix_property_object_views_active_last_activity
    on property_object_views (last_activity_at, id) where status = 'Active';
create index if not exists ix_property_object_views_active_session
    on property_object_views (session_id) where status = 'Active';

create table if not exists outbox (
    id blob not null primary key check (length(id) = 16),
    aggregate_type text not null,
    aggregate_id blob not null check (length(aggregate_id) = 16),
    event_type text not null,
    contract_version integer not null,
    topic text not null,
    payload text not null,
    correlation_id blob not null check (length(correlation_id) = 16),
    trace_parent text,
    occurred_at integer not null check (abs(occurred_at) < 62135596800000000),
    -- From here on: what the publisher notes.
    lease_id blob,
    leased_until integer,
    refusals integer not null default 0,
    cause text,
    next_attempt_at integer,
    dead_at integer check (abs(dead_at) < 62135596800000000),
    published_at integer
) strict;
create index if not exists ix_outbox_pending on outbox (id) where published_at is null and dead_at is null;
create index if not exists ix_outbox_leased on outbox (lease_id) where lease_id is not null;
create index if not exists ix_outbox_published on outbox (published_at) where published_at is not null;

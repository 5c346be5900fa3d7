-- The three group roles of specification §6. Run it on a migrated database, as the owner of the tables with the right
-- to create roles; running it again changes nothing, but after a migration that created a table it is needed again. Then
-- grant one of them to each login user:
--
--     grant activity_closer to closer_login;
--
-- None of them may run DDL, and none may read the device_* columns: a failing row's DETAIL shows only the columns that
-- the user may select, so these rights keep addresses and user agents out of the server's error texts as well.

do $$
declare
    role_name text;
begin
    foreach role_name in array array['activity_closer', 'activity_publisher', 'activity_reader'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = role_name) then
            begin
                execute format('create role %I nologin', role_name);
            exception
                -- Roles belong to the whole server: another database may have brought them a moment ago.
                when duplicate_object or unique_violation then null;
            end;
        end if;
    end loop;
end
$$;

grant usage on schema user_activity to activity_closer, activity_publisher, activity_reader;

-- Each may see the version of the schema: `migrate --status` asks for it.
grant select on user_activity.activity_closer_schema_version to activity_closer, activity_publisher, activity_reader;

-- Closer: reads and locks rows (`for update` needs the right to update at least one column), closes them, and adds
-- events that it can never read or change.
grant select (id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration)
    on user_activity.sessions to activity_closer;
grant select (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
              last_activity_at, ended_at, duration)
    on user_activity.property_object_views to activity_closer;
grant update (status, ended_at, duration) on user_activity.sessions to activity_closer;
grant update (status, ended_at, duration) on user_activity.property_object_views to activity_closer;
grant insert on user_activity.outbox to activity_closer;

-- Publisher: the outbox and the leases of its slices, nothing else. Where others read the outbox there may be no slices.
grant select, update, delete on user_activity.outbox to activity_publisher;
do $$
begin
    if to_regclass('user_activity.outbox_slices') is not null then
        grant select, update (lease, leased_until) on user_activity.outbox_slices to activity_publisher;
        grant select on user_activity.outbox_slices to activity_reader, activity_closer;
    end if;
end
$$;

-- Reader: audit and status.
grant select (id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration)
    on user_activity.sessions to activity_reader;
grant select (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
              last_activity_at, ended_at, duration)
    on user_activity.property_object_views to activity_reader;
grant select on user_activity.outbox, user_activity.activity_closer_adoption to activity_reader;

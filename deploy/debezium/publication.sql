-- What Debezium needs in the database. Run it on a migrated database, as the owner of the tables with the rights to create
-- roles and, in the database, objects; running it again changes nothing. Then make a login for the connector. The attribute
-- `replication` is not inherited, so it is the login's own; a superuser can give it, from PostgreSQL 16 on also who has it:
--
--     create role outbox_connector login replication password '…' in role activity_debezium;

do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'activity_debezium') then
        begin
            create role activity_debezium nologin;
        exception
            -- Roles belong to the whole server: another database may have brought it a moment ago.
            when duplicate_object or unique_violation then null;
        end;
    end if;
    -- Only insertions: what the clean-up deletes is never sent, and needs no replica identity.
    if not exists (select from pg_catalog.pg_publication where pubname = 'activity_closer_outbox') then
        create publication activity_closer_outbox for table user_activity.outbox with (publish = 'insert');
    end if;
end
$$;

grant usage on schema user_activity to activity_debezium;
grant select on user_activity.outbox to activity_debezium;

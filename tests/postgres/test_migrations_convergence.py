"""Fresh and adopted databases end with the same schema, as far as it is ours (specification §6)."""

from collections.abc import Iterator

import psycopg
import pytest

from adapters.postgres.migrations import migrate

# Tables as a service might have made them: other column order, columns of its own, nothing that is ours.
_SERVICE_TABLES = """
    create schema user_activity;
    create table user_activity.sessions (
        id uuid primary key,
        tenant text not null default 'pin',
        created_at timestamptz not null,
        last_activity_at timestamptz not null,
        anonymous_id uuid not null,
        status {text} not null,
        device jsonb
    );
    create table user_activity.property_object_views (
        id uuid primary key,
        session_id uuid not null,
        anonymous_id uuid not null,
        property_object_id uuid not null,
        created_at timestamptz not null,
        last_activity_at timestamptz not null,
        view_source {text} not null,
        status {text} not null
    )"""

_COLUMNS = """
    select format('column %s.%s %s%s%s', relation.relname, attname, format_type(atttypid, atttypmod),
                  case when attnotnull then ' not null' end,
                  (select ' default ' || pg_get_expr(adbin, adrelid) from pg_attrdef
                    where adrelid = attrelid and adnum = attnum))
      from pg_attribute join pg_class as relation on relation.oid = attrelid
     where relation.relnamespace = 'user_activity'::regnamespace and relkind = 'r' and attnum > 0 and not attisdropped
       and attname not in ('tenant', 'device', 'device_ip_address', 'device_user_agent')"""

_CONSTRAINTS = """
    select format('constraint %s on %s %s', conname, conrelid::regclass,
                  replace(pg_get_constraintdef(oid), ' NOT VALID', ''))
      from pg_constraint
     where connamespace = 'user_activity'::regnamespace and contype in ('c', 'f', 'p', 'u', 'x')"""

_INDEXES = """
    select format('index %s%s', pg_get_indexdef(indexrelid), case when not indisvalid then ' invalid' end)
      from pg_index join pg_class as relation on relation.oid = indrelid
     where relation.relnamespace = 'user_activity'::regnamespace"""

_OTHERS = """
    select format('relation %s of kind %s', relname, relkind) from pg_class
     where relnamespace = 'user_activity'::regnamespace and relkind not in ('i')
     union all
    select format('trigger %s on %s', tgname, tgrelid::regclass) from pg_trigger where not tgisinternal"""


def schema_listing(dsn: str) -> list[str]:
    """List all that the schema has, but for the columns that belong to the service alone and the order of columns."""
    with psycopg.connect(dsn) as connection:
        return sorted(
            line for query in (_COLUMNS, _CONSTRAINTS, _INDEXES, _OTHERS) for line in _lines(connection, query)
        )


def make_service_tables(dsn: str, *, text: str = "text") -> None:
    """Make the two tables of the service, with as few of our columns as a migration accepts."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_SERVICE_TABLES.format(text=text).encode())


def test_an_adopted_database_equals_a_new_one(empty_database: str, database: str) -> None:
    """Whatever was there before, columns, constraints and indexes that are ours have one shape."""
    make_service_tables(empty_database)
    migrate(empty_database)
    assert schema_listing(empty_database) == schema_listing(database)


@pytest.mark.parametrize(
    "loss",
    [
        "drop table user_activity.outbox",
        "drop table user_activity.property_object_views",
        "drop table user_activity.property_object_views, user_activity.sessions",
        "drop index user_activity.ix_sessions_active_last_activity, user_activity.ux_sessions_active_anonymous_id",
        "alter table user_activity.sessions drop constraint chk_sessions_duration_nonneg",
        "alter table user_activity.property_object_views drop constraint fk_property_object_views_session_id",
        "alter table user_activity.property_object_views drop column duration, drop column filter_snapshot",
        "drop table user_activity.activity_closer_schema_version; drop table user_activity.outbox",
    ],
)
def test_from_wherever_a_run_stopped_the_next_one_arrives(database: str, empty_database: str, loss: str) -> None:
    """Statements commit one by one, so every state between nothing and all is a start for the next run."""
    with psycopg.connect(database) as connection:
        connection.execute("delete from user_activity.activity_closer_schema_version")
        connection.execute(loss.encode())
    assert migrate(database).done
    migrate(empty_database)
    assert schema_listing(database) == schema_listing(empty_database)


def _lines(connection: psycopg.Connection[tuple[str, ...]], query: str) -> Iterator[str]:
    for (line,) in connection.execute(query.encode()).fetchall():
        yield line

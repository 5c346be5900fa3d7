"""The service's own tables exist already: what is added, accepted and said, or refused (specification §6)."""

from uuid import UUID

import psycopg
import pytest

from adapters.postgres.migrations import MigrationRefused, migrate, sql, status
from tests.postgres.test_migrations_convergence import make_service_tables, schema_listing

_ANONYMOUS_ID = UUID("0195c7a8-0000-7000-8000-0000000000aa")

_REPEATED_SESSIONS = f"""
    insert into user_activity.sessions (id, anonymous_id, status, created_at, last_activity_at)
    values (gen_random_uuid(), '{_ANONYMOUS_ID}', 'Active', '2026-01-01 10:00Z', '2026-01-01 10:10Z'),
           (gen_random_uuid(), '{_ANONYMOUS_ID}', 'Active', '2026-01-01 10:20Z', '2026-01-01 10:30Z')"""


@pytest.fixture
def served_database(empty_database: str) -> str:
    """The connection string of a database with the service's own tables, not yet migrated."""
    make_service_tables(empty_database)
    return empty_database


def execute(dsn: str, statement: str) -> list[tuple[object, ...]]:
    """Run statements in one transaction; return the rows of a single one."""
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_each_thing_that_was_added_is_said(served_database: str) -> None:
    """Specification §6: only what is missing is added, and each addition is said by name."""
    said: list[str] = []
    report = migrate(served_database, said.append)
    assert [line for line in said if line in report.done] == list(report.done)
    text = "\n".join(report.done)
    for name in (
        "adding column user_activity.sessions.user_id",
        "adding column user_activity.sessions.ended_at",
        "adding column user_activity.sessions.duration",
        "adding column user_activity.property_object_views.filter_snapshot",
        "chk_sessions_duration_nonneg to user_activity.sessions, not valid",
        "chk_property_object_views_duration_nonneg to user_activity.property_object_views, not valid",
        "fk_property_object_views_session_id, not valid",
        "building index user_activity.ix_sessions_active_last_activity concurrently",
        "building index user_activity.ux_sessions_active_anonymous_id concurrently",
        "creating table user_activity.outbox",
    ):
        assert name in text
    assert "creating schema" not in text
    assert "creating table user_activity.sessions" not in text


def test_rows_that_break_a_rule_do_not_stop_the_migration(served_database: str) -> None:
    """Specification §6: checks and the foreign key come as NOT VALID, so old rows stay and new ones are checked."""
    execute(served_database, "alter table user_activity.sessions add column duration interval")
    execute(
        served_database,
        "insert into user_activity.sessions (id, anonymous_id, status, created_at, last_activity_at, duration) values"
        " (gen_random_uuid(), gen_random_uuid(), 'Inactive', '2026-01-01 10:00Z', '2026-01-01 09:00Z', '-1 hour');"
        "insert into user_activity.property_object_views (id, session_id, anonymous_id, property_object_id, created_at,"
        " last_activity_at, view_source, status) values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),"
        " gen_random_uuid(), '2026-01-01 10:00Z', '2026-01-01 10:00Z', 'Map', 'Inactive')",
    )
    migrate(served_database)
    not_valid = execute(served_database, "select conname::text from pg_constraint where not convalidated order by 1")
    assert [name for (name,) in not_valid] == [
        "chk_property_object_views_duration_nonneg",
        "chk_sessions_duration_nonneg",
        "fk_property_object_views_session_id",
    ]
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(served_database, "update user_activity.sessions set duration = '-2 hours'")


def test_device_columns_are_never_added(served_database: str) -> None:
    """Specification §6: a table of the service keeps its own way to store the device."""
    migrate(served_database)
    columns = execute(
        served_database, "select column_name::text from information_schema.columns where table_name = 'sessions'"
    )
    assert not {("device_ip_address",), ("device_user_agent",)} & set(columns)
    assert ("tenant",) in columns


@pytest.mark.parametrize("text", ["text", "varchar", "varchar(20)"])
def test_status_may_be_any_text_without_padding(empty_database: str, text: str) -> None:
    """`status` and `view_source` may be text or varchar; the second run finds the indexes that the first built."""
    make_service_tables(empty_database, text=text)
    assert migrate(empty_database).remarks == ()
    execute(empty_database, "delete from user_activity.activity_closer_schema_version")
    assert migrate(empty_database).done == ()


def test_repeated_active_sessions_leave_out_the_unique_index(served_database: str) -> None:
    """Specification §6: duplicates are reported as a count, without an id; once repaired, the next run builds it."""
    execute(served_database, _REPEATED_SESSIONS)
    assert "-- left out unique index user_activity.ux_sessions_active_anonymous_id" in sql(served_database)
    said: list[str] = []
    report = migrate(served_database, said.append)
    assert len(report.remarks) == 1
    assert "ux_sessions_active_anonymous_id: anonymous ids with more than one Active session: 1;" in report.remarks[0]
    assert str(_ANONYMOUS_ID) not in "\n".join(said)
    assert status(served_database).pending == ()
    assert migrate(served_database).remarks == report.remarks

    execute(served_database, "update user_activity.sessions set status = 'Inactive'")
    assert "create unique index concurrently ux_sessions_active_anonymous_id" in sql(served_database)
    repaired = migrate(served_database)
    assert len(repaired.done) == 1
    assert "ux_sessions_active_anonymous_id" in repaired.done[0]
    assert migrate(served_database).done == ()


def test_a_foreign_key_is_known_by_what_it_does(served_database: str) -> None:
    """A foreign key of another name that keeps sessions with views is not doubled."""
    execute(
        served_database,
        "alter table user_activity.property_object_views add constraint of_the_service foreign key (session_id)"
        " references user_activity.sessions on delete restrict",
    )
    assert migrate(served_database).remarks == ()
    keys = execute(served_database, "select conname::text from pg_constraint where contype = 'f'")
    assert keys == [("of_the_service",)]


def test_a_foreign_key_that_deletes_views_is_said(served_database: str) -> None:
    """ON DELETE CASCADE is the service's decision: it stays, and the operator hears of it."""
    execute(
        served_database,
        "alter table user_activity.property_object_views add constraint cascading foreign key (session_id)"
        " references user_activity.sessions on delete cascade",
    )
    assert migrate(served_database).remarks == (
        "foreign key cascading is left as it is: ON DELETE CASCADE, where the specification wants RESTRICT",
    )


def test_a_usable_index_of_another_shape_is_accepted_and_said(served_database: str) -> None:
    """An index of our name that leads with last_activity_at over the Active rows serves, with or without the id."""
    execute(
        served_database,
        "create index ix_sessions_active_last_activity on user_activity.sessions (last_activity_at)"
        " where status = 'Active'",
    )
    (remark,) = migrate(served_database).remarks
    assert remark.startswith("user_activity.ix_sessions_active_last_activity is accepted with its own shape")


def test_a_nullable_column_that_decides_is_said(served_database: str) -> None:
    """A row without last_activity_at is never stale: the operator hears that such rows are possible."""
    execute(served_database, "alter table user_activity.sessions alter last_activity_at drop not null")
    assert migrate(served_database).remarks == (
        "user_activity.sessions.last_activity_at may be null: rows without it are never closed",
    )


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            "alter table user_activity.sessions alter last_activity_at type timestamp",
            "user_activity.sessions.last_activity_at is timestamp without time zone, must be timestamp with time zone",
        ),
        (
            "alter table user_activity.property_object_views add filter_snapshot json",
            "user_activity.property_object_views.filter_snapshot is json, must be jsonb",
        ),
        (
            "alter table user_activity.sessions add ended_at timestamptz(3)",
            "user_activity.sessions.ended_at is timestamp(3) with time zone, must be timestamp with time zone",
        ),
        (
            "alter table user_activity.sessions alter status type char(10)",
            "user_activity.sessions.status is character(10), must be text or character varying",
        ),
        (
            "alter table user_activity.sessions alter status type varchar(6)",
            "user_activity.sessions.status is character varying(6), must be at least 8 characters long",
        ),
        (
            (
                "create type user_activity.state as enum ('Active', 'Inactive');"
                " alter table user_activity.sessions alter status type user_activity.state"
                " using status::user_activity.state"
            ),
            "user_activity.sessions.status is user_activity.state, must be text or character varying",
        ),
        (
            (
                "alter table user_activity.sessions add duration interval"
                " generated always as (last_activity_at - created_at) stored"
            ),
            "user_activity.sessions.duration is a generated column, must be one that can be written",
        ),
        (
            "alter table user_activity.property_object_views drop column view_source",
            "user_activity.property_object_views.view_source is missing, must be a column of type text",
        ),
        (
            "alter table user_activity.sessions drop constraint sessions_pkey",
            "user_activity.sessions has no primary key on (id), must have one",
        ),
        (
            "drop table user_activity.sessions; create view user_activity.sessions as select 1 as id",
            "user_activity.sessions is no ordinary table, must be one (a partitioned table is not supported)",
        ),
        (
            "create table user_activity.outbox (id uuid primary key, payload text)",
            "user_activity.outbox.payload is text, must be jsonb",
        ),
        (
            (
                "create index ix_property_object_views_active_last_activity"
                " on user_activity.sessions (last_activity_at) where status = 'Active'"
            ),
            (
                "user_activity.ix_property_object_views_active_last_activity is something else than an index of"
                " user_activity.property_object_views: rename it"
            ),
        ),
        (
            "create index ix_sessions_active_last_activity on user_activity.sessions (last_activity_at)",
            (
                "user_activity.ix_sessions_active_last_activity must lead with last_activity_at"
                " and cover the rows where status = 'Active': drop or rename what is there"
                " (CREATE INDEX ix_sessions_active_last_activity ON user_activity.sessions"
                " USING btree (last_activity_at))"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_anything_changes(
    served_database: str, change: str, finding: str
) -> None:
    """Specification §6: wrong types are refused by name, as is all else that the closer cannot work with."""
    execute(served_database, change)
    before = schema_listing(served_database)
    for attempt in (migrate, sql):
        with pytest.raises(MigrationRefused) as refusal:
            attempt(served_database)
        assert finding in refusal.value.findings
    assert schema_listing(served_database) == before


def test_all_findings_come_at_once(served_database: str) -> None:
    """An operator learns in one run all that is to be put right."""
    execute(
        served_database,
        "alter table user_activity.sessions alter created_at type timestamp, drop column anonymous_id;"
        " alter table user_activity.property_object_views alter status type char(10)",
    )
    with pytest.raises(MigrationRefused) as refusal:
        migrate(served_database)
    assert len(refusal.value.findings) == 3
    assert str(refusal.value).splitlines() == list(refusal.value.findings)

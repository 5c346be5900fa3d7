"""The way to the newest version: from nothing, again, written down as a script, and the ways it can be refused."""

import os
import shutil
import subprocess

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from adapters.postgres.migrations import (
    DatabaseUnavailable,
    MigrationRefused,
    RightMissing,
    migrate,
    sql,
    status,
)
from tests.databases import bin_directory
from tests.postgres.test_migrations_convergence import make_service_tables, schema_listing
from tests.postgres.test_roles import login_role


def test_a_new_database_gets_the_tables_of_the_specification(empty_database: str) -> None:
    """Specification §6: the three tables, with the columns, checks and indexes that other systems know by name."""
    migrate(empty_database)
    listing = "\n".join(schema_listing(empty_database))
    for name in (
        "chk_sessions_duration_nonneg",
        "chk_property_object_views_duration_nonneg",
        "ix_sessions_active_last_activity",
        "ix_property_object_views_active_last_activity",
        "ux_sessions_active_anonymous_id",
        "FOREIGN KEY (session_id) REFERENCES user_activity.sessions(id) ON DELETE RESTRICT",
    ):
        assert name in listing
    with psycopg.connect(empty_database) as connection:
        columns = connection.execute(
            "select column_name from information_schema.columns where table_schema = 'user_activity'"
            " and table_name = 'sessions' order by ordinal_position"
        ).fetchall()
    assert [name for (name,) in columns] == [
        "id",
        "anonymous_id",
        "user_id",
        "status",
        "device_ip_address",
        "device_user_agent",
        "created_at",
        "last_activity_at",
        "ended_at",
        "duration",
    ]


def test_no_column_reads_the_time(database: str) -> None:
    """D-01: time comes from the Clock port, so no column has a default that reads it."""
    with psycopg.connect(database) as connection:
        defaults = connection.execute(
            "select table_name, column_name from information_schema.columns"
            " where table_schema = 'user_activity' and column_default is not null"
            " and column_default ~* 'now|current_|timestamp|timeofday|uuidv7'"
        ).fetchall()
    assert defaults == []


def test_a_second_run_does_nothing_and_says_so(empty_database: str) -> None:
    """Specification §6: a migration that was applied is not applied again."""
    first = migrate(empty_database)
    assert first.version_before is None
    assert first.done
    before = schema_listing(empty_database)
    said: list[str] = []
    second = migrate(empty_database, said.append)
    assert (second.version_before, second.version, second.done, second.remarks) == (
        first.version,
        first.version,
        (),
        (),
    )
    assert said == [f"user_activity is at version {first.version}: nothing to do"]
    assert schema_listing(empty_database) == before


def test_status_looks_and_touches_nothing(empty_database: str) -> None:
    """`migrate --status` on a database without the schema says what is pending and leaves it without the schema."""
    before = status(empty_database)
    assert before.current is None
    assert before.pending[-1] == before.newest
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("select to_regnamespace('user_activity')").fetchone() == (None,)
    migrate(empty_database)
    after = status(empty_database)
    assert (after.current, after.pending) == (after.newest, ())


def test_the_script_leads_where_the_migration_leads(empty_database: str, database: str) -> None:
    """`migrate --sql`: psql runs its output on that database and arrives at the same schema, version included."""
    script = sql(empty_database)
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("select to_regnamespace('user_activity')").fetchone() == (None,)
    run_by_psql(script, empty_database)
    assert schema_listing(empty_database) == schema_listing(database)
    assert status(empty_database) == status(database)
    assert sql(empty_database).startswith("-- nothing to do")


def test_the_script_goes_on_from_an_interrupted_run(empty_database: str, database: str) -> None:
    """`migrate --sql` on a database where a run stopped half-way writes down the rest only."""
    migrate(empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute("delete from user_activity.activity_closer_schema_version")
        connection.execute("drop table user_activity.outbox")
        connection.execute("drop index user_activity.ix_property_object_views_active_session")
        connection.execute("drop index user_activity.ux_sessions_active_anonymous_id")
    script = sql(empty_database)
    assert "create table user_activity.sessions" not in script
    run_by_psql(script, empty_database)
    assert schema_listing(empty_database) == schema_listing(database)
    assert status(empty_database) == status(database)


def test_the_script_adopts_as_the_migration_does(empty_database: str, database: str) -> None:
    """`migrate --sql` on a database with the service's tables: only what is missing, indexes concurrently."""
    make_service_tables(empty_database)
    script = sql(empty_database)
    assert "create unique index concurrently" in script
    run_by_psql(script, empty_database)
    assert schema_listing(empty_database) == schema_listing(database)
    assert status(empty_database) == status(database)


def test_a_schema_of_a_newer_program_is_refused(database: str) -> None:
    """A program never works on a version that it does not know; status still tells it."""
    with psycopg.connect(database) as connection:
        connection.execute("update user_activity.activity_closer_schema_version set version_num = '9999'")
    assert status(database).current == "9999"
    for attempt in (migrate, sql):
        with pytest.raises(MigrationRefused, match="at version 9999, this program knows versions up to"):
            attempt(database)


def test_any_libpq_address_works(empty_database: str) -> None:
    """Specification §4: the database is given as a libpq DSN or a URL."""
    parts = {name: str(value) for name, value in conninfo_to_dict(empty_database).items()}
    migrate(make_conninfo(empty_database, application_name="it's a migration"))
    address = f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"
    address += "".join(f"&{name}={parts[name]}" for name in ("port", "password") if name in parts)
    assert status(address).pending == ()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://someone:very/secret@localhost/activity",
        "postgresql://someone:very secret@localhost/activity",
        "host=localhost very secret",
        "host=localhost port=secret",
    ],
)
def test_a_malformed_address_is_refused_without_repeating_it(address: str) -> None:
    """Passwords never reach an error: what cannot be read may be a part of one."""
    for attempt in (migrate, status, sql):
        with pytest.raises(MigrationRefused, match="must be a libpq URL or DSN") as refusal:
            attempt(address)
        assert "secret" not in str(refusal.value)
        assert "very" not in str(refusal.value)


def test_a_database_out_of_reach_is_told_apart() -> None:
    """Exit code 69: no connection is an error of its own, with the server's message and without the password."""
    for attempt in (migrate, status, sql):
        with pytest.raises(DatabaseUnavailable, match="connecting to the database") as failure:
            attempt("postgresql://someone:secret@127.0.0.1:1/activity?connect_timeout=5")
        assert "secret" not in str(failure.value)


def test_a_database_that_takes_no_writes_counts_as_out_of_reach(empty_database: str) -> None:
    """D-06: SQLSTATE 25006 (a standby, a failover) is infrastructure, not a failed migration."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        name = Identifier(connection.info.dbname)
        connection.execute(SQL("alter database {} set default_transaction_read_only = on").format(name))
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        migrate(empty_database)


def test_a_missing_right_is_told_apart(empty_database: str) -> None:
    """Exit code 77: SQLSTATE 42501 is an error of its own that names what was being done."""
    with (
        login_role(empty_database) as login,
        pytest.raises(RightMissing, match="creating schema user_activity: permission denied for database"),
    ):
        migrate(login)


def run_by_psql(script: str, dsn: str) -> None:
    """Run a script as an operator does; skip the test where there is no psql."""
    folders = [str(bin_directory() or ""), os.environ.get("PATH", os.defpath)]
    psql = shutil.which("psql", path=os.pathsep.join(folders))
    if psql is None:
        pytest.skip("needs psql")
    result = subprocess.run(
        [psql, "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", dsn], input=script, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


LOSSES = [
    "alter table user_activity.sessions drop column ended_at",
    "alter table user_activity.sessions drop column duration",
    "alter table user_activity.property_object_views drop column filter_snapshot",
    "alter table user_activity.sessions drop constraint chk_sessions_duration_nonneg",
    "alter table user_activity.property_object_views drop constraint chk_property_object_views_duration_nonneg",
    "alter table user_activity.property_object_views drop constraint fk_property_object_views_session_id",
    "drop index user_activity.ix_sessions_active_last_activity",
    "drop index user_activity.ix_property_object_views_active_last_activity",
    "drop index user_activity.ix_property_object_views_active_session",
    "drop index user_activity.ux_sessions_active_anonymous_id",
    "drop table user_activity.outbox",
]


@pytest.mark.parametrize("loss", LOSSES)
def test_what_a_migrated_schema_has_lost_is_added_again(database: str, loss: str) -> None:
    """The worker's error says "run migrate", so that has to help, whatever the version is (specification §6)."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(loss.encode())
    found = status(database)
    assert not found.pending
    assert found.missing
    assert sql(database).count("nothing to do") == 0
    report = migrate(database)
    assert report.done == found.missing
    assert status(database).missing == ()
    assert not migrate(database).done

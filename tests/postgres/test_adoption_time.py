"""When the schema was created or adopted is recorded once, and kept (specification §10: `audit` judges by it)."""

from datetime import datetime

import psycopg
import pytest

from adapters.postgres.migrations import migrate, sql, status
from tests.postgres.test_migrations import run_by_psql
from tests.postgres.test_migrations_adoption import execute
from tests.postgres.test_migrations_convergence import make_service_tables, schema_listing
from tests.postgres.test_roles import apply_roles, login_role

_READS = "select adopted_at from user_activity.activity_closer_adoption"
_TO_VERSION_0001 = """
    drop table user_activity.activity_closer_adoption;
    update user_activity.activity_closer_schema_version set version_num = '0001'"""


def adoption_time(dsn: str) -> datetime:
    """The one time that is recorded."""
    [(adopted_at,)] = execute(dsn, _READS)
    assert isinstance(adopted_at, datetime)
    return adopted_at


def time_of(dsn: str) -> datetime:
    """The server's time."""
    [(now,)] = execute(dsn, "select clock_timestamp()")
    assert isinstance(now, datetime)
    return now


@pytest.mark.parametrize("has_service_tables", [False, True], ids=["created", "adopted"])
@pytest.mark.parametrize("has_publisher", [True, False], ids=["publisher", "debezium"])
def test_the_time_of_the_migration_is_recorded(
    empty_database: str, has_service_tables: bool, has_publisher: bool
) -> None:
    """Whether the tables are new or were there already, and whoever delivers the events, by the server's clock."""
    if has_service_tables:
        make_service_tables(empty_database)
    before = time_of(empty_database)
    migrate(empty_database, has_publisher=has_publisher)
    assert before < adoption_time(empty_database) < time_of(empty_database)


def test_it_never_moves(empty_database: str) -> None:
    """Neither a second run nor one that begins anew after an interruption records another time."""
    migrate(empty_database)
    adopted_at = adoption_time(empty_database)
    assert migrate(empty_database).done == ()
    execute(empty_database, "update user_activity.activity_closer_schema_version set version_num = '0001'")
    assert migrate(empty_database).done == ()
    execute(empty_database, "delete from user_activity.activity_closer_schema_version")
    assert migrate(empty_database).version == "0002"
    assert adoption_time(empty_database) == adopted_at


def test_a_database_of_version_0001_gets_the_time_of_this_migration(empty_database: str, database: str) -> None:
    """The version alone is pending, nothing else is done, and the schema is that of a new database."""
    migrate(empty_database)
    execute(empty_database, _TO_VERSION_0001)
    found = status(empty_database)
    assert (found.current, found.pending, found.missing) == ("0001", ("0002",), ())
    before = time_of(empty_database)
    report = migrate(empty_database)
    assert report.done == ("recording the time of adoption in user_activity.activity_closer_adoption",)
    assert before < adoption_time(empty_database) < time_of(empty_database)
    assert schema_listing(empty_database) == schema_listing(database)


def test_the_script_records_it_too(empty_database: str, database: str) -> None:
    """`migrate --sql`, run by psql: once, whatever the version is, and run twice it keeps the first time."""
    migrate(empty_database)
    execute(empty_database, _TO_VERSION_0001)
    script = sql(empty_database)
    assert script.count("insert into user_activity.activity_closer_adoption") == 1
    before = time_of(empty_database)
    run_by_psql(script, empty_database)
    adopted_at = adoption_time(empty_database)
    assert before < adopted_at < time_of(empty_database)
    assert schema_listing(empty_database) == schema_listing(database)
    execute(empty_database, "update user_activity.activity_closer_schema_version set version_num = '0001'")
    run_by_psql(script, empty_database)
    assert adoption_time(empty_database) == adopted_at


def test_a_table_that_was_lost_is_made_again(database: str) -> None:
    """`audit` says "run migrate" then, so that has to help (specification §6)."""
    execute(database, "drop table user_activity.activity_closer_adoption")
    found = status(database)
    assert found.pending == ()
    assert len(found.missing) == 1
    assert "activity_closer_adoption" in sql(database)
    assert migrate(database).done == found.missing
    assert adoption_time(database) < time_of(database)
    assert status(database).missing == ()


def test_there_is_one_time(database: str) -> None:
    """Nobody can add another."""
    for value in ("true", "false"):
        with pytest.raises(psycopg.errors.IntegrityError):
            execute(database, f"insert into user_activity.activity_closer_adoption values ({value}, now())")


def test_readers_may_read_it_and_nobody_may_change_it(database: str) -> None:
    """Specification §6: the role for audits sees it; the others need it for nothing."""
    apply_roles(database)
    with login_role(database, "activity_reader") as reader:
        assert execute(reader, _READS) == [(adoption_time(database),)]
        for change in ("update {} set adopted_at = now()", "delete from {}", "insert into {} values (true, now())"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                execute(reader, change.format("user_activity.activity_closer_adoption"))
    for group in ("activity_closer", "activity_publisher"):
        with login_role(database, group) as login, pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(login, _READS)

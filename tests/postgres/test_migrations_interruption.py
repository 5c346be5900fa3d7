"""Migrations beside live traffic, beside each other, and killed half-way (specification §6)."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from adapters.postgres.migrations import LockTimeout, migrate, status
from tests.postgres.test_migrations_convergence import schema_listing

_DEADLINE_SECONDS = 60
_INSERT_SESSION = b"""
    insert into user_activity.sessions (id, anonymous_id, status, created_at, last_activity_at)
    values (gen_random_uuid(), '0195c7a8-0000-7000-8000-0000000000aa', 'Active', '2026-01-01 10:00Z',
            '2026-01-01 10:10Z')"""


@pytest.fixture
def unindexed_database(database: str) -> str:
    """The connection string of a database where only the indexes of the sessions and the version are missing."""
    with psycopg.connect(database) as connection:
        connection.execute("delete from user_activity.activity_closer_schema_version")
        connection.execute("drop index user_activity.ix_sessions_active_last_activity")
        connection.execute("drop index user_activity.ux_sessions_active_anonymous_id")
    return database


@contextmanager
def open_write(dsn: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hold a transaction that wrote to the sessions: an index build waits until it has ended."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_INSERT_SESSION)
        yield connection


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def index_begun(dsn: str, name: str) -> bool:
    """Whether a build of the index has begun and not ended."""
    return f"{name} ON" in "\n".join(line for line in schema_listing(dsn) if line.endswith(" invalid"))


def test_of_two_at_once_one_waits_and_finds_nothing_to_do(unindexed_database: str) -> None:
    """Two migrations at once: the second says that it waits, does not hinder the index build, and does nothing."""
    said: list[str] = []
    with ThreadPoolExecutor(max_workers=2) as threads:
        with open_write(unindexed_database) as write:
            first = threads.submit(migrate, unindexed_database)
            wait_until(lambda: index_begun(unindexed_database, "ix_sessions_active_last_activity"))
            second = threads.submit(migrate, unindexed_database, said.append)
            wait_until(lambda: bool(said))
            assert said == ["another migration is running on this database: waiting for it to end"]
            write.rollback()
        assert len(first.result(_DEADLINE_SECONDS).done) == 2
        assert second.result(_DEADLINE_SECONDS).done == ()


def test_many_at_once_make_one_schema(empty_database: str, database: str) -> None:
    """Several instances that migrate a new database at their start: one does it, all succeed."""
    starting_line = threading.Barrier(4)

    def start_together() -> int:
        starting_line.wait(_DEADLINE_SECONDS)
        return len(migrate(empty_database).done)

    with ThreadPoolExecutor(max_workers=4) as threads:
        done = [future.result(_DEADLINE_SECONDS) for future in [threads.submit(start_together) for _ in range(4)]]
    assert sorted(done)[:3] == [0, 0, 0]
    assert schema_listing(empty_database) == schema_listing(database)


def test_a_killed_run_is_completed_by_the_next(unindexed_database: str, empty_database: str) -> None:
    """Kill -9 while an index is being built: the invalid rest is dropped and built again, by name."""
    program = "import sys; from adapters.postgres.migrations import migrate; migrate(sys.argv[1])"
    with open_write(unindexed_database) as write:
        with subprocess.Popen([sys.executable, "-c", program, unindexed_database]) as process:
            wait_until(lambda: index_begun(unindexed_database, "ix_sessions_active_last_activity"))
            process.send_signal(signal.SIGKILL)
        # The build ends with the client that asked for it, although the write it waits for goes on.
        wait_until(lambda: _migration_sessions(unindexed_database) == 0)
        write.rollback()
    assert index_begun(unindexed_database, "ix_sessions_active_last_activity")
    assert status(unindexed_database).current is None

    report = migrate(unindexed_database)
    assert report.done[0].startswith("dropping invalid index user_activity.ix_sessions_active_last_activity")
    migrate(empty_database)
    assert schema_listing(unindexed_database) == schema_listing(empty_database)
    assert migrate(unindexed_database).done == ()


def test_a_run_right_after_a_kill_completes(unindexed_database: str, empty_database: str) -> None:
    """The next run may start while the killed one's statement is still running in the server."""
    program = "import sys; from adapters.postgres.migrations import migrate; migrate(sys.argv[1])"
    with ThreadPoolExecutor(max_workers=1) as threads, open_write(unindexed_database) as write:
        with subprocess.Popen([sys.executable, "-c", program, unindexed_database]) as process:
            wait_until(lambda: index_begun(unindexed_database, "ix_sessions_active_last_activity"))
            process.send_signal(signal.SIGKILL)
        said: list[str] = []
        following = threads.submit(migrate, unindexed_database, said.append)
        wait_until(lambda: any(line.startswith("dropping") for line in said))
        write.rollback()
        following.result(_DEADLINE_SECONDS)
    migrate(empty_database)
    assert schema_listing(unindexed_database) == schema_listing(empty_database)


def test_a_second_active_session_during_the_build_leaves_the_unique_index_out(unindexed_database: str) -> None:
    """An invalid unique index would go on refusing rows: it is dropped, and the report shows a count only."""
    with psycopg.connect(unindexed_database) as connection:
        connection.execute(_INSERT_SESSION)
        connection.execute(
            "create index ix_sessions_active_last_activity on user_activity.sessions (last_activity_at, id)"
            " where status = 'Active'"
        )
    said: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as threads, open_write(unindexed_database) as write:
        migration = threads.submit(migrate, unindexed_database, said.append)
        wait_until(lambda: index_begun(unindexed_database, "ux_sessions_active_anonymous_id"))
        write.commit()
        report = migration.result(_DEADLINE_SECONDS)
    assert "0195c7a8" not in "\n".join(said)
    assert "anonymous ids with more than one Active session: 1;" in report.remarks[0]
    assert "ux_sessions_active_anonymous_id" not in "\n".join(schema_listing(unindexed_database))


@pytest.mark.slow
def test_a_table_in_use_ends_the_run_in_time_and_holds_nobody_up(database: str) -> None:
    """Short lock timeouts: a long reader makes the run fail with `LockTimeout`; later the next run goes on."""
    _drop_check(database)
    said: list[str] = []
    with psycopg.connect(database) as reader:
        reader.execute("select from user_activity.sessions")
        with pytest.raises(LockTimeout, match=r"adding check chk_sessions_duration_nonneg.*try again later"):
            migrate(database, said.append)
    assert sum("the table is in use, trying again" in line for line in said) == 3
    assert len(migrate(database).done) == 1


def test_a_table_that_becomes_free_is_changed_in_the_same_run(database: str) -> None:
    """A lock that is not to be had at once is asked for again."""
    _drop_check(database)
    with psycopg.connect(database) as reader:
        reader.execute("select from user_activity.sessions")

        def end_reader(line: str) -> None:
            if line.endswith("trying again"):
                reader.rollback()

        assert len(migrate(database, end_reader).done) == 1


def test_the_servers_limits_do_not_stop_a_migration(unindexed_database: str, empty_database: str) -> None:
    """Settings of the database or the login, made for short online transactions, do not hold for a migration."""
    with psycopg.connect(unindexed_database, autocommit=True) as connection:
        name = Identifier(connection.info.dbname)
        for setting, value in (
            ("default_transaction_isolation", "serializable"),
            ("lock_timeout", "1ms"),
            ("idle_in_transaction_session_timeout", "200ms"),
        ):
            connection.execute(SQL("alter database {} set {} = {}").format(name, Identifier(setting), Literal(value)))
    with ThreadPoolExecutor(max_workers=1) as threads:
        with open_write(unindexed_database) as write:
            write.execute("set idle_in_transaction_session_timeout = 0")
            migration = threads.submit(migrate, unindexed_database)
            wait_until(lambda: index_begun(unindexed_database, "ix_sessions_active_last_activity"))
            wait_until(lambda: _migration_lock_held_idle(unindexed_database))
            write.rollback()
        migration.result(_DEADLINE_SECONDS)
    migrate(empty_database)
    assert schema_listing(unindexed_database) == schema_listing(empty_database)


def _drop_check(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("delete from user_activity.activity_closer_schema_version")
        connection.execute("alter table user_activity.sessions drop constraint chk_sessions_duration_nonneg")


def _migration_lock_held_idle(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select bool_or(state = 'idle in transaction' and clock_timestamp() - state_change > interval '400 ms')"
            " from pg_stat_activity"
            " where application_name = 'activity-closer migrate' and datname = current_database()"
        ).fetchone()
    return row == (True,)


def _migration_sessions(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where application_name = 'activity-closer migrate' and datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])

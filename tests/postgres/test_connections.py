"""How connections are made and kept, and what other programs know of them."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest

from adapters.embedded import temporary_data_directory
from adapters.postgres.connections import Connections, PreparedStatements
from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from application.ports.store_errors import SingleInstanceHeld, StoreUnavailable
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.faulty_proxy import FaultyProxy
from tests.end_to_end.program import wait_until


@pytest.fixture
def other_program(database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection that is not the closer's."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(("setting", "expected"), [("auto", True), ("on", True), ("off", False)])
def test_statements_are_prepared_where_they_can_be(database: str, setting: PreparedStatements, expected: bool) -> None:
    """On a direct connection `auto` prepares; `off` never does (specification §4)."""
    with closing(Connections(database, prepared_statements=setting)) as connections:
        connection = connections.borrow()
        for _ in range(20):
            connection.execute("select 1 + %s", [1])
        row = connection.execute("select count(*) > 0 from pg_prepared_statements where from_sql = false").fetchone()
        connections.give_back(connection)
    assert row == (expected,)


def test_the_connection_used_last_is_used_next(database: str) -> None:
    """So a resting worker holds as few as its work needed, and each is known to answer."""
    with closing(Connections(database)) as connections:
        first, second = connections.borrow(), connections.borrow()
        connections.give_back(first)
        connections.give_back(second)
        assert [connections.borrow(), connections.borrow()] == [second, first]
        first.close()
        second.close()


def test_a_connection_that_is_not_idle_is_not_kept(database: str) -> None:
    """Nobody gets into somebody else's transaction."""
    with closing(Connections(database)) as connections:
        connection = connections.borrow()
        connection.execute("begin")
        connections.give_back(connection)
        assert connection.closed
        with closing(connections.borrow()) as another:
            assert another is not connection


def test_a_server_that_falls_silent_is_given_up(database: str) -> None:
    """A stopped backend acknowledges everything and answers nothing: the client's own limit ends the wait (D-06)."""
    with closing(Connections(database, answer_timeout=timedelta(seconds=0.5))) as connections:
        connection = connections.borrow()
        backend = connection.info.backend_pid
        try:
            os.kill(backend, signal.SIGSTOP)
        except (ProcessLookupError, PermissionError):
            pytest.skip("the server's processes are out of reach: it runs elsewhere")
        try:
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        finally:
            os.kill(backend, signal.SIGCONT)
        assert connection.closed
        connections.give_back(connection)
        with closing(connections.borrow()) as another:
            assert another.execute("select 1").fetchone() == (1,)


def test_the_time_in_between_is_never_behind_the_databases(database: str) -> None:
    """However slow the line: or a row would end before an activity that was committed before it was locked (D-01)."""
    tables = ActivityTables(database)
    with temporary_data_directory() as folder, FaultyProxy(database, folder=Path(folder)) as proxy:
        proxy.delay_seconds = 0.1
        with closing(PostgresActivityStore(proxy.dsn)) as store:
            store.clock.read()
            [(now,)] = tables.execute("select clock_timestamp()")
            assert now <= store.clock.now() <= now + timedelta(seconds=30)


def test_the_single_instance_lock_is_known_by_its_name(
    database: str, other_program: psycopg.Connection[tuple[object, ...]]
) -> None:
    """The key is the first 8 bytes of the SHA-256 of the fixed name, so other programs can take part (D-09)."""
    name = b"Pin:lock:job:scheduled:activity-closer"
    key = int.from_bytes(sha256(name).digest()[:8], signed=True)
    store = PostgresActivityStore(database, options=TransactionOptions(is_single_instance=True))
    with closing(store):
        with other_program.transaction():
            other_program.execute("select pg_advisory_xact_lock(%s)", [key])
            with pytest.raises(SingleInstanceHeld), store.begin():
                pass
        with store.begin() as unit_of_work:
            row = other_program.execute("select pg_try_advisory_xact_lock(%s)", [key]).fetchone()
            assert row == (False,)
            unit_of_work.commit()


def test_who_stands_still_in_a_transaction_loses_it(database: str) -> None:
    """BR-46: the server ends a transaction whose process was suspended, so that its locks strand nobody."""
    tables = ActivityTables(database)
    tables.add_sessions(1)
    options = TransactionOptions(statement_timeout=timedelta(milliseconds=300), is_single_instance=True)
    with (
        closing(PostgresActivityStore(database, options=options)) as suspended,
        closing(PostgresActivityStore(database, options=options)) as other,
    ):
        cutoff = suspended.clock.read()
        with suspended.begin() as held:
            [reference] = held.stale_sessions.page(cutoff, None, 1)
            assert held.stale_sessions.claim([reference.id], cutoff).rows
            wait_until(lambda: not tables.locks_held())
            with other.begin() as successor:
                assert successor.stale_sessions.claim([reference.id], cutoff).rows
            with pytest.raises(StoreUnavailable):
                held.commit()
        with suspended.begin() as again:
            assert again.stale_sessions.claim([reference.id], cutoff).rows

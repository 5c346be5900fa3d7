"""One migration at a time on one database."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Literal

_LOCK_NAME: Final = "activity-closer:migrate"
_LOCK_KEY: Final = int.from_bytes(hashlib.sha256(_LOCK_NAME.encode()).digest()[:8], signed=True)
_TAKE_LOCK: Final = SQL("select pg_catalog.pg_try_advisory_xact_lock({})").format(Literal(_LOCK_KEY))
_POLL_INTERVAL_SECONDS: Final = 0.2


@contextmanager
def sole_migration(connection: psycopg.Connection[Any], say: Callable[[str], None]) -> Iterator[None]:
    """Hold the migration lock on `connection`, which does nothing else, until the block ends.

    It asks again and again instead of waiting inside a statement: a waiting statement holds a snapshot, CREATE INDEX
    CONCURRENTLY waits for snapshots, and the two migrations would deadlock. For the same reason the transaction
    that holds the lock is READ COMMITTED, which keeps no snapshot between statements.
    """
    assert not connection.autocommit
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    waiting = False
    while not _lock_taken(connection):
        connection.rollback()
        if not waiting:
            say("another migration is running on this database: waiting for it to end")
            waiting = True
        time.sleep(_POLL_INTERVAL_SECONDS)
    try:
        yield
    finally:
        connection.close()


def _lock_taken(connection: psycopg.Connection[Any]) -> bool:
    # An index may take hours to build; no limit of the server may end the idle transaction that guards it.
    connection.execute(
        "select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings"
        " where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')"
    )
    # Not with a parameter: by the extended protocol the answered statement's portal stays open, and with it a snapshot.
    row = connection.execute(_TAKE_LOCK).fetchone()
    return row is not None and bool(row[0])

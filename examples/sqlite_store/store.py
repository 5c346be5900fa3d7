"""The stores, and the factories that the settings name."""

import os
from pathlib import Path
from typing import Final

from application.ports.store_errors import StoreUnavailable
from sqlite_store.clock import HostClock
from sqlite_store.connections import Connections
from sqlite_store.transaction import Transaction
from sqlite_store.unit_of_work import SqliteOutboxUnitOfWork, SqliteUnitOfWork

PATH_SETTING: Final = "SQLITE_STORE_PATH"


class _OneFile:
    """A file that is opened when it is needed, and its time."""

    def __init__(self, path: Path) -> None:
        self.clock = HostClock()
        self._connections = Connections(path)

    def close(self) -> None:
        self._connections.close()


class SqliteActivityStore(_OneFile):
    """Sessions, views and the outbox in a file."""

    def begin(self) -> SqliteUnitOfWork:
        return SqliteUnitOfWork(Transaction(self._connections))


class SqliteOutboxStore(_OneFile):
    """The outbox of such a file, for a publisher."""

    def begin(self) -> SqliteOutboxUnitOfWork:
        return SqliteOutboxUnitOfWork(Transaction(self._connections))


def open_store(_database_url: str | None) -> SqliteActivityStore:
    """For `ACTIVITY_CLOSER_STORE=sqlite_store:open_store`. Raises StoreUnavailable where no file is named.

    The database URL is checked to be PostgreSQL's. A store with an address of another kind needs a variable of its own,
    whose name must not begin with `ACTIVITY_CLOSER_`.
    """
    return SqliteActivityStore(_path())


def open_outbox_store(_database_url: str | None) -> SqliteOutboxStore:
    """For `ACTIVITY_CLOSER_OUTBOX_STORE=sqlite_store:open_outbox_store`, in the same way."""
    return SqliteOutboxStore(_path())


def _path() -> Path:
    path = os.environ.get(PATH_SETTING)
    if not path:
        raise StoreUnavailable(kind="configuration", reason=f"{PATH_SETTING} has to name the file of the database")
    return Path(path)

"""Connections to the file."""

import sqlite3
from pathlib import Path
from typing import Final

from sqlite_store.errors import translated

LOCK_WAIT_SECONDS_MAX: Final = 2.0
"""How long a transaction waits to become the only writer."""
_SCHEMA: Final = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


class Connections:
    """Each is one transaction's at a time, and kept for the next. Nothing is opened before it is needed.

    To open one for each transaction takes nine times as long: the last to be closed empties the log that writers share.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []

    def borrow(self) -> sqlite3.Connection:
        """A connection that nobody else uses. Raises StoreError if the file cannot be opened."""
        try:
            return self._idle.pop()  # atomic, as is `append`: threads need no lock here
        except IndexError:
            return self._open()

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Keeps a connection with no transaction open on it."""
        self._idle.append(connection)

    def close(self) -> None:
        """Closes those that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def _open(self) -> sqlite3.Connection:
        with translated():
            connection = sqlite3.connect(
                self._path,
                timeout=LOCK_WAIT_SECONDS_MAX,
                isolation_level=None,  # the driver begins no transactions of its own
                check_same_thread=False,  # one thread at a time, but not always the same
            )
            try:
                connection.executescript(_SCHEMA)
            except BaseException:
                connection.close()
                raise
        connection.row_factory = sqlite3.Row
        return connection

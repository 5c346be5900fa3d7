"""One transaction on one connection."""

import sqlite3
from collections.abc import Mapping, Sequence

from application.ports.store_errors import TransactionRefused
from sqlite_store.connections import Connections
from sqlite_store.errors import translated

Value = bytes | str | int | None
Values = Mapping[str, Value]
"""What a statement's parameters stand for, by their names; a statement need not name them all."""


class Transaction:
    """Each read sees what is committed by now, until `lock` makes this transaction the only writer.

    From then on nobody else changes anything, so what is read stays true until the end: each row is as good as locked.
    It is the lock of the whole file, and is waited for: nothing else is different in a store without row locks.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._connection: sqlite3.Connection | None = None

    def begin(self) -> None:
        """Borrows a connection. Raises StoreError."""
        assert self._connection is None, "a unit of work is one transaction"
        self._connection = self._connections.borrow()

    def lock(self) -> None:
        """Keeps all others from writing. Raises LockTimeout if somebody else does so for too long."""
        # Immediate: one that only read at first could not begin to write once somebody else has written.
        if not self._running.in_transaction:
            with translated():
                self._running.execute("begin immediate")

    def read(self, statement: str, **values: Value) -> list[sqlite3.Row]:
        """The rows of a statement. Raises StoreError."""
        with translated():
            return self._running.execute(statement, values).fetchall()

    def read_locked(self, statement: str, **values: Value) -> list[sqlite3.Row]:
        """The rows of a statement, which nobody else changes any more. Raises StoreError."""
        self.lock()
        return self.read(statement, **values)

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Runs a statement once for each of the rows; answers how many rows it changed. Raises StoreError."""
        self.lock()
        with translated():
            return self._running.executemany(statement, rows).rowcount

    def write_each(self, statement: str, rows: Sequence[Values]) -> None:
        """As `write`. Raises TransactionRefused unless it changed as many rows: no event tells of one that stayed."""
        if self.write(statement, rows) != len(rows):
            raise TransactionRefused(
                kind="not_changed", reason="a row is not there or not Active, or a trigger kept it"
            )

    def commit(self) -> None:
        """Makes the changes durable. Raises StoreError."""
        connection = self._running
        with translated():
            connection.commit()
        self._connection = None
        self._connections.give_back(connection)

    def roll_back(self) -> None:
        """Undoes what was not committed."""
        if self._connection is not None:
            # This rolls back, whatever went wrong before; and the next transaction begins with a sound connection.
            self._connection.close()
            self._connection = None

    @property
    def _running(self) -> sqlite3.Connection:
        assert self._connection is not None, "a unit of work is used between its beginning and its end"
        return self._connection

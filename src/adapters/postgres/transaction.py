"""One transaction on one connection, with as few round trips as the use of its answers allows."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import psycopg
from attrs import frozen
from psycopg import Cursor, DataError, Pipeline
from psycopg.adapt import Transformer
from psycopg.pq import Format

from adapters.postgres.connections import Connection, Connections
from adapters.postgres.errors import translate
from adapters.postgres.statements import statement
from application.ports.store_errors import OutdatedPlan, SingleInstanceHeld, StoreUnavailable

Values = tuple[Any, ...]
"""A row; its columns are typed where the row becomes a domain object."""

SINGLE_INSTANCE_LOCK: Final = int.from_bytes(
    hashlib.sha256(b"Pin:lock:job:scheduled:activity-closer").digest()[:8], signed=True
)
"""The lock's name as PostgreSQL takes it (D-09)."""


@frozen(kw_only=True)
class TransactionOptions:
    """What holds for each transaction."""

    statement_timeout: timedelta = timedelta(seconds=30)
    """Also for how long the server waits for the next statement, before it ends the transaction and its locks."""
    lock_timeout: timedelta = timedelta(seconds=2)
    """For table locks: the closer waits for no row lock (D-03)."""
    is_single_instance: bool = False
    """Whether to begin only under the advisory lock, of which there is one (D-09)."""


class Transaction:
    """Statements that need no answer travel with the next one that does; the last ones travel with the commit."""

    def __init__(self, connections: Connections, options: TransactionOptions) -> None:
        self._connections = connections
        self._options = options
        self._connection: Connection | None = None
        self._pipeline: Pipeline | None = None
        self._leave_pipeline = ExitStack()

    def begin(self) -> None:
        """Borrows a connection; what begins the transaction travels with its first statement."""
        assert self._connection is None, "a unit of work is one transaction"
        self._connection = self._connections.borrow()
        try:
            with self._translated():
                self._pipeline = self._leave_pipeline.enter_context(self._connection.pipeline())
                self.send("begin")
                self.send(
                    "set_transaction",
                    statement_timeout=_milliseconds(self._options.statement_timeout),
                    lock_timeout=_milliseconds(self._options.lock_timeout),
                )
                if self._options.is_single_instance:
                    self._take_single_instance_lock()
        except BaseException:
            self.roll_back()  # `with` calls no __exit__ where __enter__ fails
            raise

    def send(self, name: str, **parameters: object) -> None:
        """Runs a statement whose answer is not needed; its error comes with a later answer."""
        with self._translated():
            self._execute(name, parameters)

    def fetch(self, name: str, **parameters: object) -> list[Values]:
        """Runs a statement and answers its rows. Raises StoreError."""
        with self._translated():
            [cursor] = self._answered((name, parameters))
            return cursor.fetchall()

    def fetch_partially(self, name: str, **parameters: object) -> list[Values]:
        """As `fetch`, with None for a value that the driver cannot load, a time after the year 9999, say (D-05)."""
        return self.fetch_all_partially((name, parameters))[0]

    def fetch_all_partially(self, *statements: tuple[str, Mapping[str, object]]) -> list[list[Values]]:
        """As `fetch_partially` for several statements that travel together; each begins when the last has ended."""
        with self._translated():
            return [_fetch_partially(cursor) for cursor in self._answered(*statements)]

    def commit(self) -> None:
        """Sends what has not been sent yet, commits, and waits for the answer."""
        with self._translated():
            committed = self._execute("commit", {})
            self._leave_pipeline.close()
            assert committed.statusmessage == "COMMIT", "an aborted transaction has raised before"
        self._end()

    def roll_back(self) -> None:
        """Undoes everything that was not committed and gives the connection back."""
        if self._connection is None:
            return
        # What is left in the queue fails as what came before it. A lost connection is closed when it is given back, and
        # without it the server rolls back by itself.
        with suppress(psycopg.Error):
            self._leave_pipeline.close()
        # The driver's own rollback, since it forgets prepared statements: those of a failed pipeline were never made.
        with suppress(psycopg.Error):
            self._connection.rollback()
        self._end()

    def _end(self) -> None:
        assert self._connection is not None
        connection, self._connection = self._connection, None
        self._connections.give_back(connection)

    def _execute(self, name: str, parameters: Mapping[str, object]) -> Cursor[Values]:
        assert self._connection is not None, "a unit of work is used between its beginning and its end"
        text = statement(name)
        return self._connection.cursor_for(text).execute(text, parameters or None, binary=True)

    def _answered(self, *statements: tuple[str, Mapping[str, object]]) -> list[Cursor[Values]]:
        cursors = [self._execute(name, parameters) for name, parameters in statements]
        # The driver alone would ask for the answers and leave the server in the middle of a pipeline, where no timeout
        # of the server's ends it if this process stands still.
        assert self._pipeline is not None, "it begins with the transaction"
        self._pipeline.sync()
        return cursors

    def _take_single_instance_lock(self) -> None:
        if self.fetch("try_single_instance_lock", key=SINGLE_INSTANCE_LOCK) != [(True,)]:
            raise SingleInstanceHeld

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The one place where errors of the driver become the application's."""
        try:
            yield
        except psycopg.Error as error:
            connection = self._connection
            translated = translate(error, is_connection_usable=connection is not None and not connection.closed)
            if isinstance(translated, OutdatedPlan | StoreUnavailable) and connection is not None:
                # Its cached plans go with it; and a new one may lead to another server, after a failover, say.
                connection.close()
            raise translated from None


def _fetch_partially(cursor: Cursor[Values]) -> list[Values]:
    try:
        return cursor.fetchall()
    except DataError as error:
        if error.sqlstate is not None:
            raise  # the server's own error, which is about the statement
        return _load_what_can_be(cursor)


def _load_what_can_be(cursor: Cursor[Values]) -> list[Values]:
    result, transformer = cursor.pgresult, Transformer(cursor)
    assert result is not None
    loaders = [transformer.get_loader(result.ftype(index), Format.BINARY) for index in range(result.nfields)]
    rows: list[Values] = []
    for position in range(result.ntuples):
        values: list[object] = []
        for index, loader in enumerate(loaders):
            raw = result.get_value(position, index)
            try:
                values.append(None if raw is None else loader.load(raw))
            except DataError:
                values.append(None)
        rows.append(tuple(values))
    return rows


def _milliseconds(duration: timedelta) -> str:
    return str(max(1, duration // timedelta(milliseconds=1)))

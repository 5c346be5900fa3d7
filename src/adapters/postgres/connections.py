"""Connections to the server: made when needed, kept for the next transaction, tested when they have been idle."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from threading import Lock, Thread
from typing import Any, Final, Literal

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres.errors import connection_failure
from adapters.postgres.times import load_times_in_utc
from application.ports.store_errors import ConnectingCancelled

PreparedStatements = Literal["auto", "on", "off"]

_DEFAULTS: Final = {
    "application_name": "activity-closer",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    # A host that has vanished is noticed within a minute; left to the kernel it takes many.
    "keepalives_idle": "15",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "45000",
}
_TRUSTED_IDLE_SECONDS: Final = 1.0
"""How long an idle connection is taken to be alive: within a run it is not tested before each transaction."""
_LOOK_SECONDS: Final = 0.1
"""How often a wait for an answer looks whether a signal has come."""
_CANCELLATION_SECONDS: Final = 0.1
"""How often somebody who waits for a new connection looks whether the end was asked for."""

Cursor = psycopg.Cursor[tuple[Any, ...]]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a cursor for each statement, and an end to every wait for an answer.

    As long as a cursor runs the same statement, the driver keeps what it has found out about the types of its
    parameters: that saves a tenth of the client's time for a session.
    """

    answer_timeout_seconds: float | None = None
    """The server's own timeouts do not help where it, or the network, has fallen silent; nor do keepalives, which the
    kernel at the other end answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: dict[str, Cursor] = {}

    def wait(self, gen: PQGen[RV], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> RV:
        """As the driver's, and no longer than the answer's timeout; then the connection is closed."""
        began = time.monotonic()
        limit = self.answer_timeout_seconds if timeout is None else timeout
        try:
            return super().wait(gen, interval=interval, timeout=limit)
        except psycopg.OperationalError:
            if limit is not None and time.monotonic() - began >= limit:
                self.pgconn.finish()
            raise

    def cursor_for(self, statement: str) -> Cursor:
        """The cursor that runs this statement and no other."""
        if statement not in self._cursors:
            self._cursors[statement] = self.cursor()
        return self._cursors[statement]


# The driver logs what it swallows while it closes a broken pipeline, rows in DETAIL included.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
logging.getLogger("psycopg").propagate = False


class Connections:
    """As many connections as there are transactions at once; the one used last is used next.

    There is no waiting for a free one and no second try: a connection that cannot be made is an error in the server's
    words.
    """

    def __init__(
        self,
        dsn: str,
        *,
        prepared_statements: PreparedStatements = "auto",
        is_cancelled: Callable[[], bool] = lambda: False,
        answer_timeout: timedelta | None = None,
    ) -> None:
        self._parameters = {**_DEFAULTS, **conninfo_to_dict(dsn)}
        self._prepared_statements = prepared_statements
        self._is_cancelled = is_cancelled
        self._answer_timeout = answer_timeout
        self._mutex = Lock()
        self._idle: list[tuple[Connection, float]] = []

    def borrow(self) -> Connection:
        """A connection that answers. Raises StoreUnavailable, also when making one is cancelled."""
        while True:
            with self._mutex:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if time.monotonic() - since < _TRUSTED_IDLE_SECONDS or _answers(connection):
                return connection
            connection.close()
        return self._connect_unless_cancelled()

    def give_back(self, connection: Connection) -> None:
        """Keeps the connection for the next transaction, unless something is wrong with it."""
        if connection.closed or connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            connection.close()
            return
        with self._mutex:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """Closes all that are not borrowed."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _connect_unless_cancelled(self) -> Connection:
        """Connects in a thread that can be left behind: a host that never answers, a resolver too, blocks for long."""
        connected: Future[Connection] = Future()
        Thread(target=self._connect_into, args=[connected], name="connect", daemon=True).start()
        while True:
            try:
                return connected.result(_CANCELLATION_SECONDS)
            except TimeoutError:
                if self._is_cancelled():
                    raise ConnectingCancelled(kind="cancelled", reason="connecting was given up") from None

    def _connect_into(self, connected: "Future[Connection]") -> None:
        try:
            connected.set_result(self._connect())
        except BaseException as error:  # whatever it is, it belongs to the thread that waits
            connected.set_exception(error)

    def _connect(self) -> Connection:
        try:
            connection = Connection.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type] # libpq's names
            if self._answer_timeout is not None:
                connection.answer_timeout_seconds = self._answer_timeout.total_seconds()
            load_times_in_utc(connection)
            if self._prepared_statements == "off" or (
                self._prepared_statements == "auto" and _is_behind_a_pooler(connection)
            ):
                connection.prepare_threshold = None
        except psycopg.Error as error:
            raise connection_failure(error) from None
        return connection


def _answers(connection: Connection) -> bool:
    try:
        connection.execute("select 1")
    except psycopg.Error:
        return False
    return True


def _is_behind_a_pooler(connection: Connection) -> bool:
    """Whether the process that answers is another than the one that let us in; old poolers lose prepared statements."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)

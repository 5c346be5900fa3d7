"""The store that the worker uses by default, and what every store of PostgreSQL is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from attrs import evolve

from adapters.postgres.clock import DatabaseClock
from adapters.postgres.connections import Connections, PreparedStatements
from adapters.postgres.transaction import Transaction, TransactionOptions
from adapters.postgres.unit_of_work import PostgresUnitOfWork

_ANSWER_MARGIN: Final = timedelta(seconds=15)
"""How much later than the server the client gives up a statement."""


class ConnectedStore:
    """A database that is connected to when it is needed, and its time.

    `is_cancelled` tells whether to give up making a connection; what has begun is not touched by it.
    """

    def __init__(
        self,
        dsn: str,
        *,
        options: TransactionOptions | None = None,
        prepared_statements: PreparedStatements = "auto",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._options = options or TransactionOptions()
        self._connections = Connections(
            dsn,
            prepared_statements=prepared_statements,
            is_cancelled=is_cancelled,
            answer_timeout=self._options.statement_timeout + _ANSWER_MARGIN,
        )
        # Reading the time is no work on rows, so it needs no lock: an instance that has to wait still says since when.
        self._unguarded_options = evolve(self._options, is_single_instance=False)
        self.clock = DatabaseClock(self._connections, self._unguarded_options)

    def close(self) -> None:
        self._connections.close()


class PostgresActivityStore(ConnectedStore):
    """Sessions, views and the outbox in the schema `user_activity` of a PostgreSQL database (specification §6)."""

    def begin(self) -> PostgresUnitOfWork:
        return PostgresUnitOfWork(Transaction(self._connections, self._options))

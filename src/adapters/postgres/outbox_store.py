"""The store that the publisher uses by default."""

from collections.abc import Callable

from adapters.postgres.connections import PreparedStatements
from adapters.postgres.deliveries import PostgresDeliveries, SliceProgress
from adapters.postgres.outbox_upkeep import PostgresOutboxUpkeep
from adapters.postgres.store import ConnectedStore
from adapters.postgres.transaction import Transaction, TransactionOptions
from adapters.postgres.unit_of_work import TransactionScope


class PostgresOutboxUnitOfWork(TransactionScope):
    """The roles of one transaction of the publisher."""

    def __init__(self, transaction: Transaction, progress: SliceProgress) -> None:
        super().__init__(transaction)
        self.deliveries = PostgresDeliveries(transaction, progress)
        self.upkeep = PostgresOutboxUpkeep(transaction)


class PostgresOutboxStore(ConnectedStore):
    """The outbox in the schema `user_activity`; publishers side by side are wanted, so no lock keeps them to one."""

    def __init__(
        self,
        dsn: str,
        *,
        options: TransactionOptions | None = None,
        prepared_statements: PreparedStatements = "auto",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(dsn, options=options, prepared_statements=prepared_statements, is_cancelled=is_cancelled)
        self._progress = SliceProgress()

    def begin(self) -> PostgresOutboxUnitOfWork:
        return PostgresOutboxUnitOfWork(Transaction(self._connections, self._unguarded_options), self._progress)

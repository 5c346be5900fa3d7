"""The unit of work over a transaction of PostgreSQL."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from adapters.postgres.activity_rows import PostgresPropertyObjectViews, PostgresSessions
from adapters.postgres.row_claiming import PostgresHangingViews, PostgresStaleSessions
from adapters.postgres.transaction import Transaction
from application.ports.outbox import OutboxMessage


class PostgresOutbox:
    """Where events go."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        if messages:
            self._transaction.send(
                "append_outbox",
                ids=[message.id for message in messages],
                aggregate_types=[message.aggregate_type for message in messages],
                aggregate_ids=[message.aggregate_id for message in messages],
                event_types=[message.event_type for message in messages],
                contract_versions=[message.contract_version for message in messages],
                topics=[message.topic for message in messages],
                payloads=[message.payload for message in messages],
                correlation_ids=[message.correlation_id for message in messages],
                trace_parents=[message.trace_parent for message in messages],
                occurred_at=[message.occurred_at for message in messages],
            )


class TransactionScope:
    """Enters, commits and leaves one transaction, as every unit of work does."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> Self:
        self._transaction.begin()
        return self

    def commit(self) -> None:
        self._transaction.commit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._transaction.roll_back()


class PostgresUnitOfWork(TransactionScope):
    """The roles of one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.hanging_views = PostgresHangingViews(transaction)
        self.stale_sessions = PostgresStaleSessions(transaction)
        self.sessions = PostgresSessions(transaction)
        self.views = PostgresPropertyObjectViews(transaction)
        self.outbox = PostgresOutbox(transaction)

"""The units of work over a transaction, and the outbox that goes with one."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from application.ports.outbox import OutboxMessage
from sqlite_store.activity_rows import SqlitePropertyObjectViews, SqliteSessions
from sqlite_store.deliveries import SqliteDeliveries
from sqlite_store.outbox_upkeep import SqliteOutboxUpkeep
from sqlite_store.row_claiming import SqliteHangingViews, SqliteStaleSessions
from sqlite_store.rows import message_values
from sqlite_store.transaction import Transaction


class SqliteOutbox:
    """Where events go."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        self._transaction.write_each(
            """
            insert into outbox
                (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id,
                 trace_parent, occurred_at)
            values
                (:id, :aggregate_type, :aggregate_id, :event_type, :contract_version, :topic, :payload,
                 :correlation_id, :trace_parent, :occurred_at)
            """,
            [message_values(message) for message in messages],
        )


class _OneTransaction:
    """Begins it and ends it."""

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


class SqliteUnitOfWork(_OneTransaction):
    """The roles of one transaction of the closer or a command."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.hanging_views = SqliteHangingViews(transaction)
        self.stale_sessions = SqliteStaleSessions(transaction)
        self.sessions = SqliteSessions(transaction)
        self.views = SqlitePropertyObjectViews(transaction)
        self.outbox = SqliteOutbox(transaction)


class SqliteOutboxUnitOfWork(_OneTransaction):
    """The roles of one transaction of the publisher."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.deliveries = SqliteDeliveries(transaction)
        self.upkeep = SqliteOutboxUpkeep(transaction)

"""The unit of work over a transaction in memory."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from adapters.in_memory.activity_rows import InMemoryPropertyObjectViews, InMemorySessions
from adapters.in_memory.deliveries import InMemoryDeliveries
from adapters.in_memory.outbox_upkeep import InMemoryOutboxUpkeep
from adapters.in_memory.row_claiming import InMemoryHangingViews, InMemoryStaleSessions
from adapters.in_memory.transaction import Transaction
from application.ports.outbox import OutboxMessage


class InMemoryOutbox:
    """Where events go."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        with self._transaction.statement():
            for message in messages:
                self._transaction.append(message)


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


class InMemoryUnitOfWork(_OneTransaction):
    """The roles of one transaction of the closer or a command."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.hanging_views = InMemoryHangingViews(transaction)
        self.stale_sessions = InMemoryStaleSessions(transaction)
        self.sessions = InMemorySessions(transaction)
        self.views = InMemoryPropertyObjectViews(transaction)
        self.outbox = InMemoryOutbox(transaction)


class InMemoryOutboxUnitOfWork(_OneTransaction):
    """The roles of one transaction of the publisher."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.deliveries = InMemoryDeliveries(transaction)
        self.upkeep = InMemoryOutboxUpkeep(transaction)

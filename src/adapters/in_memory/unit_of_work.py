"""The unit of work over a transaction in memory."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from adapters.in_memory.activity_rows import InMemoryPropertyObjectViews, InMemorySessions
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


class InMemoryUnitOfWork:
    """The roles of one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.hanging_views = InMemoryHangingViews(self._transaction)
        self.stale_sessions = InMemoryStaleSessions(self._transaction)
        self.sessions = InMemorySessions(self._transaction)
        self.views = InMemoryPropertyObjectViews(self._transaction)
        self.outbox = InMemoryOutbox(self._transaction)

    def __enter__(self) -> Self:
        self._transaction.begin()
        return self

    def commit(self) -> None:
        self._transaction.commit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._transaction.roll_back()

"""The store in memory."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.tables import Delivery, Row, Tables
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork, InMemoryUnitOfWork
from application.ports.outbox import OutboxMessage
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class InMemoryActivityStore:
    """Sessions, views and the outbox in memory: for tests, for searches of histories, a model for other stores.

    Row locks wait, or are skipped, as PostgreSQL's. `refuses` plays a trigger: it names the rows whose closing
    the store refuses. A lock that is waited for longer than `lock_wait_max` fails the transaction.
    """

    def __init__(
        self,
        *,
        clock: SettableClock | None = None,
        refuses: Callable[[Row], bool] = lambda _: False,
        lock_wait_max: timedelta = timedelta(seconds=30),
    ) -> None:
        self.clock = clock or SettableClock()
        self._tables = Tables(refuses=refuses, lock_wait_seconds_max=lock_wait_max.total_seconds())

    def begin(self) -> InMemoryUnitOfWork:
        return InMemoryUnitOfWork(self.transaction())

    def close(self) -> None:
        pass

    def transaction(self) -> Transaction:
        """A new transaction, not begun yet."""
        return Transaction(self._tables)

    def outbox_store(self) -> "InMemoryOutboxStore":
        """The same outbox, from the side of those who deliver it."""
        return InMemoryOutboxStore(self.clock, self.transaction)

    def session(self, session_id: UUID) -> Session | None:
        """The session as it was last committed."""
        return self._tables.sessions.get(session_id)

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        """The view as it was last committed."""
        return self._tables.views.get(view_id)

    def sessions(self) -> Sequence[Session]:
        """All sessions as they were last committed."""
        return list(self._tables.sessions.values())

    def views(self) -> Sequence[PropertyObjectView]:
        """All views as they were last committed."""
        return list(self._tables.views.values())

    def messages(self) -> Sequence[OutboxMessage]:
        """The outbox as it was last committed, in the order of commits."""
        return list(self._tables.messages.values())

    def deliveries(self) -> Mapping[UUID, Delivery]:
        """How far events have come on their way out, as was last committed; those that nobody leased are left out."""
        return dict(self._tables.deliveries)

    def waiting(self) -> int:
        """How many transactions wait for a row lock at this moment."""
        return self._tables.locks.waiting()


class InMemoryOutboxStore:
    """The outbox of a store in memory, for a publisher."""

    def __init__(self, clock: SettableClock, transaction: Callable[[], Transaction]) -> None:
        self.clock = clock
        self._transaction = transaction

    def begin(self) -> InMemoryOutboxUnitOfWork:
        return InMemoryOutboxUnitOfWork(self._transaction())

    def close(self) -> None:
        pass

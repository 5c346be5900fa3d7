"""A transaction: its own changes over what has been committed."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from adapters.in_memory.row_locks import LockMode
from adapters.in_memory.tables import Delivery, Row, Tables
from application.ports.outbox import OutboxMessage
from application.ports.store_errors import StoreError, TransactionRefused
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class Transaction:
    """Keeps its changes to itself until it commits; a statement sees what was committed before it (READ COMMITTED)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._is_open = False
        self._has_failed = False
        self.changed_sessions: dict[UUID, Session] = {}
        self.changed_views: dict[UUID, PropertyObjectView] = {}
        self._appended: dict[UUID, OutboxMessage] = {}
        self.changed_deliveries: dict[UUID, Delivery] = {}
        self.removed_messages: set[UUID] = set()

    def begin(self) -> None:
        """Starts it; once."""
        assert not self._is_open, "a unit of work is one transaction"
        self._is_open = True

    @contextmanager
    def statement(self) -> Iterator[None]:
        """One step that nothing comes in between of, unless it waits for a lock; its failure is the transaction's."""
        with self._tables.mutex:
            assert self._is_open, "a unit of work is used between its beginning and its end"
            if self._has_failed:
                raise TransactionRefused(kind="25P02", reason="the transaction has failed, and can only be left")
            try:
                yield
            except StoreError:
                self._has_failed = True
                self._tables.locks.release_all(self)
                raise

    def commit(self) -> None:
        """Makes the changes seen by everybody, all at once."""
        with self.statement():
            self._tables.sessions.update(self.changed_sessions)
            self._tables.views.update(self.changed_views)
            self._tables.messages.update(self._appended)
            self._tables.deliveries.update(self.changed_deliveries)
            for message_id in self.removed_messages:
                del self._tables.messages[message_id]
                self._tables.deliveries.pop(message_id, None)
            self._end()

    def roll_back(self) -> None:
        """Forgets the changes, if it has not ended yet."""
        with self._tables.mutex:
            if self._is_open:
                self._end()

    def _end(self) -> None:
        self._is_open = False
        self._tables.locks.release_all(self)

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        """Waits for the row's lock. Raises TransactionRefused for a deadlock or a wait over the limit."""
        self._tables.locks.lock(self, row, mode)

    def try_lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> bool:
        """Takes the row's lock if nobody else has it."""
        return self._tables.locks.try_lock(self, row, mode)

    def append(self, message: OutboxMessage) -> None:
        """Adds an event. Raises TransactionRefused for an id that has been given already (primary key)."""
        self.lock(message.id)
        if message.id in self._appended or message.id in self._tables.messages:
            raise TransactionRefused(kind="23505", reason="the event's id has been given already")
        self._appended[message.id] = message

    def messages(self) -> list[OutboxMessage]:
        """The events that were committed, less those that this transaction has removed, in the order of their ids."""
        messages = [one for one in self._tables.messages.values() if one.id not in self.removed_messages]
        return sorted(messages, key=lambda message: message.id)

    def lock_events(self, message_ids: Iterable[UUID], is_wanted: Callable[[Delivery], bool]) -> list[UUID]:
        """Those that are there and wanted, and still are when all are locked; for others nobody is waited for."""
        given = set(message_ids)

        def wanted() -> list[UUID]:
            there = [message.id for message in self.messages() if message.id in given]
            return [message_id for message_id in there if is_wanted(self.delivery(message_id))]

        found = wanted()
        for message_id in found:
            self.lock(message_id)
        return [message_id for message_id in wanted() if message_id in found]

    def delivery(self, message_id: UUID) -> Delivery:
        """How far an event has come, as this transaction sees it now."""
        return self.changed_deliveries.get(message_id) or self._tables.deliveries.get(message_id) or Delivery()

    def refuses(self, row: Row) -> bool:
        """Whether a trigger of the store refuses the row."""
        return self._tables.refuses(row)

    def session(self, session_id: UUID) -> Session | None:
        """The session as this transaction sees it now."""
        return self.changed_sessions.get(session_id) or self._tables.sessions.get(session_id)

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        """The view as this transaction sees it now."""
        return self.changed_views.get(view_id) or self._tables.views.get(view_id)

    def all_sessions(self) -> Iterable[Session]:
        """All sessions as this transaction sees them now."""
        return (self._tables.sessions | self.changed_sessions).values()

    def all_views(self) -> Iterable[PropertyObjectView]:
        """All views as this transaction sees them now."""
        return (self._tables.views | self.changed_views).values()

    def open_views_of(self, session_id: UUID) -> list[PropertyObjectView]:
        """The Active views of a session, in the order of their ids."""
        views = [v for v in self.all_views() if v.session_id == session_id and v.status is ActivityStatus.ACTIVE]
        return sorted(views, key=lambda view: view.id)

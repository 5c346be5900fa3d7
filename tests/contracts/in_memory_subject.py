"""The store in memory as a subject of the contract suites."""

from collections.abc import Sequence
from uuid import UUID

from adapters.in_memory.store import InMemoryActivityStore
from application.ports.outbox import OutboxMessage
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class InMemorySubject:
    """A store that refuses rows when told to."""

    def __init__(self) -> None:
        self._refused: set[UUID] = set()
        self.store = InMemoryActivityStore(refuses=lambda row: row.id in self._refused)

    def session(self, session_id: UUID) -> Session | None:
        return self.store.session(session_id)

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        return self.store.view(view_id)

    def messages(self) -> Sequence[OutboxMessage]:
        return self.store.messages()

    def refuse(self, row_ids: Sequence[UUID]) -> None:
        self._refused = set(row_ids)

    def waiting(self) -> int:
        return self.store.waiting()

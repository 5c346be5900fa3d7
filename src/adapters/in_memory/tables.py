"""What has been committed."""

from collections.abc import Callable
from threading import Condition
from uuid import UUID

from adapters.in_memory.row_locks import RowLocks
from application.ports.outbox import OutboxMessage
from domain.property_object_view import PropertyObjectView
from domain.session import Session

Row = Session | PropertyObjectView


class Tables:
    """The three tables of specification §6, the locks on their rows, and the mutex that makes a statement atomic."""

    def __init__(self, *, refuses: Callable[[Row], bool], lock_wait_seconds_max: float) -> None:
        self.sessions: dict[UUID, Session] = {}
        self.views: dict[UUID, PropertyObjectView] = {}
        self.messages: dict[UUID, OutboxMessage] = {}
        self.refuses = refuses
        self.mutex = Condition()
        self.locks = RowLocks(self.mutex, wait_seconds_max=lock_wait_seconds_max)

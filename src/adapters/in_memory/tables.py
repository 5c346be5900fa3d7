"""What has been committed."""

from collections.abc import Callable
from datetime import datetime
from threading import Condition
from uuid import UUID

from attrs import frozen

from adapters.in_memory.row_locks import RowLocks
from application.ports.outbox import OutboxMessage
from domain.property_object_view import PropertyObjectView
from domain.session import Session

Row = Session | PropertyObjectView


@frozen(kw_only=True)
class Delivery:
    """How far an event of the outbox has come on its way out."""

    lease_id: UUID | None = None
    lease_ends: datetime | None = None
    refusals: int = 0
    cause: str | None = None
    next_attempt_at: datetime | None = None
    dead_at: datetime | None = None
    published_at: datetime | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the event has to be delivered yet."""
        return self.published_at is None and self.dead_at is None

    def is_due(self, now: datetime) -> bool:
        """Whether it may be tried now."""
        return self.is_pending and (self.next_attempt_at is None or self.next_attempt_at <= now)

    def is_leased(self, now: datetime) -> bool:
        """Whether somebody has the right to send it."""
        return self.lease_ends is not None and self.lease_ends > now


class Tables:
    """The three tables of specification §6, the locks on their rows, and the mutex that makes a statement atomic."""

    def __init__(self, *, refuses: Callable[[Row], bool], lock_wait_seconds_max: float) -> None:
        self.sessions: dict[UUID, Session] = {}
        self.views: dict[UUID, PropertyObjectView] = {}
        self.messages: dict[UUID, OutboxMessage] = {}
        self.deliveries: dict[UUID, Delivery] = {}
        """Of those events that a publisher has had to do with."""
        self.refuses = refuses
        self.mutex = Condition()
        self.locks = RowLocks(self.mutex, wait_seconds_max=lock_wait_seconds_max)

"""What an operator asks of the outbox, and the removal of what is no longer needed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from application.ports.outbox import OutboxMessage


@frozen(kw_only=True)
class OutboxStatus:
    """How the outbox stands."""

    pending: int
    """Events that have to be delivered, those included that wait for their next attempt."""
    waiting: int
    """Of the pending ones, those that were refused and wait for their next attempt."""
    oldest_pending_at: datetime | None
    """When the oldest pending event occurred; None where none is pending."""
    dead: Mapping[str, int]
    """Events that were set aside, by their cause."""


@frozen(kw_only=True)
class DeadMessage:
    """An event that was set aside after it had been refused too often."""

    message: OutboxMessage
    refusals: int
    cause: str
    dead_at: datetime


class OutboxUpkeep(Protocol):
    """The outbox as its operator sees it, in one transaction."""

    def status(self) -> OutboxStatus:
        """How it stands."""

    def dead(self, after: UUID | None, limit: int) -> Sequence[DeadMessage]:
        """Up to `limit` dead events with ids after `after`, in the order of their ids."""

    def find_dead(self, message_id: UUID) -> DeadMessage | None:
        """A dead event; None if there is no such event, or it is not dead."""

    def retry(self, message_ids: Sequence[UUID]) -> int:
        """Dead events are pending again, with all their attempts before them; answers how many were dead."""

    def discard(self, message_ids: Sequence[UUID]) -> int:
        """Removes dead events for good; answers how many were dead."""

    def remove_published(self, before: datetime, limit: int) -> int:
        """Removes up to `limit` events delivered before a time; answers how many. Pending ones always stay."""

    def remove_occurred(self, before: datetime, limit: int) -> int:
        """Removes up to `limit` events that occurred before a time, delivered by us or not; answers how many.

        For an outbox that is read from the database's log by others, who leave no mark.
        """

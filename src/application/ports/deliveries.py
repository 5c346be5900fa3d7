"""Events on their way out of the outbox: leased to one publisher at a time, and sent outside of any transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from application.ports.outbox import OutboxMessage


@frozen(kw_only=True)
class PendingMessage:
    """An event that has to be delivered yet."""

    message: OutboxMessage
    refusals: int
    """How often it has been refused so far."""


@frozen(kw_only=True)
class UnreadableMessage:
    """An event that was leased, but whose values cannot be loaded, a time out of range, say (D-05)."""

    id: UUID
    refusals: int


@frozen(kw_only=True)
class Lease:
    """The right to send some events, for a time; whoever outlives it may find them sent again by others."""

    id: UUID
    begins: datetime
    """Now: events are due, and other leases over, by this time."""
    ends: datetime


@frozen(kw_only=True)
class Held:
    """What a publisher does not want to be given at the moment."""

    topics: frozenset[str] = field(default=frozenset())
    """They take no events."""
    event_ids: frozenset[UUID] = field(default=frozenset())
    """A few events whose outcome the store would not record."""


@frozen(kw_only=True)
class Refused:
    """An event that cannot be sent as it is."""

    message_id: UUID
    refusals: int
    """This one included."""
    cause: str
    """A bounded name."""
    next_attempt_at: datetime | None
    """None: there have been enough attempts, and it is set aside as dead."""


class Deliveries(Protocol):
    """Events that have to be delivered, as one transaction sees them."""

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage | UnreadableMessage]:
        """Up to `limit` events that are due and not held; nobody else gets them before the lease ends.

        Events are not chosen by any mark that they might be committed behind: every one that is due comes up. None are
        answered only where all that is due is leased by others.
        """

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        """They have arrived, and will not be leased again. Those that are recorded or gone already are passed over."""

    def record_refused(self, refused: Sequence[Refused], at: datetime) -> None:
        """They wait for their next attempt, or are set aside as dead. Delivered and dead ones are passed over."""

    def release(self, lease: Lease) -> None:
        """Ends the lease: what was not recorded is due again. Nothing happens if it is somebody else's by now."""

    def count_due(self, now: datetime) -> int:
        """How many events wait to be delivered, leased ones included; not those that wait for their next attempt."""

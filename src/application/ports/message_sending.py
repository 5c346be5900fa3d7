"""Sending events to where their consumers read them."""

from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Protocol
from uuid import UUID

from attrs import frozen

from application.ports.outbox import OutboxMessage


class Failure(Enum):
    """Why an event did not arrive, as far as the publisher decides by it."""

    REFUSED = auto()
    """It cannot be sent as it is: too large, an impossible topic, a broker that refuses its content."""
    TOPIC_UNAVAILABLE = auto()
    """Its topic is missing or not authorised: no event of that topic would fare better, those of others may."""
    UNKNOWN = auto()
    """Nobody knows whether it arrived, or it was not sent for want of a broker: it has to be sent again."""


@frozen(kw_only=True)
class Undelivered:
    """An event that did not arrive, or may not have."""

    message: OutboxMessage
    failure: Failure
    cause: str
    """A bounded name, such as `msg_size_too_large`."""


class Shipment(Protocol):
    """Some events under way."""

    def wait(self, seconds: float) -> bool:
        """Helps them on their way for so long, or until each is known to have arrived or not; whether that is so."""

    def abandon(self) -> None:
        """Gives up what is under way, at once: unknown is all that will ever be known of it."""

    @property
    def delivered(self) -> Sequence[UUID]:
        """The ids of those that have arrived, by the word of the broker."""

    @property
    def undelivered(self) -> Sequence[Undelivered]:
        """The others, once all is known."""


class MessageSender(Protocol):
    """Sends events: the key is the aggregate's id, value and headers are those of the contract (D-11)."""

    @property
    def delivery_limit(self) -> timedelta:
        """The longest time after which everything is known of what was sent."""

    def send(self, messages: Sequence[OutboxMessage]) -> Shipment:
        """Sends them; does not wait for them to arrive, and raises nothing: a shipment says what went wrong."""

    def close(self) -> None:
        """Lets go of all resources at once; what is under way is given up."""

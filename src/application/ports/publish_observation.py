"""What publishing lets the outside see: logs, metrics and traces all hang on this one port."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from attrs import frozen


@frozen(kw_only=True)
class EventsDelivered:
    """Events have arrived, by the word of the broker."""

    events: int
    delivery_lags: tuple[timedelta, ...]
    """Of each event: the time at which that was known less the time at which it occurred."""


@frozen(kw_only=True)
class EventRefused:
    """An event cannot be sent as it is; it waits for its next attempt, or is set aside as dead."""

    id: UUID
    topic: str | None
    """None where the event could not even be read."""
    cause: str
    refusals: int
    next_attempt_at: datetime | None
    """None: it is dead."""


@frozen(kw_only=True)
class TopicHeld:
    """A topic is missing or not authorised; its events stay pending and are tried again later."""

    topic: str
    cause: str
    retry_after: timedelta


@frozen(kw_only=True)
class TopicAvailable:
    """A topic that was held takes events again."""

    topic: str


@frozen(kw_only=True)
class BrokerUnavailable:
    """Events did not arrive, for all that is known: said when it begins, and now and then while it lasts."""

    cause: str
    unconfirmed: int
    """Events of the last attempt."""
    lasts: timedelta


@frozen(kw_only=True)
class BrokerAvailable:
    """Events arrive again."""

    lasted: timedelta


@frozen(kw_only=True)
class RecordingFailed:
    """The store would not record what became of an event; it will be sent again, with the same id."""

    id: UUID
    kind: str
    error: str


class PublishOutcome(StrEnum):
    """How a round of publishing ended."""

    COMPLETED = "completed"
    """Nothing that is due is left, but what others have leased or a held topic keeps."""
    STOPPED = "stopped"
    """Ended in order, because the end was asked for."""
    BROKER_UNAVAILABLE = "broker_unavailable"
    FAILED = "failed"
    """The store did not serve."""


@frozen(kw_only=True)
class PublishReport:
    """What a round of publishing did."""

    outcome: PublishOutcome
    sent: int
    """Handed to the sender, whatever became of it."""
    delivered: int
    refused: int
    """Refused in this round, to be tried again."""
    dead: int
    """Set aside in this round."""
    unconfirmed: int
    """Given back: nobody knows whether they arrived."""
    unrecorded: int
    """Their outcome could not be recorded; they will be sent again."""
    held_topics: tuple[str, ...]
    duration: timedelta

    def summary(self) -> dict[str, object]:
        """The report under the names of the command line (specification §10)."""
        return {
            "outcome": self.outcome.value,
            "deliveredEvents": self.delivered,
            "refusedEvents": self.refused,
            "deadEvents": self.dead,
            "unconfirmedEvents": self.unconfirmed,
            "unrecordedEvents": self.unrecorded,
            "heldTopics": list(self.held_topics),
            "durationMs": round(self.duration / timedelta(milliseconds=1)),
        }


@frozen(kw_only=True)
class RoundCompleted:
    """A round of publishing has ended, in whatever way."""

    report: PublishReport


@frozen(kw_only=True)
class PublishedRemoved:
    """Events were removed whose time in the outbox was over."""

    events: int


@frozen(kw_only=True)
class RemovalFailed:
    """Delivered events whose time is over could not be removed; that is tried again later, and stops nothing else."""

    kind: str
    error: str


PublishOccurrence = (
    EventsDelivered
    | EventRefused
    | TopicHeld
    | TopicAvailable
    | BrokerUnavailable
    | BrokerAvailable
    | RecordingFailed
    | RoundCompleted
    | PublishedRemoved
    | RemovalFailed
)


class PublishObservation(Protocol):
    """Sees what happens in publishing. Must not fail."""

    def record(self, occurrence: PublishOccurrence) -> None:
        """Something happened."""

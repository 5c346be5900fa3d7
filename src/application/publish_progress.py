"""What a round of publishing has done so far, and for how long the broker has been away."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from application.ports.clock import Clock
from application.ports.deliveries import Refused
from application.ports.outbox import OutboxMessage
from application.ports.publish_observation import (
    BrokerAvailable,
    BrokerUnavailable,
    EventRefused,
    EventsDelivered,
    PublishObservation,
    PublishOutcome,
    PublishReport,
    RecordingFailed,
)
from application.ports.store_errors import StoreError

OUTAGE_SAID_AGAIN_AFTER_SECONDS: Final = 60.0
UNRECORDED_TOLD_MAX: Final = 20
"""Events of a round that are told one by one; the report has the number of all."""


class PublishProgress:
    """Counts, and tells the observation; an outage is told once a minute, however often it is met."""

    def __init__(self, *, clock: Clock, observation: PublishObservation) -> None:
        self._clock = clock
        self._observation = observation
        self._away_since: float | None = None
        self._said_at = 0.0
        self.begin()

    def begin(self) -> None:
        """A new round."""
        self._began = self._clock.monotonic()
        self._sent = self._delivered = self._refused = self._dead = self._unconfirmed = self._unrecorded = 0
        self.is_interrupted = False
        """Whether the broker does not serve, so that nothing more is sent in this round."""

    @property
    def seconds(self) -> float:
        """How long the round has taken up to now."""
        return self._clock.monotonic() - self._began

    def send(self, events: int) -> None:
        """Events are handed to the sender."""
        self._sent += events

    def count(self, delivered: Sequence[OutboxMessage], now: datetime) -> None:
        """Events have arrived."""
        self._delivered += len(delivered)
        if delivered:
            lags = tuple(now - one.occurred_at for one in delivered)
            self._observation.record(EventsDelivered(events=len(delivered), delivery_lags=lags))

    def refuse(self, refused: Refused, topic: str | None) -> None:
        """An event was refused."""
        is_dead = refused.next_attempt_at is None
        self._dead += is_dead
        self._refused += not is_dead
        self._observation.record(
            EventRefused(
                id=refused.message_id,
                topic=topic,
                cause=refused.cause,
                refusals=refused.refusals,
                next_attempt_at=refused.next_attempt_at,
            )
        )

    def lose(self, unconfirmed: int, cause: str | None) -> None:
        """Events have to be sent again; the cause is None where they were given up by ourselves."""
        self._unconfirmed += unconfirmed
        if cause is None:
            return
        self.is_interrupted = True
        now = self._clock.monotonic()
        if self._away_since is None:
            self._away_since = now
        elif now - self._said_at < OUTAGE_SAID_AGAIN_AFTER_SECONDS:
            return
        self._said_at = now
        lasts = timedelta(seconds=now - self._away_since)
        self._observation.record(BrokerUnavailable(cause=cause, unconfirmed=unconfirmed, lasts=lasts))

    def fail_to_record(self, message_id: UUID, error: StoreError) -> None:
        """What became of an event could not be recorded."""
        self._unrecorded += 1
        if self._unrecorded <= UNRECORDED_TOLD_MAX:
            self._observation.record(RecordingFailed(id=message_id, kind=error.kind, error=error.reason))

    def resume(self) -> None:
        """Something has arrived, and of nothing is it unknown."""
        if self._away_since is not None:
            lasted = timedelta(seconds=self._clock.monotonic() - self._away_since)
            self._away_since = None
            self._observation.record(BrokerAvailable(lasted=lasted))

    def report(self, *, stopped: bool, failed: bool, held_topics: tuple[str, ...]) -> PublishReport:
        """What the round did."""
        outcome = PublishOutcome.COMPLETED
        if failed:
            outcome = PublishOutcome.FAILED
        elif stopped:
            outcome = PublishOutcome.STOPPED
        elif self.is_interrupted:
            outcome = PublishOutcome.BROKER_UNAVAILABLE
        return PublishReport(
            outcome=outcome,
            sent=self._sent,
            delivered=self._delivered,
            refused=self._refused,
            dead=self._dead,
            unconfirmed=self._unconfirmed,
            unrecorded=self._unrecorded,
            held_topics=held_topics,
            duration=timedelta(seconds=self.seconds),
        )

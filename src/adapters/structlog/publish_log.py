"""What publishing writes into the log (specification §8)."""

from datetime import timedelta
from typing import Any, Final

import structlog

from application.ports.publish_observation import (
    BrokerAvailable,
    BrokerUnavailable,
    EventRefused,
    EventsDelivered,
    PublishedRemoved,
    PublishOccurrence,
    PublishOutcome,
    RecordingFailed,
    RemovalFailed,
    RoundCompleted,
    TopicAvailable,
    TopicHeld,
)

_TOPIC_LENGTH_MAX: Final = 249
"""Of a name that Kafka can have; in a row of the outbox any text may stand."""


class PublishLog:
    """Writes a line for what matters, and none for a round that found nothing. Nothing of an event beside its id."""

    def __init__(self) -> None:
        self._log: Any = structlog.get_logger("activity_closer")

    def record(self, occurrence: PublishOccurrence) -> None:
        match occurrence:
            case RoundCompleted(report=report):
                if report.delivered or report.unrecorded:
                    self._log.info("events published", **report.summary())
                if report.unconfirmed and report.outcome is PublishOutcome.STOPPED:
                    self._log.warning("events given back", unconfirmedEvents=report.unconfirmed)
            case EventRefused():
                self._refused(occurrence)
            case RecordingFailed():
                self._log.error(
                    "event not recorded", id=str(occurrence.id), kind=occurrence.kind, error=occurrence.error
                )
            case PublishedRemoved():
                self._log.info("published events removed", events=occurrence.events)
            case RemovalFailed():
                self._log.error("published events not removed", kind=occurrence.kind, error=occurrence.error)
            case EventsDelivered():
                pass  # it is in the round's line
            case _:
                self._availability(occurrence)

    def _availability(self, occurrence: TopicHeld | TopicAvailable | BrokerUnavailable | BrokerAvailable) -> None:
        match occurrence:
            case TopicHeld():
                self._log.warning(
                    "topic held",
                    topic=occurrence.topic[:_TOPIC_LENGTH_MAX],
                    cause=occurrence.cause,
                    retryAfterSeconds=_seconds(occurrence.retry_after),
                )
            case TopicAvailable():
                self._log.info("topic available", topic=occurrence.topic)
            case BrokerUnavailable():
                self._log.error(
                    "broker unavailable",
                    cause=occurrence.cause,
                    unconfirmedEvents=occurrence.unconfirmed,
                    lastsSeconds=_seconds(occurrence.lasts),
                )
            case BrokerAvailable():
                self._log.info("broker available", lastedSeconds=_seconds(occurrence.lasted))

    def _refused(self, refused: EventRefused) -> None:
        known = {
            "id": str(refused.id),
            "topic": refused.topic and refused.topic[:_TOPIC_LENGTH_MAX],
            "cause": refused.cause,
            "refusals": refused.refusals,
        }
        if refused.next_attempt_at is None:
            self._log.error("event dead", **known)
        else:
            self._log.warning("event refused", **known, nextAttemptAt=refused.next_attempt_at.isoformat())


def _seconds(duration: timedelta) -> float:
    return round(duration.total_seconds(), 3)

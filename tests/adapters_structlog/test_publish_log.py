"""What publishing writes into the log: what matters, once."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.message_sending import InMemoryBroker, InMemorySender
from adapters.in_memory.store import InMemoryActivityStore
from adapters.structlog import PublishLog
from application.contracts.closer import StopAfter
from application.contracts.deliveries import a_message
from application.options import PublisherOptions
from application.ports.publish_observation import (
    BrokerAvailable,
    BrokerUnavailable,
    EventRefused,
    EventsDelivered,
    PublishedRemoved,
    PublishOccurrence,
    PublishOutcome,
    PublishReport,
    RecordingFailed,
    RoundCompleted,
    TopicAvailable,
    TopicHeld,
)
from application.publish_outbox import PublishOutboxUseCase

ID = UUID(int=7)
REPORT = PublishReport(
    outcome=PublishOutcome.COMPLETED,
    sent=0,
    delivered=3,
    refused=1,
    dead=0,
    unconfirmed=0,
    unrecorded=0,
    held_topics=("t",),
    duration=timedelta(milliseconds=5),
)
EMPTY = evolve(REPORT, delivered=0, refused=0, held_topics=())
REFUSED = EventRefused(
    id=ID,
    topic="t",
    cause="msg_size_too_large",
    refusals=2,
    next_attempt_at=datetime(2026, 12, 1, 12, tzinfo=UTC),
)


def lines_of(occurrence: PublishOccurrence) -> list[dict[str, Any]]:
    with capture_logs() as log:
        PublishLog().record(occurrence)
    return [dict(line) for line in log]


@pytest.mark.parametrize(
    ("occurrence", "level", "line"),
    [
        (RoundCompleted(report=REPORT), "info", {"event": "events published", **REPORT.summary()}),
        (
            REFUSED,
            "warning",
            {
                "event": "event refused",
                "id": str(ID),
                "topic": "t",
                "cause": "msg_size_too_large",
                "refusals": 2,
                "nextAttemptAt": "2026-12-01T12:00:00+00:00",
            },
        ),
        (
            evolve(REFUSED, next_attempt_at=None),
            "error",
            {"event": "event dead", "id": str(ID), "topic": "t", "cause": "msg_size_too_large", "refusals": 2},
        ),
        (
            TopicHeld(topic="t", cause="unknown_topic", retry_after=timedelta(seconds=4)),
            "warning",
            {"event": "topic held", "topic": "t", "cause": "unknown_topic", "retryAfterSeconds": 4.0},
        ),
        (TopicAvailable(topic="t"), "info", {"event": "topic available", "topic": "t"}),
        (
            BrokerUnavailable(cause="transport", unconfirmed=9, lasts=timedelta(seconds=61)),
            "error",
            {"event": "broker unavailable", "cause": "transport", "unconfirmedEvents": 9, "lastsSeconds": 61.0},
        ),
        (
            BrokerAvailable(lasted=timedelta(minutes=2)),
            "info",
            {"event": "broker available", "lastedSeconds": 120.0},
        ),
        (
            RecordingFailed(id=ID, kind="23514", error="a check refuses it"),
            "error",
            {"event": "event not recorded", "id": str(ID), "kind": "23514", "error": "a check refuses it"},
        ),
        (PublishedRemoved(events=2000), "info", {"event": "published events removed", "events": 2000}),
        (
            RoundCompleted(report=evolve(EMPTY, outcome=PublishOutcome.STOPPED, unconfirmed=5)),
            "warning",
            {"event": "events given back", "unconfirmedEvents": 5},
        ),
    ],
)
def test_each_occurrence_is_one_line(occurrence: PublishOccurrence, level: str, line: dict[str, Any]) -> None:
    """The line has the occurrence's name, its level, and what an operator needs to act on it (BR-26: how many)."""
    assert lines_of(occurrence) == [{**line, "log_level": level}]


@pytest.mark.parametrize(
    "occurrence",
    [
        RoundCompleted(report=EMPTY),
        RoundCompleted(report=evolve(EMPTY, outcome=PublishOutcome.BROKER_UNAVAILABLE, unconfirmed=5)),
        RoundCompleted(report=evolve(EMPTY, outcome=PublishOutcome.FAILED)),
        EventsDelivered(events=3, delivery_lags=(timedelta(0),) * 3),
    ],
)
def test_what_is_nothing_new_is_no_line(occurrence: PublishOccurrence) -> None:
    """Each second has a round: what it did not do, or what another line says, fills no log."""
    assert lines_of(occurrence) == []


def test_an_hour_without_a_broker_is_a_line_a_minute() -> None:
    """An outage is said when it begins, about once a minute, and when it is over; no payload is in any line."""
    clock, broker = SettableClock(), InMemoryBroker()
    store = InMemoryActivityStore(clock=clock)
    with store.begin() as unit_of_work:
        unit_of_work.outbox.append([a_message(clock.read()) for _ in range(30)])
        unit_of_work.commit()
    publish_outbox = PublishOutboxUseCase(
        store=store.outbox_store(),
        sender=InMemorySender(broker, clock),
        identifiers=CountingIdentifiers(),
        observation=PublishLog(),
        cancellation=StopAfter(None),
        options=PublisherOptions(batch_size=10),
    )
    with capture_logs() as log:
        broker.is_down = True
        while clock.monotonic() < 3600:
            publish_outbox.run()
            clock.move(timedelta(seconds=30))
        broker.is_down = False
        publish_outbox.run()
    events = [line["event"] for line in log]
    assert events[0] == "broker unavailable"
    assert events[-2:] == ["broker available", "events published"]
    assert 45 <= len(events) <= 65
    assert "payload" not in str(log)
    assert "sessionId" not in str(log)

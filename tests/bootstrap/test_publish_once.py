"""`publish --once` on an outbox and a broker in memory: when it ends, what it reports, and its exit code."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from attrs import frozen

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.message_sending import InMemoryBroker, InMemorySender
from adapters.in_memory.observation import RecordingPublishObservation
from adapters.in_memory.store import InMemoryActivityStore
from application.contracts.deliveries import a_message
from application.ports.deliveries import Held, Lease
from application.ports.outbox import OutboxMessage
from application.ports.outbox_store import OutboxStore
from application.ports.store_errors import (
    AccessDenied,
    ConnectingCancelled,
    LockTimeout,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
)
from bootstrap.cli.publish import publish_once
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.publisher_container import PublisherContainer
from bootstrap.settings import Settings

TOPIC = "pin.user-activity.session-ended.v1"
OTHER_TOPIC = "pin.user-activity.property-object-view-ended.v1"
LONGEST_LEASE = InMemorySender.delivery_limit + timedelta(seconds=30)


class MovedTime:
    """Lets the clock's time pass while somebody waits, and does what is planned for a moment of it."""

    def __init__(self, clock: SettableClock) -> None:
        self._clock = clock
        self.is_requested = False
        self.waited_seconds = 0.0
        self.plans: list[tuple[float, Callable[[], object]]] = []

    def requested(self) -> bool:
        return self.is_requested

    def wait(self, seconds: float) -> bool:
        self._clock.move(timedelta(seconds=seconds))
        self.waited_seconds += seconds
        while self.plans and self.waited_seconds >= self.plans[0][0]:
            self.plans.pop(0)[1]()
        return self.is_requested


@frozen
class Ending:
    """How it ended; the report is what was on stdout."""

    exit_code: ExitCode
    report: dict[str, Any]


class Outbox:
    """What `publish --once` works on."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.store = InMemoryActivityStore(clock=self.clock)
        self.broker = InMemoryBroker()
        self.time = MovedTime(self.clock)
        self.container = PublisherContainer(
            settings=Settings(publish_batch_size=10, publish_attempts=3), stop=self.time
        )
        self.container.store.override(self.store.outbox_store())
        self.container.sender.override(InMemorySender(self.broker, self.clock))
        self.container.observation.override(RecordingPublishObservation())

    def append(self, count: int, *, topic: str = TOPIC) -> list[OutboxMessage]:
        messages = [a_message(self.clock.read(), topic=topic) for _ in range(count)]
        with self.store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()
        return messages

    def lease(self, *, limit: int, lasting: timedelta) -> Lease:
        """Another publisher leases events."""
        now = self.clock.read()
        lease = Lease(id=a_message(now).id, begins=now, ends=now + lasting)
        with self.store.outbox_store().begin() as unit_of_work:
            assert len(unit_of_work.deliveries.lease(lease, limit=limit, held=Held())) == limit
            unit_of_work.commit()
        return lease


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def drain(outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> Callable[[], Ending]:
    """Let it run, and give back how it ended."""

    def run() -> Ending:
        try:
            exit_code = publish_once(outbox.container.drain())
        except ExpectedError as error:
            exit_code = error.exit_code
        (line,) = capsys.readouterr().out.splitlines()
        return Ending(exit_code, json.loads(line))

    return run


Drain = Callable[[], Ending]


def test_everything_that_is_due_is_delivered(outbox: Outbox, drain: Drain) -> None:
    """All events have arrived, however many batches they are; the result is one line of JSON (specification §10)."""
    messages = outbox.append(35)
    ending = drain()
    assert ending.exit_code is ExitCode.SUCCESS
    assert ending.report == {
        "outcome": "completed",
        "deliveredEvents": 35,
        "refusedEvents": 0,
        "deadEvents": 0,
        "unconfirmedEvents": 0,
        "unrecordedEvents": 0,
        "heldTopics": [],
        "durationMs": 0,
        "pendingEvents": 0,
    }
    assert {message.id for message in outbox.broker.arrived} == {message.id for message in messages}


def test_an_empty_outbox_is_a_success(outbox: Outbox, drain: Drain) -> None:
    """Nothing to do is done."""
    ending = drain()
    assert (ending.exit_code, ending.report["deliveredEvents"]) == (ExitCode.SUCCESS, 0)
    assert outbox.time.waited_seconds == 0


def test_refused_events_are_findings(outbox: Outbox, drain: Drain) -> None:
    """They are not waited for: their next attempt is a later run's, until they are dead, which is a finding too."""
    refused, *_others = outbox.append(5)
    outbox.broker.refuses = lambda message: message.id == refused.id
    ending = drain()
    assert ending.exit_code is ExitCode.FINDINGS
    assert (ending.report["deliveredEvents"], ending.report["refusedEvents"]) == (4, 1)
    assert ending.report["pendingEvents"] == 1
    assert drain().exit_code is ExitCode.SUCCESS  # nothing is due
    for attempt, (refused_events, dead_events, pending) in enumerate([(1, 0, 1), (0, 1, 0)], 1):
        outbox.clock.move(timedelta(seconds=2.0**attempt))
        ending = drain()
        assert ending.exit_code is ExitCode.FINDINGS
        assert (ending.report["refusedEvents"], ending.report["deadEvents"]) == (refused_events, dead_events)
        assert ending.report["pendingEvents"] == pending


def test_a_held_topic_is_a_finding_and_keeps_nothing_else(outbox: Outbox, drain: Drain) -> None:
    """The events of other topics arrive, and it ends without waiting for a topic that somebody has to make."""
    outbox.append(15, topic=OTHER_TOPIC)
    outbox.append(25)
    outbox.broker.missing_topics = {OTHER_TOPIC}
    ending = drain()
    assert ending.exit_code is ExitCode.FINDINGS
    assert (ending.report["deliveredEvents"], ending.report["pendingEvents"]) == (25, 15)
    assert ending.report["heldTopics"] == [OTHER_TOPIC]
    assert outbox.time.waited_seconds == 0


def test_a_broker_that_is_away_is_69_within_its_limit(outbox: Outbox, drain: Drain) -> None:
    """The first batches are waited for as long as a delivery may take, and nothing is sent after them."""
    outbox.append(50)
    outbox.broker.is_down = True
    ending = drain()
    assert ending.exit_code is ExitCode.UNAVAILABLE
    assert (ending.report["outcome"], ending.report["pendingEvents"]) == ("broker_unavailable", 50)
    assert 0 < ending.report["unconfirmedEvents"] <= 20
    assert ending.report["durationMs"] < InMemorySender.delivery_limit.total_seconds() * 1000 + 1000


def test_what_others_have_leased_is_waited_for(outbox: Outbox, drain: Drain) -> None:
    """Another publisher is at work; if it dies, its lease ends, and its events are delivered by this one."""
    outbox.append(12)
    outbox.lease(limit=5, lasting=timedelta(seconds=20))
    ending = drain()
    assert ending.exit_code is ExitCode.SUCCESS
    assert (ending.report["deliveredEvents"], ending.report["pendingEvents"]) == (12, 0)
    assert 20 <= outbox.time.waited_seconds <= 22


def test_others_who_keep_their_events_are_not_waited_for_without_end(outbox: Outbox, drain: Drain) -> None:
    """After the longest time that a lease lasts, there is somebody who holds them, so that another try may do."""
    outbox.append(12)
    outbox.lease(limit=5, lasting=3 * LONGEST_LEASE)
    ending = drain()
    assert ending.exit_code is ExitCode.TRY_AGAIN_LATER
    assert (ending.report["deliveredEvents"], ending.report["pendingEvents"]) == (7, 5)
    assert outbox.time.waited_seconds == pytest.approx(LONGEST_LEASE.total_seconds(), abs=2)


def test_what_comes_meanwhile_is_delivered_too(outbox: Outbox, drain: Drain) -> None:
    """An event that is appended while it waits for others arrives as well, and the report has it."""
    outbox.append(5)
    outbox.lease(limit=5, lasting=timedelta(seconds=20))
    outbox.time.plans = [(7, lambda: outbox.append(3))]
    ending = drain()
    assert (ending.exit_code, ending.report["deliveredEvents"]) == (ExitCode.SUCCESS, 8)


@pytest.mark.parametrize("at_seconds", [0.0, 7.0])
def test_an_end_that_is_asked_for_is_a_success(outbox: Outbox, drain: Drain, at_seconds: float) -> None:
    """Stopped in order is 0, and what is left is said (specification §10)."""
    outbox.append(5)
    outbox.lease(limit=5, lasting=timedelta(seconds=20))

    def request() -> None:
        outbox.time.is_requested = True

    outbox.time.plans = [(at_seconds, request)]
    outbox.time.wait(0)
    ending = drain()
    assert ending.exit_code is ExitCode.SUCCESS
    assert (ending.report["outcome"], ending.report["pendingEvents"]) == ("stopped", 5)
    assert outbox.time.waited_seconds == at_seconds


class FailingStore:
    """Serves so many transactions, and then fails each."""

    def __init__(self, store: OutboxStore, error: StoreError, *, after: int) -> None:
        self.clock = store.clock
        self._store = store
        self._error = error
        self._left = after

    def begin(self) -> Any:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return self._store.begin()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (StoreUnavailable(kind="connection", reason="refused"), ExitCode.UNAVAILABLE),
        (SchemaMissing(kind="42P01", reason="no table"), ExitCode.UNAVAILABLE),
        (AccessDenied(kind="42501", reason="permission denied"), ExitCode.MISSING_RIGHT),
        (LockTimeout(kind="55P03", reason="canceled"), ExitCode.TRY_AGAIN_LATER),
    ],
)
def test_a_store_that_fails_has_its_exit_code(
    outbox: Outbox, drain: Drain, error: StoreError, exit_code: ExitCode, after: int
) -> None:
    """At whatever step the store fails, the report is printed, says `failed`, and does not know what is pending."""
    outbox.append(5)
    outbox.container.store.override(FailingStore(outbox.store.outbox_store(), error, after=after))
    ending = drain()
    assert ending.exit_code is exit_code
    assert (ending.report["outcome"], ending.report["pendingEvents"]) == ("failed", None)


def test_an_end_that_is_asked_for_while_it_connects_is_a_success(outbox: Outbox, drain: Drain) -> None:
    """BR-55: nothing failed for want of the store: it was told to end."""
    error = ConnectingCancelled(kind="connection", reason="the end was asked for")
    outbox.container.store.override(FailingStore(outbox.store.outbox_store(), error, after=0))
    assert drain().exit_code is ExitCode.SUCCESS

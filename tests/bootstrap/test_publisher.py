"""The publisher's loop: when rounds start, and what does not end it. Time is moved by hand."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import pairwise

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from application.ports.publish_observation import PublishOutcome, PublishReport
from application.ports.store_errors import StoreError, StoreUnavailable
from application.publish_outbox import PublishRound
from bootstrap.publisher import Publisher

INTERVAL_SECONDS = 1.0

IDLE = PublishReport(
    outcome=PublishOutcome.COMPLETED,
    sent=0,
    delivered=0,
    refused=0,
    dead=0,
    unconfirmed=0,
    unrecorded=0,
    held_topics=(),
    duration=timedelta(0),
)
BUSY = evolve(IDLE, sent=7, delivered=7)
AWAY = evolve(IDLE, outcome=PublishOutcome.BROKER_UNAVAILABLE, sent=7, unconfirmed=7)
FAILED = evolve(IDLE, outcome=PublishOutcome.FAILED)

UNAVAILABLE = StoreUnavailable(kind="connection", reason="connection refused")


class Timeline:
    """Rounds one after another, in a time in which only they and waits take any."""

    def __init__(self, rounds: Iterable[Callable[[], PublishRound]], *, stop_at: float) -> None:
        self._rounds = iter(rounds)
        self._stop_at = stop_at
        self.seconds = 0.0
        self.starts: list[float] = []
        self.is_running = False

    def requested(self) -> bool:
        return self.seconds >= self._stop_at

    def wait(self, seconds: float) -> bool:
        self.seconds = max(self.seconds, min(self.seconds + seconds, self._stop_at))
        return self.requested()

    def run(self) -> PublishRound:
        """Do the next round, or one that finds nothing; two at once are a defect of the loop."""
        assert not self.is_running
        self.is_running = True
        self.starts.append(self.seconds)
        try:
            ended = next(self._rounds, ended_with(IDLE))()
        finally:
            self.is_running = False
        self.seconds += ended.report.duration.total_seconds()
        return ended


def ended_with(
    report: PublishReport, *, lasting: float = 0.0, error: StoreError | None = None
) -> Callable[[], PublishRound]:
    return lambda: PublishRound(report=evolve(report, duration=timedelta(seconds=lasting)), error=error)


def starts_of(*rounds: Callable[[], PublishRound], stop_at: float = 1000.0) -> list[float]:
    """Let a publisher work; return when the rounds started, up to the second after the last one of these."""
    timeline = Timeline(rounds, stop_at=stop_at)
    publish_on(timeline)
    return timeline.starts[: len(rounds) + 2]


def publish_on(timeline: Timeline) -> None:
    Publisher(run=timeline.run, stop=timeline, polling_interval=timedelta(seconds=INTERVAL_SECONDS)).work()


def test_the_first_round_starts_at_once_and_the_next_after_the_interval() -> None:
    """The pause is between rounds: a round that took its time is followed by a whole one."""
    assert starts_of(ended_with(BUSY, lasting=10)) == [0, 11, 12]


def test_a_stop_before_the_first_round_starts_none() -> None:
    """BR-55: a signal that came during the start is heeded."""
    assert starts_of(stop_at=0) == []


@pytest.mark.parametrize("failure", [ended_with(AWAY), ended_with(FAILED, error=UNAVAILABLE)])
def test_the_pause_grows_while_nothing_gets_through(failure: Callable[[], PublishRound]) -> None:
    """A broker or a store that is away is asked again after 1, 2, 4 … 30 s, and after 30 s from then on."""
    starts = starts_of(*[failure] * 8)
    assert [after - before for before, after in pairwise(starts)] == [
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        30,
        1,
    ]


@pytest.mark.parametrize("success", [ended_with(IDLE), ended_with(evolve(AWAY, delivered=1))])
def test_the_pause_is_short_again_after_a_success(success: Callable[[], PublishRound]) -> None:
    """A round that completes, or one that delivers something before it fails, shows that it may go on."""
    starts = starts_of(*[ended_with(AWAY)] * 4, success, ended_with(AWAY))
    last, after = starts[-2:]
    assert after - last <= 2


def test_a_publisher_outlives_any_number_of_failures() -> None:
    """An outage of weeks ends with the same pause as one of minutes."""
    timeline = Timeline([ended_with(AWAY)] * 100_000, stop_at=30.0 * 50_000)
    publish_on(timeline)
    assert timeline.starts[-1] - timeline.starts[-2] == 30


@pytest.mark.parametrize(
    ("round_seconds", "pause"), [(0.05, INTERVAL_SECONDS), (0.111, INTERVAL_SECONDS), (0.5, 4.5), (20.0, 180.0)]
)
def test_finding_nothing_takes_a_tenth_of_the_time_at_most(round_seconds: float, pause: float) -> None:
    """BR-20: behind an old snapshot each look at the outbox is slow; the database is not kept busy with it."""
    assert starts_of(ended_with(IDLE, lasting=round_seconds))[1] == pytest.approx(round_seconds + pause)


def test_a_held_topic_makes_no_look_cheaper() -> None:
    """BR-20: as long as nothing is sent, a round is a look, however many events wait for their topic."""
    waiting = evolve(IDLE, held_topics=("pin.user-activity.x.v1",))
    assert starts_of(ended_with(waiting, lasting=2))[1] == 20


def test_the_end_comes_after_one_more_try_to_record() -> None:
    """What has arrived while the database was away is recorded, if it serves again when the publisher ends."""
    timeline = Timeline([ended_with(FAILED)], stop_at=0.5)
    publish_on(timeline)
    assert timeline.starts == [0, 0.5]


@pytest.mark.parametrize(
    "report",
    [BUSY, evolve(IDLE, sent=1, refused=1), evolve(IDLE, sent=1, held_topics=("pin.user-activity.x.v1",))],
)
def test_time_that_went_into_sending_needs_no_long_pause(report: PublishReport) -> None:
    """A round that waited for the broker, whatever it said, delays the events of other topics no further."""
    assert starts_of(ended_with(report, lasting=20))[1] == 20 + INTERVAL_SECONDS


def test_a_store_that_does_not_serve_is_said_and_tried_again() -> None:
    """Specification §10: the loop never ends for 69 or 77; each round that failed is one line."""
    with capture_logs() as log:
        assert starts_of(*[ended_with(FAILED, error=UNAVAILABLE)] * 2)[:3] == [0, 1, 3]
    lines = [line for line in log if line["log_level"] == "error"]
    assert [(line["event"], line["kind"], line["error"]) for line in lines] == [
        ("round failed", "connection", "connection refused")
    ] * 2


def test_a_defect_costs_one_round_and_is_told_without_its_text() -> None:
    """Nothing that a round raises ends the publisher; the text of an unknown error may quote a person's data."""

    def defect() -> PublishRound:
        raise KeyError("anon-7f3a")

    with capture_logs() as log:
        assert starts_of(defect, defect)[:3] == [0, 1, 3]
    lines = [line for line in log if line["log_level"] == "error"]
    assert [line["event"] for line in lines] == ["round broke off"] * 2
    assert lines[0]["error"].startswith("KeyError at test_publisher.py:")
    assert "anon-7f3a" not in str(log)


@pytest.mark.parametrize("rounds", [[], [ended_with(AWAY)] * 9])
def test_a_stop_cuts_the_pause_short(rounds: list[Callable[[], PublishRound]]) -> None:
    """BR-55: the end is heeded when it is asked for, in the longest pause too; the last line says why."""
    timeline = Timeline(rounds, stop_at=70.5)
    with capture_logs() as log:
        publish_on(timeline)
    assert timeline.seconds == 70.5
    assert (log[-1]["event"], log[-1]["reason"]) == ("publisher stopped", "asked to stop")

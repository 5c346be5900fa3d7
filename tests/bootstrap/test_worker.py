"""The worker's loop: when runs start, and what does not end it (D-08). Time is moved by hand."""

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from application.close_idle_activity import CloserRun
from application.ports.run_observation import Backlog, RunOutcome, RunReport
from application.ports.store_errors import AccessDenied, SchemaMissing, StoreUnavailable
from bootstrap.worker import Worker

INTERVAL_SECONDS = 60.0
BEGINNING = 1000.0
"""What a monotonic clock shows first means nothing."""

DONE = CloserRun(
    report=RunReport(
        job_run_id=UUID(int=1),
        outcome=RunOutcome.COMPLETED,
        closed_sessions=0,
        closed_views=0,
        deferred_sessions=0,
        failed_items=0,
        duration=timedelta(0),
        backlog_remaining=Backlog(sessions=0, views=0),
    ),
    error=None,
)


class Timeline:
    """Time in which waits and work take no time; the end is asked for at a moment of it."""

    def __init__(self, *, stop_at: float) -> None:
        self.seconds = BEGINNING
        self._stop_at = BEGINNING + stop_at
        self.starts: list[float] = []
        """When runs started, from the beginning."""
        self.is_running = False

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        """Let time pass whether or not the end is asked for."""
        self.seconds += seconds

    def requested(self) -> bool:
        return self.seconds >= self._stop_at

    def wait(self, seconds: float) -> bool:
        self.seconds = max(self.seconds, min(self.seconds + seconds, self._stop_at))
        return self.requested()

    def run(self, work: Callable[[], None]) -> CloserRun:
        """Do one run's work; two at once are a defect of the loop."""
        assert not self.is_running
        self.is_running = True
        self.starts.append(self.seconds - BEGINNING)
        try:
            work()
        finally:
            self.is_running = False
        return DONE


def work_through(timeline: Timeline, work: Callable[[], None], *, start_jitter: float = 0.0) -> Sequence[float]:
    """Let a worker work until the timeline's end; return when its runs started."""
    Worker(
        run=lambda: timeline.run(work),
        monotonic=timeline.monotonic,
        stop=timeline,
        polling_interval=timedelta(seconds=INTERVAL_SECONDS),
        start_jitter=timedelta(seconds=start_jitter),
    ).work()
    return timeline.starts


def work_of(timeline: Timeline, *durations: float) -> Callable[[], None]:
    """Return work that takes so long, run by run, and then no time."""
    rest = iter(durations)
    return lambda: timeline.pass_by(next(rest, 0.0))


def test_the_first_run_starts_at_once() -> None:
    """D-08: the worker does not wait an interval before it does anything."""
    timeline = Timeline(stop_at=0.001)
    assert work_through(timeline, work_of(timeline)) == [0]


def test_a_stop_before_the_first_tick_starts_no_run() -> None:
    """BR-55: a signal that came during the start is heeded."""
    timeline = Timeline(stop_at=0)
    assert work_through(timeline, work_of(timeline)) == []


def test_the_time_of_the_work_is_within_the_interval() -> None:
    """BR-23: sixty runs of five seconds take sixty minutes, not sixty-five."""
    timeline = Timeline(stop_at=60 * INTERVAL_SECONDS)
    starts = work_through(timeline, work_of(timeline, *[5.0] * 60))
    assert starts == [tick * INTERVAL_SECONDS for tick in range(60)]


@pytest.mark.parametrize(
    ("work_seconds", "next_start", "missed"),
    [(59.0, 60.0, 0), (60.0, 60.0, 0), (60.5, 120.0, 1), (90.0, 120.0, 1), (120.0, 120.0, 1), (301.0, 360.0, 5)],
)
def test_missed_ticks_are_left_out_and_said(work_seconds: float, next_start: float, missed: int) -> None:
    """BR-31, BR-41: after a run longer than the interval the next tick of the rate is the next start."""
    timeline = Timeline(stop_at=next_start + 61)
    with capture_logs() as log:
        starts = work_through(timeline, work_of(timeline, work_seconds))
    assert starts == [0, next_start, next_start + 60]
    assert [line["ticks"] for line in log if line["event"] == "ticks missed"] == ([missed] if missed else [])


def test_a_wait_that_lasts_too_long_causes_one_run() -> None:
    """BR-41: a process that was suspended while it waited runs once, then in the rhythm of before."""

    class Suspended(Timeline):
        def wait(self, seconds: float) -> bool:
            overslept = 305.0 if len(self.starts) == 1 and seconds > 0 else 0.0
            return super().wait(seconds + overslept)

    timeline = Suspended(stop_at=600)
    assert work_through(timeline, work_of(timeline)) == [0, 365, 420, 480, 540]


@given(durations=st.lists(st.integers(0, 200), max_size=20))
def test_each_start_is_the_first_tick_that_the_run_before_leaves_free(durations: list[int]) -> None:
    """D-08: whatever runs take, they start at ticks of the rate, and no tick at which the worker is free goes by."""
    timeline = Timeline(stop_at=10_000)
    starts = work_through(timeline, work_of(timeline, *durations))
    expected = []
    for start, duration in zip(starts, durations, strict=False):
        first_free_tick = math.ceil((start + duration) / INTERVAL_SECONDS)
        next_tick = start / INTERVAL_SECONDS + 1
        expected.append(max(first_free_tick, next_tick))
    assert [start / INTERVAL_SECONDS for start in starts[1 : len(expected) + 1]] == expected


def test_the_jitter_delays_the_first_run_only() -> None:
    """D-08: instances that start together spread over the jitter, and each keeps its rate from then on."""
    jitter = 30.0
    first_starts = set()
    for _instance in range(50):
        timeline = Timeline(stop_at=200)
        starts = work_through(timeline, work_of(timeline), start_jitter=jitter)
        assert 0 <= starts[0] <= jitter
        assert [start - starts[0] for start in starts] == pytest.approx([0, 60, 120] + [180] * (len(starts) - 3))
        first_starts.add(starts[0])
    assert max(first_starts) - min(first_starts) > jitter / 2


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable(kind="connection", reason="connection refused"),
        AccessDenied(kind="42501", reason="permission denied for table outbox"),
        SchemaMissing(kind="42P01", reason="no table"),
    ],
)
def test_a_store_that_does_not_serve_costs_one_tick(error: StoreUnavailable) -> None:
    """Specification §10: the loop never ends for 69 or 77; it says so in one line and tries again."""
    timeline = Timeline(stop_at=121)
    failures = iter([error, error])

    def fail_twice() -> None:
        for failure in failures:
            raise failure

    with capture_logs() as log:
        assert work_through(timeline, fail_twice) == [0, 60, 120]
    lines = [line for line in log if line["log_level"] == "error"]
    assert [(line["event"], line["kind"], line["error"]) for line in lines] == [
        ("job not started", error.kind, error.reason)
    ] * 2


def test_a_defect_costs_one_tick_and_is_told_without_its_text() -> None:
    """D-06: nothing that one run raises ends the worker; the text of an unknown error may quote a person's data."""
    timeline = Timeline(stop_at=61)
    failures = iter([KeyError("anon-7f3a")])

    def fail_once() -> None:
        for failure in failures:
            raise failure

    with capture_logs() as log:
        assert work_through(timeline, fail_once) == [0, 60]
    [line] = [line for line in log if line["log_level"] == "error"]
    assert line["event"] == "job broke off"
    assert line["error"].startswith("KeyError at test_worker.py:")
    assert "anon-7f3a" not in str(log)


@pytest.mark.parametrize("stop_at", [30.0, 60.0, 95.0])
def test_a_stop_cuts_the_wait_short(stop_at: float) -> None:
    """BR-55: the end is heeded when it is asked for, not at the next tick; the last line says why."""
    timeline = Timeline(stop_at=stop_at)
    with capture_logs() as log:
        work_through(timeline, work_of(timeline))
    assert timeline.seconds == BEGINNING + stop_at
    assert (log[-1]["event"], log[-1]["reason"]) == ("worker stopped", "asked to stop")


@pytest.mark.parametrize("work_seconds", [45.0, 300.0])
def test_a_stop_during_a_run_starts_no_other(work_seconds: float) -> None:
    """BR-29: the run under way ends in its own order, and no run follows, not even for a tick that is due."""
    timeline = Timeline(stop_at=40.0)
    assert work_through(timeline, work_of(timeline, work_seconds)) == [0]
    assert timeline.seconds == BEGINNING + work_seconds

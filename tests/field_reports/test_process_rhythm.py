"""BR-23, BR-31, BR-41: the worker keeps its rate, whatever a run takes and whatever happens to the process (D-08).

The log's own times are judged, and only by what a busy machine cannot break: no run starts before its tick, and a late
one is made up for. The exact rate is shown by a clock that is moved by hand, in the worker's own tests.
"""

import signal
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import psycopg
import pytest

from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import LogLine, Program, time_of, wait_until

START: Final = "job started"
END: Final = "job completed"


def seconds_between(first: LogLine, second: LogLine) -> float:
    """How long after one line of the log another one was written."""
    return (time_of(second) - time_of(first)) / timedelta(seconds=1)


def missed_ticks(lines: Sequence[LogLine]) -> int:
    """How many ticks the worker says it left out."""
    return sum(line["ticks"] for line in lines if line["event"] == "ticks missed")


def ticks_late(lines: Sequence[LogLine], interval: float) -> list[float]:
    """How many ticks after its own each run started: the first tick is the worker's start, missed ones have no run."""
    [origin] = [line for line in lines if line["event"] == "worker started"]
    late: list[float] = []
    missed = 0
    for line in lines:
        if line["event"] == START:
            late.append(seconds_between(origin, line) / interval - len(late) - missed)
        elif line["event"] == "ticks missed":
            missed += line["ticks"]
    return late


def assert_keeps_the_rate(late: Sequence[float]) -> None:
    """Never early: neither a burst nor a second rhythm; and not late for good: nothing is added to the interval."""
    assert min(late) > -0.1
    assert min(late[-3:]) < 1.0


def assert_never_two_at_once(lines: Sequence[LogLine]) -> None:
    """Starts and ends of runs alternate."""
    events = [line["event"] for line in lines if line["event"] in {START, END}]
    assert events == [START, END] * (len(events) // 2) + [START] * (len(events) % 2)


@pytest.mark.slow
def test_work_is_not_added_to_the_interval(database: str) -> None:
    """BR-23: runs that take half of the interval start one interval apart all the same."""
    interval, runs = 0.4, 15
    tables = ActivityTables(database)
    tables.add_sessions(1000)
    tables.slow_down(seconds_a_row=0.02)
    with Program(
        "run", database_url=database, polling_interval="400ms", max_run_duration="200ms", log_level="info"
    ) as program:
        program.wait_for(END, count=runs)
        lines = program.log()

    assert all(line["durationMs"] >= 200 for line in lines if line["event"] == END)
    assert_keeps_the_rate(ticks_late(lines, interval))
    assert_never_two_at_once(lines)
    tables.assert_rules_hold()


@pytest.mark.slow
def test_a_run_longer_than_the_interval(database: str) -> None:
    """BR-31: it ends at its limit, whole; the next one starts with the next tick of the rate, never beside it."""
    interval, limit, row = 0.5, 1.2, 0.05
    tables = ActivityTables(database)
    tables.add_sessions(1000)
    tables.slow_down(seconds_a_row=row)
    with Program("run", database_url=database, polling_interval="500ms", max_run_duration="1200ms") as program:
        program.wait_for(END, count=3)
        lines = program.log()

    starts = [line for line in lines if line["event"] == START][:3]
    ends = [line for line in lines if line["event"] == END][:3]
    for start, end in zip(starts, ends, strict=True):
        assert end["outcome"] == "stopped"
        assert end["closedSessions"] > 0
        assert limit <= seconds_between(start, end) <= limit + row + 5.0
    assert missed_ticks(lines) >= 4
    assert_keeps_the_rate(ticks_late(lines, interval))
    assert_never_two_at_once(lines)
    tables.assert_rules_hold()


def test_a_statement_that_waits_for_a_lock(database: str) -> None:
    """BR-31: a table's lock held by somebody for long costs a run its lock timeout and an error, not the next tick."""
    tables = ActivityTables(database)
    tables.add_sessions(10, views=1)
    with (
        psycopg.connect(database) as holder,
        Program("run", database_url=database, polling_interval="500ms", lock_timeout="300ms") as program,
    ):
        holder.execute("lock table user_activity.sessions in access exclusive mode")
        failed = program.wait_for(END, outcome="failed")
        assert failed["closedSessions"] == 0
        # Each phase waits once, not once for each of its rows.
        [first_run, *_] = [line["jobRunId"] for line in program.log(END)]
        waits = [line["kind"] for line in program.log("transaction failed") if line["jobRunId"] == first_run]
        assert waits == ["55P03"] * 2
        holder.rollback()

        completed = program.wait_for(END, outcome="completed")

        assert (completed["closedSessions"], completed["closedViews"]) == (10, 10)
    tables.assert_rules_hold()


@pytest.mark.slow
def test_a_suspended_process_makes_up_for_nothing(database: str) -> None:
    """BR-41: after five missed ticks one run starts at once, the next ones in the rhythm of before."""
    interval = 0.6
    tables = ActivityTables(database)
    with Program("run", database_url=database, polling_interval="600ms") as program:
        program.wait_for(END, count=3)
        program.send(signal.SIGSTOP)
        suspended_until = time.monotonic() + 5.5 * interval
        tables.add_sessions(10, views=1)
        wait_until(lambda: time.monotonic() >= suspended_until)
        before = len(program.log())
        runs = len(program.log(START))
        # The signal may have met a run: then it is that one which is late, and ends.
        within_a_run = runs > len(program.log(END))
        resumed = time.monotonic()
        program.send(signal.SIGCONT)
        program.wait_for(END, count=len(program.log(END)) + 1)
        assert time.monotonic() - resumed <= 5.0
        program.wait_for(START, count=runs + 4)
        lines = program.log()

    assert missed_ticks(lines[before:]) >= 4
    late = ticks_late(lines, interval)
    assert within_a_run or late[runs] >= 4.0, "the run that was due while the process stood still"
    assert_keeps_the_rate(late)
    assert tables.closed() == 20
    tables.assert_rules_hold()


def test_another_instance_takes_over_from_a_suspended_one(database: str) -> None:
    """BR-41, variant: what becomes stale while one instance stands still is closed by the other one in its rhythm."""
    tables = ActivityTables(database)
    with (
        Program("run", database_url=database, polling_interval="500ms") as one,
        Program("run", database_url=database, polling_interval="500ms") as other,
    ):
        one.wait_for(END)
        other.wait_for(END)
        one.send(signal.SIGSTOP)
        tables.add_sessions(10, views=1)
        added = time.monotonic()
        wait_until(lambda: tables.closed() == 20)
        assert time.monotonic() - added <= 5.0
        runs = len(one.log(END))
        one.send(signal.SIGCONT)
        one.wait_for(END, count=runs + 2)
        assert not [line for line in one.log() if line["level"] == "error"]
    tables.assert_rules_hold()

"""BR-29, BR-55: a signal ends the worker at once and in order, whatever it is doing."""

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import PATIENCE_SECONDS, Ending, Program, time_of, wait_until

IN_A_NEW_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
AT_ONCE_SECONDS = 2.0
INTERPRETER_END_SECONDS = 3.0
"""What the interpreter's own end may take on a machine that is busy with other tests; on an idle one it is 0.05 s."""


def is_namespace_allowed() -> bool:
    """Tell whether this machine lets a test have a process 1 of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*IN_A_NEW_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


STARTS = [
    pytest.param((), id="child"),
    pytest.param(
        IN_A_NEW_NAMESPACE,
        id="process 1",
        marks=pytest.mark.skipif(
            not (os.environ.get("CI") or is_namespace_allowed()),
            reason="the kernel lets only an administrator make process namespaces",
        ),
    ),
]
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@contextmanager
def silent_host() -> Iterator[tuple[str, socket.socket]]:
    """A host that takes connections and never says a word: its address, and the socket at which it listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        yield f"host=127.0.0.1 port={listener.getsockname()[1]} user=closer dbname=activity", listener


def worker_of(program: Program, before: tuple[str, ...]) -> int:
    """Return the worker's own process id, seen from here."""
    if not before:
        return program.pid
    [child] = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    return int(child)


def stopped(program: Program, before: tuple[str, ...], *signals: signal.Signals) -> Ending:
    """Send signals and judge the end; what was logged before them is judged by the caller."""
    runs = len(program.log("job started"))
    worker = worker_of(program, before)
    sent = datetime.now(UTC)
    for number in signals:
        os.kill(worker, number)
    ended = program.ending()
    assert (ended.exit_code, ended.said, ended.stdout) == (0, [], ())
    assert (ended.log[-1]["event"], ended.log[-1]["reason"]) == ("worker stopped", "asked to stop")
    assert time_of(ended.log[-1]) - sent <= timedelta(seconds=AT_ONCE_SECONDS)
    assert ended.seconds <= AT_ONCE_SECONDS + INTERPRETER_END_SECONDS
    assert len([line for line in ended.log if line["event"] == "job started"]) == runs, "no run after the signal"
    return ended


@pytest.mark.parametrize("before", STARTS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_it_waits_for_the_next_tick(
    database: str, before: tuple[str, ...], number: signal.Signals
) -> None:
    """BR-55 (a): a wait of a minute is cut short."""
    with Program("run", before=before, database_url=database) as program:
        program.wait_for("job completed")
        stopped(program, before, number)


@pytest.mark.parametrize("before", STARTS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_first_connection_exists(before: tuple[str, ...], number: signal.Signals) -> None:
    """BR-55 (b): connecting to a host that does not answer is given up."""
    with silent_host() as (dsn, host), Program("run", before=before, database_url=dsn) as program, host.accept()[0]:
        program.wait_for("worker started")
        stopped(program, before, number)


@pytest.mark.parametrize("before", STARTS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_database_is_down(before: tuple[str, ...], number: signal.Signals) -> None:
    """BR-55 (c): nor does a worker that tries again and again miss it."""
    with Program("run", before=before, database_url="host=/nowhere", polling_interval="100ms") as program:
        program.wait_for("job not started", count=3)
        stopped(program, before, number)


def test_a_second_signal_changes_nothing(database: str) -> None:
    """BR-29: whoever is impatient does no harm."""
    with Program("run", database_url=database) as program:
        program.wait_for("job completed")
        stopped(program, (), signal.SIGTERM, signal.SIGTERM, signal.SIGINT)


def test_a_signal_ends_a_single_run_that_cannot_connect() -> None:
    """Specification §10: stopped in order is 0, also where no run has begun."""
    with silent_host() as (dsn, host), Program("run", "--once", database_url=dsn) as program, host.accept()[0]:
        program.send(signal.SIGTERM)
        ended = program.ending()
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, (), ())
    assert ended.seconds <= AT_ONCE_SECONDS + INTERPRETER_END_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("once", [True, False])
def test_signals_in_the_middle_of_batches(database: str, once: bool) -> None:
    """BR-29: at random moments of slow statements, the statement under way ends, is committed, and is the last one."""
    statement_seconds = 0.3
    moments = random.Random(20261202)  # noqa: S311 (no secret)
    tables = ActivityTables(database)
    tables.add_sessions(200, views=1, views_silent="1 min")
    tables.add_sessions(20, silent="1 min", views=5, views_silent="20 min")
    tables.slow_down(seconds_a_row=statement_seconds / 5)
    tables.slow_down(seconds_a_row=statement_seconds / 5, table="property_object_views")
    for round_number in range(5):
        aim = tables.closed() + moments.randint(1, 8)
        arguments = ("run", "--once") if once else ("run",)
        with Program(*arguments, database_url=database, batch_size="5") as program:
            wait_until(lambda aim=aim: tables.closed() >= aim)  # type: ignore[misc]
            program.send(signal.SIGTERM)
            closed = tables.closed()
            if round_number % 2:
                program.send(signal.SIGTERM)
            ended = program.ending()
        assert (ended.exit_code, ended.said) == (0, [])
        assert ended.seconds <= statement_seconds + AT_ONCE_SECONDS + INTERPRETER_END_SECONDS
        assert tables.closed() - closed <= 5, "at most the transaction under way"
        completed = [line for line in ended.log if line["event"] == "job completed"]
        assert [line["outcome"] for line in completed] == ["stopped"]
        assert not [line for line in ended.log if line["level"] != "info"]
        tables.assert_rules_hold()
        tables.assert_nothing_personal_in(ended.text)
    assert tables.counts().active_sessions > 0

"""The wish to stop, asked for by a signal or by the program itself."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from bootstrap.stop_signal import StopSignal


@pytest.fixture
def listening() -> Iterator[StopSignal]:
    """A stop signal that has taken the process's signals over, until the test is done."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = StopSignal()
    stop.listen()
    yield stop
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end(listening: StopSignal, number: signal.Signals) -> None:
    """Either signal sets the wish, and a second one changes nothing."""
    assert not listening.requested()
    for _time in range(2):
        signal.raise_signal(number)
        assert listening.requested()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cuts_a_wait_short(listening: StopSignal, number: signal.Signals) -> None:
    """BR-55: a wait of a minute ends with the signal, also with one that another thread takes."""
    main = threading.main_thread().ident
    assert main is not None
    sender = threading.Timer(0.05, os.kill, [os.getpid(), number])
    sender.start()
    began = time.monotonic()
    assert listening.wait(60)
    assert time.monotonic() - began < 30
    sender.join()


def test_a_wish_that_came_before_the_wait_is_not_lost() -> None:
    """Between the look at the wish and the wait there is no gap in which a signal has no effect."""
    stop = StopSignal()
    stop.request()
    began = time.monotonic()
    for _again in range(2):
        assert stop.wait(60)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("seconds", [0.0, -5.0, 0.02])
def test_a_wait_without_a_wish_ends_by_itself(seconds: float) -> None:
    """A tick that is due or overdue waits for nothing; nobody asked for the end."""
    stop = StopSignal()
    began = time.monotonic()
    assert not stop.wait(seconds)
    assert seconds <= time.monotonic() - began < 30
    assert not stop.requested()


def test_any_number_of_wishes_is_one() -> None:
    """A handler that blocked on a full pipe would hang the process that it is to end."""
    stop = StopSignal()
    for _time in range(100_000):
        stop.request()
    assert stop.wait(60)


def test_a_statement_under_way_is_not_torn(listening: StopSignal) -> None:
    """BR-29: the handler raises nothing: what a signal interrupts goes on to its end."""
    reader, writer = os.pipe()
    answer = threading.Timer(0.2, os.write, [writer, b"whole"])
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
    answer.start()
    assert os.read(reader, 5) == b"whole"
    assert listening.requested()
    answer.join()
    os.close(reader)
    os.close(writer)

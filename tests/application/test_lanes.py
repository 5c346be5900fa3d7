"""Doing the same with several items at once."""

from contextvars import ContextVar
from threading import Barrier, Lock

import pytest

from application.lanes import Lanes

context = ContextVar("context", default="none")


@pytest.mark.parametrize("lanes", [Lanes(), Lanes(3)], ids=["one", "three"])
def test_every_item_is_answered_in_order(lanes: Lanes) -> None:
    """Answers come in the order of their items, however the work is shared."""
    assert list(lanes.map(lambda number: number * 2, range(50))) == [number * 2 for number in range(50)]


@pytest.mark.parametrize("lanes", [Lanes(), Lanes(3)], ids=["one", "three"])
def test_an_exception_comes_out(lanes: Lanes) -> None:
    """A defect in a lane is not lost in its thread."""
    with pytest.raises(ZeroDivisionError):
        list(lanes.map(lambda number: 1 // number, [1, 0, 1]))


@pytest.mark.parametrize("lanes", [Lanes(), Lanes(3)], ids=["one", "three"])
def test_the_callers_context_is_seen(lanes: Lanes) -> None:
    """What hangs on the context, a span say, holds within each lane (BR-53)."""
    context.set("a span")
    assert set(lanes.map(lambda _: context.get(), range(10))) == {"a span"}


def test_lanes_work_side_by_side_and_no_more_than_there_are() -> None:
    """Three lanes have three items in hand at once, never four."""
    barrier, mutex, busy, busiest = Barrier(3), Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal busy, busiest
        with mutex:
            busy += 1
            busiest = max(busiest, busy)
        barrier.wait(timeout=20)
        with mutex:
            busy -= 1

    list(Lanes(3).map(work, range(9)))
    assert busiest == 3

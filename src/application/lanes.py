"""How many transactions a run of the closer has under way at once."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Lanes(Protocol):
    """Does the same with each of several items; at most one item a lane at a time."""

    @property
    def count(self) -> int:
        """How many lanes there are; each has a connection of its own."""

    def map(self, action: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """What the action answers for each item, in their order; its exceptions come out where its answer would."""


class OneLane:
    """One after the other, in the caller's thread."""

    count = 1

    def map(self, action: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """What the action answers for each item."""
        return map(action, items)


class ThreadLanes:
    """Side by side in threads: connections share the sync of their commits (group commit)."""

    def __init__(self, count: int) -> None:
        self.count = count

    def map(self, action: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """What the action answers for each item; each call sees the caller's context, the span in it, say."""
        with ThreadPoolExecutor(self.count, thread_name_prefix="lane") as threads:
            futures = [threads.submit(copy_context().run, action, item) for item in items]
            for future in futures:
                yield future.result()

"""How many transactions a run of the closer has under way at once."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Lanes:
    """Does the same with each of several items; at most one item a lane at a time, and each lane has a connection.

    One lane works in the caller's thread. Several share the sync of their commits (group commit).
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def map(self, action: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """What the action answers for each item, in their order; its exceptions come out where its answer would.

        Each call sees the caller's context: the span in it, say.
        """
        if self.count == 1:
            yield from map(action, items)
            return
        with ThreadPoolExecutor(self.count, thread_name_prefix="lane") as threads:
            futures = [threads.submit(copy_context().run, action, item) for item in items]
            for future in futures:
                yield future.result()

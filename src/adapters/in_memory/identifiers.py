"""Ids that are the same in every run of a test."""

from datetime import datetime
from itertools import count
from uuid import UUID


class CountingIdentifiers:
    """Version 7 ids of the given time, told apart by a counter in place of random bits."""

    def __init__(self) -> None:
        self._counter = count(1)  # `next` on it is atomic

    def new(self, at: datetime) -> UUID:
        """The next id."""
        milliseconds = int(at.timestamp() * 1000)
        return UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62 | next(self._counter))

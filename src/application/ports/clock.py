"""Time, as a role that somebody plays."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time of the store, not of this host: a skewed host must not close a live session (D-01)."""

    def read(self) -> datetime:
        """Asks the store for its time: aware, UTC, microseconds. Raises StoreError."""

    def now(self) -> datetime:
        """The time last read, moved on by a monotonic clock: no round trip, never before the last reading."""

    def monotonic(self) -> float:
        """Seconds that only ever grow; for measuring how long something takes."""

"""A clock that is moved by hand."""

from datetime import UTC, datetime, timedelta


class SettableClock:
    """Stands still until it is moved; all of its readings agree."""

    def __init__(self, now: datetime = datetime(2026, 12, 1, 12, tzinfo=UTC)) -> None:
        self._now = now
        self._seconds = 0.0

    def read(self) -> datetime:
        """The time that was set."""
        return self._now

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def monotonic(self) -> float:
        """Seconds moved on so far."""
        return self._seconds

    def move(self, by: timedelta) -> None:
        """Moves the time; backwards as well, which the monotonic reading does not follow."""
        self._now += by
        self._seconds += max(by.total_seconds(), 0.0)

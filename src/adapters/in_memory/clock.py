"""A clock that is moved by hand."""

from datetime import UTC, datetime, timedelta


class SettableClock:
    """Stands still until it is moved.

    The store's time and the host's monotonic clock are moved together by `move`; `step` sets the store's time alone, as
    when somebody corrects it, which is noticed at the next reading.
    """

    def __init__(self, now: datetime = datetime(2026, 12, 1, 12, tzinfo=UTC)) -> None:
        self._stores_time = now
        self._seconds = 0.0
        self._reading = (now, 0.0)

    def read(self) -> datetime:
        self._reading = (self._stores_time, self._seconds)
        return self._stores_time

    def now(self) -> datetime:
        read_at, since = self._reading
        return read_at + timedelta(seconds=self._seconds - since)

    def monotonic(self) -> float:
        return self._seconds

    def move(self, by: timedelta) -> None:
        """Lets time pass."""
        self._stores_time += by
        self._seconds += by.total_seconds()

    def step(self, by: timedelta) -> None:
        """Sets the store's clock, forward or back, without time passing."""
        self._stores_time += by

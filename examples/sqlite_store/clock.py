"""The time of the store."""

import time
from datetime import UTC, datetime, timedelta


class HostClock:
    """The host's time, since there is no server that could be asked for its own (D-01).

    So a host whose clock is wrong does close live sessions, and all that write to the file have to go by one clock.
    They do on one host; on a network's file system SQLite's locks are not to be trusted anyway.
    """

    def __init__(self) -> None:
        self._reading: tuple[datetime, float] | None = None

    def read(self) -> datetime:
        self._reading = (datetime.now(UTC), time.monotonic())
        return self._reading[0]

    def now(self) -> datetime:
        if self._reading is None:
            return self.read()
        read_at, since = self._reading
        return read_at + timedelta(seconds=time.monotonic() - since)

    def monotonic(self) -> float:
        return time.monotonic()

"""The hosts that processes run on, each with clocks of its own (D-01)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from adapters.in_memory.clock import SettableClock
from tests.simulation.turns import Call, Place, Turns

READING: Final = Call("clock", "read")


@frozen(kw_only=True)
class Host:
    """How its clocks differ from the store's."""

    uptime: timedelta = timedelta(0)
    """What its monotonic clock shows beyond that of others."""
    skew: timedelta = timedelta(0)
    """How far its wall clock is ahead of the store's time, which nobody may notice."""


HOSTS: Final = (
    Host(),
    Host(uptime=timedelta(days=40), skew=timedelta(minutes=13)),
    Host(uptime=timedelta(hours=-1), skew=timedelta(minutes=-13)),
)


class HostClock:
    """The store's time as a process knows it: read in a step of its own, moved on by the host's monotonic clock."""

    def __init__(self, turns: Turns, stores_clock: SettableClock, host: Host) -> None:
        self._turns = turns
        self._stores_clock = stores_clock
        self._host = host
        self._reading: tuple[datetime, float] | None = None

    def read(self) -> datetime:
        return self._turns.call(READING, self._read)

    def _read(self) -> datetime:
        self._turns.pause(Place.CLOCK)
        now = self._answer()
        self._reading = (now, self.monotonic())
        return now

    def _answer(self) -> datetime:
        return self._stores_clock.read()

    def now(self) -> datetime:
        if self._reading is None:
            return self.read()
        read_at, since = self._reading
        return read_at + timedelta(seconds=self.monotonic() - since)

    def monotonic(self) -> float:
        return self._stores_clock.monotonic() + self._host.uptime.total_seconds()


ClockKind = Callable[[Turns, SettableClock, Host], HostClock]

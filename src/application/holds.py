"""What is not worth a try at the moment."""

from collections.abc import Hashable
from datetime import timedelta
from typing import Final, Generic, TypeVar

from attrs import frozen

from application.ports.clock import Clock

PAUSE_MIN: Final = timedelta(seconds=1)
PAUSE_MAX: Final = timedelta(minutes=1)

Thing = TypeVar("Thing", bound=Hashable)


@frozen
class _Hold:
    pause: timedelta
    until_seconds: float


class Holds(Generic[Thing]):
    """Remembers for how long a topic, say, is not to be tried; twice as long each time that it failed again.

    A publisher's own knowledge: it is in no row, so it costs the outbox nothing and no event an attempt.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holds: dict[Thing, _Hold] = {}

    def hold(self, thing: Thing) -> timedelta | None:
        """It failed; answers how long it is held now, or None where it was held already: failures count once a hold."""
        now, earlier = self._clock.monotonic(), self._holds.get(thing)
        if earlier and now < earlier.until_seconds:
            return None
        pause = min(earlier.pause * 2, PAUSE_MAX) if earlier else PAUSE_MIN
        self._holds[thing] = _Hold(pause, now + pause.total_seconds())
        return pause

    def let_go(self, thing: Thing) -> bool:
        """It succeeded; answers whether it had failed before."""
        return self._holds.pop(thing, None) is not None

    def forget_lapsed(self) -> None:
        """Everything that could be tried has been: what failed before and is not held was not there any more."""
        held = self.held
        self._holds = {thing: hold for thing, hold in self._holds.items() if thing in held}

    @property
    def held(self) -> frozenset[Thing]:
        """What is not to be tried now."""
        now = self._clock.monotonic()
        return frozenset(thing for thing, hold in self._holds.items() if now < hold.until_seconds)

    @property
    def failed(self) -> frozenset[Thing]:
        """What failed when it was last tried."""
        return frozenset(self._holds)

"""Time that passes faster, for everything that reads a clock or waits."""

from datetime import datetime

from attrs import frozen

from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Waiting
from application.ports.clock import Clock
from application.ports.unit_of_work import UnitOfWork


@frozen(kw_only=True)
class FasterClock:
    """A clock that runs `speed` times as fast as another one since `start`, when both showed the same."""

    clock: Clock
    start: datetime
    speed: float

    def read(self) -> datetime:
        """The store's time, made faster. Raises StoreError."""
        return self._faster(self.clock.read())

    def now(self) -> datetime:
        """The time last read, moved on."""
        return self._faster(self.clock.now())

    def monotonic(self) -> float:
        """Seconds of the faster time."""
        return self.clock.monotonic() * self.speed

    def _faster(self, moment: datetime) -> datetime:
        return self.start + (moment - self.start) * self.speed


@frozen(kw_only=True)
class FasterWaiting:
    """Waits that are over `speed` times sooner."""

    waiting: Waiting
    speed: float

    def requested(self) -> bool:
        """Whether to end."""
        return self.waiting.requested()

    def wait(self, seconds: float) -> bool:
        """Waits for so many seconds of the faster time, or until the end is asked for; answers whether it was."""
        return self.waiting.wait(seconds / self.speed)


@frozen(kw_only=True)
class FasterStore:
    """A store whose time is another one. All timestamps come from the store's clock (D-01), so all rows follow it."""

    store: ActivityStore
    clock: Clock

    def begin(self) -> UnitOfWork:
        """A new unit of work."""
        return self.store.begin()

    def close(self) -> None:
        """Lets go of all resources."""
        self.store.close()

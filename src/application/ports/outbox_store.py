"""The outbox from the side of those who deliver it."""

from types import TracebackType
from typing import Protocol, Self

from application.ports.clock import Clock
from application.ports.deliveries import Deliveries
from application.ports.outbox_upkeep import OutboxUpkeep


class OutboxUnitOfWork(Protocol):
    """A transaction: entered, used by one thread, and rolled back unless it was committed.

    As of every unit of work, any call may raise a StoreError, `commit` included. None is open while a broker is waited
    for.
    """

    @property
    def deliveries(self) -> Deliveries:
        """Events on their way out."""

    @property
    def upkeep(self) -> OutboxUpkeep:
        """What the operator asks."""

    def commit(self) -> None:
        """Makes every change of the transaction durable, or none, and ends it."""

    def __enter__(self) -> Self:
        """Begins the transaction."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Rolls back what was not committed. Raises nothing of its own."""


class OutboxStore(Protocol):
    """What a storage adapter supplies for the publisher; `ACTIVITY_CLOSER_OUTBOX_STORE` names a factory of one."""

    @property
    def clock(self) -> Clock:
        """The store's time."""

    def begin(self) -> OutboxUnitOfWork:
        """A new unit of work, to be entered by `with`."""

    def close(self) -> None:
        """Lets go of all resources, when no unit of work is open any more."""

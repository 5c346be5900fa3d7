"""A place where sessions, views and the outbox live."""

from typing import Protocol

from application.ports.clock import Clock
from application.ports.unit_of_work import UnitOfWork


class ActivityStore(Protocol):
    """What a storage adapter supplies; `ACTIVITY_CLOSER_STORE` names a factory of one."""

    @property
    def clock(self) -> Clock:
        """The store's time."""

    def begin(self) -> UnitOfWork:
        """A new unit of work, to be entered by `with`. Safe to call from several threads."""

    def close(self) -> None:
        """Lets go of all resources, when no unit of work is open any more."""

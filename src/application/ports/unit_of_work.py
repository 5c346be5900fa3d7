"""One transaction, with the roles that it plays."""

from types import TracebackType
from typing import Protocol, Self

from application.ports.activity_rows import PropertyObjectViews, Sessions
from application.ports.outbox import Outbox
from application.ports.row_claiming import HangingViews, StaleSessions


class UnitOfWork(Protocol):
    """A transaction: entered, used by one thread, and rolled back unless it was committed.

    Each call of a role is a statement: it sees what was committed before it began. Any call, `__enter__` and `commit`
    included, may raise a StoreError; changes may be sent as late as `commit`, so their errors may come from there.
    """

    @property
    def hanging_views(self) -> HangingViews:
        """Claiming for phase A."""

    @property
    def stale_sessions(self) -> StaleSessions:
        """Claiming for phase B."""

    @property
    def sessions(self) -> Sessions:
        """Single sessions."""

    @property
    def views(self) -> PropertyObjectViews:
        """Single views."""

    @property
    def outbox(self) -> Outbox:
        """Where events go."""

    def commit(self) -> None:
        """Makes every change of the transaction durable, or none, and ends it."""

    def __enter__(self) -> Self:
        """Begins the transaction. Raises SingleInstanceHeld where another instance is the only one allowed."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Rolls back what was not committed and lets all locks go. Raises nothing of its own."""

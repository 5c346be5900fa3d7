"""Somebody who works on a store: one unit of work at a time, on a thread of its own, since a call may wait."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self
from uuid import UUID

from attrs import frozen

from application.online.errors import SessionNotFound
from application.ports.row_claiming import RowReference
from application.ports.store_errors import StoreError


class Work(Protocol):
    """What both kinds of units of work have in common."""

    def commit(self) -> None:
        """Ends it well."""

    def __enter__(self) -> Self:
        """Begins it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends it."""


@frozen
class Answered:
    """A call that has ended."""

    value: object


@frozen
class Failed:
    """A call that failed; the message is each store's own."""

    error: str
    kind: str


@frozen
class Waits:
    """A call that waits for a lock."""


Outcome = Answered | Failed | Waits
DEADLOCK: Final = Failed("TransactionRefused", "40P01")


class Hand:
    """One of those who work on a store at the same time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._work: Any = None
        self.call: Future[object] | None = None
        """What it does, or did last."""
        self.references: dict[UUID, RowReference] = {}
        """Where the pages that it has seen ended, in its store's own terms."""

    @property
    def is_busy(self) -> bool:
        """Whether its call has not ended yet."""
        return self.call is not None and not self.call.done()

    @property
    def is_open(self) -> bool:
        """Whether it has a unit of work under way."""
        return self._work is not None

    def do(self, begin: Callable[[], Work], action: Callable[[Any], object]) -> None:
        """Does something in its unit of work, which begins if none is open, and ends if the store fails."""
        self._start(partial(self._do, begin, action))

    def run(self, action: Callable[[], object]) -> None:
        """Does something that needs no unit of work of the hand's."""
        assert not self.is_open, "its own locks would be waited for"
        self._start(action)

    def commit(self) -> None:
        """Commits its unit of work."""
        self._start(self._commit)

    def roll_back(self) -> None:
        """Leaves its unit of work."""
        self._start(self._leave)

    def outcome(self) -> Outcome:
        """What has become of its call, now that nobody is on the way."""
        assert self.call is not None, "it has been called"
        if not self.call.done():
            return Waits()
        try:
            return Answered(self.call.result())
        except StoreError as error:
            return Failed(type(error).__name__, error.kind)
        except SessionNotFound as error:
            return Failed(type(error).__name__, error.code)

    def dismiss(self) -> None:
        """Lets its thread go."""
        self._thread.shutdown()

    def _start(self, action: Callable[[], object]) -> None:
        assert not self.is_busy, "one thing at a time"
        self.call = self._thread.submit(action)

    def _do(self, begin: Callable[[], Work], action: Callable[[Any], object]) -> object:
        if self._work is None:
            self._work = begin().__enter__()
            self.references = {}
        try:
            return action(self._work)
        except StoreError:
            self._leave()
            raise

    def _commit(self) -> None:
        try:
            self._work.commit()
        finally:
            self._leave()

    def _leave(self) -> None:
        work, self._work = self._work, None
        work.__exit__(None, None, None)


Action = Callable[[Any, Hand], object]
"""What a hand does in its unit of work, of whichever kind that is."""

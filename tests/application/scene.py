"""A closer over a store in memory on which things happen, and what was seen of its runs."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.observation import RecordingObservation
from adapters.in_memory.store import InMemoryActivityStore
from application.close_idle_activity import CloserRun, CloserUseCase
from application.contracts.closer import StopAfter
from application.contracts.subject import a_session, a_view, put
from application.lanes import Lanes
from application.options import CloserOptions
from application.ports.store_errors import (
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.application.hooked_store import Hook, HookedStore

MINUTE = timedelta(minutes=1)


class Scene:
    """A store in memory, a closer over it, and what was seen of its runs."""

    def __init__(self, hook: Hook = lambda _: None) -> None:
        self.refused: set[UUID] = set()
        self.clock = SettableClock()
        self.store = InMemoryActivityStore(clock=self.clock, refuses=lambda row: row.id in self.refused)
        self.hooked = HookedStore(self.store, self._at)
        self.hook = hook
        self.observation = RecordingObservation()
        self.identifiers = CountingIdentifiers()

    def _at(self, step: str) -> None:
        self.hook(step)

    def put(self, *rows: Session | PropertyObjectView) -> None:
        put(self.store, *rows)

    def put_stale_sessions(self, count: int) -> list[Session]:
        """Stale sessions with a fresh view each, oldest first."""
        now = self.clock.read()
        sessions = [a_session(now, idle=timedelta(hours=2) - timedelta(seconds=number)) for number in range(count)]
        self.put(*sessions, *(a_view(session, now, idle=timedelta(0)) for session in sessions))
        return sessions

    def put_hanging_views(self, count: int) -> list[PropertyObjectView]:
        """Hanging views of one live session, oldest first."""
        now = self.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=timedelta(hours=3))
        views = [a_view(session, now, idle=timedelta(hours=2) - timedelta(seconds=number)) for number in range(count)]
        self.put(session, *views)
        return views

    def run(self, *, lanes: Lanes | None = None, looks: int | None = None, **options: object) -> CloserRun:
        return CloserUseCase(
            store=self.hooked,
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=StopAfter(looks),
            options=CloserOptions(**options),  # type: ignore[arg-type] # a test names any option
            lanes=lanes,
        ).run()

    def active(self, rows: Sequence[Session] | Sequence[PropertyObjectView]) -> list[UUID]:
        """Those of the rows that are Active still, in their order."""
        return [row.id for row in rows if row.id not in self.closed()]

    def closed(self) -> set[UUID]:
        """The rows that are Inactive."""
        stored: list[Session | PropertyObjectView] = [*self.store.sessions(), *self.store.views()]
        return {row.id for row in stored if row.status is ActivityStatus.INACTIVE}

    def assert_one_event_a_closed_row(self) -> None:
        assert Counter(message.aggregate_id for message in self.store.messages()) == Counter(self.closed())


def failing(step: str, error: Callable[[], Exception], *times: int) -> Hook:
    """Fails a step at its given occurrences, counted from 1."""
    seen = Counter[str]()

    def hook(at: str) -> None:
        seen[at] += 1
        if at == step and seen[at] in times:
            raise error()

    return hook


def lost() -> StoreError:
    return StoreUnavailable(kind="connection", reason="the connection was lost")


def refused() -> StoreError:
    return TransactionRefused(kind="57014", reason="statement timeout")

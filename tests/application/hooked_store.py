"""A store in memory on which something happens at a step of a transaction: an error, or time that passes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from adapters.in_memory.store import InMemoryActivityStore
from application.ports.activity_rows import PropertyObjectViews, Sessions
from application.ports.clock import Clock
from application.ports.outbox import Outbox
from application.ports.row_claiming import Claim, HangingViews, RowReference, StaleSessions, ViewPage
from application.ports.unit_of_work import UnitOfWork
from domain.closing import HangingView, OpenSession

Hook = Callable[[str], None]
"""Called before each step, and with `committed` after a commit; what it raises comes out of the step.

The steps: begin, claim_views_page, views_page, claim_views, sessions_page, claim_sessions, newest, count, commit.
"""


class HookedStore:
    """Passes everything on to a store in memory, calling the hook at each step."""

    def __init__(self, store: InMemoryActivityStore, hook: Hook) -> None:
        self._store = store
        self._hook = hook

    @property
    def clock(self) -> Clock:
        return self._store.clock

    def begin(self) -> "HookedUnitOfWork":
        return HookedUnitOfWork(self._store.begin(), self._hook)

    def close(self) -> None:
        self._store.close()


class HookedUnitOfWork:
    """A transaction with the hook before each of its steps."""

    def __init__(self, unit_of_work: UnitOfWork, hook: Hook) -> None:
        self._unit_of_work = unit_of_work
        self._hook = hook
        self.hanging_views = HookedHangingViews(unit_of_work, hook)
        self.stale_sessions = HookedStaleSessions(unit_of_work, hook)

    @property
    def sessions(self) -> Sessions:
        return self._unit_of_work.sessions

    @property
    def views(self) -> PropertyObjectViews:
        return self._unit_of_work.views

    @property
    def outbox(self) -> Outbox:
        return self._unit_of_work.outbox

    def commit(self) -> None:
        self._hook("commit")
        self._unit_of_work.commit()
        self._hook("committed")

    def __enter__(self) -> Self:
        self._hook("begin")
        self._unit_of_work.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._unit_of_work.__exit__(kind, error, traceback)


class HookedHangingViews:
    """Claiming for phase A."""

    def __init__(self, unit_of_work: UnitOfWork, hook: Hook) -> None:
        self._views: HangingViews = unit_of_work.hanging_views
        self._hook = hook

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        self._hook("claim_views_page")
        return self._views.claim_page(cutoff, after, limit)

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        self._hook("views_page")
        return self._views.page(cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[HangingView]:
        self._hook("claim_views")
        return self._views.claim(ids, cutoff)

    def newest(self, cutoff: datetime) -> UUID | None:
        self._hook("newest")
        return self._views.newest(cutoff)

    def count(self, cutoff: datetime) -> int:
        self._hook("count")
        return self._views.count(cutoff)


class HookedStaleSessions:
    """Claiming for phase B."""

    def __init__(self, unit_of_work: UnitOfWork, hook: Hook) -> None:
        self._sessions: StaleSessions = unit_of_work.stale_sessions
        self._hook = hook

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        self._hook("sessions_page")
        return self._sessions.page(cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        self._hook("claim_sessions")
        return self._sessions.claim(ids, cutoff)

    def newest(self, cutoff: datetime) -> UUID | None:
        self._hook("newest")
        return self._sessions.newest(cutoff)

    def count(self, cutoff: datetime) -> int:
        self._hook("count")
        return self._sessions.count(cutoff)

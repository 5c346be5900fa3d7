"""Stores and commands that are wrong on purpose, each in one way.

The state machine and the scheduler have to find every one of them; what cannot fail proves nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

from attrs import evolve

from adapters.in_memory.activity_rows import InMemoryPropertyObjectViews, InMemorySessions
from adapters.in_memory.row_claiming import InMemoryHangingViews, InMemoryStaleSessions
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryOutbox, InMemoryUnitOfWork
from application.ports.outbox import OutboxMessage
from application.ports.row_claiming import Claim, RowReference, ViewPage
from domain.activity import ActivityStatus
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.simulation.hosts import HostClock
from tests.simulation.system import System

A_TICK: Final = timedelta(microseconds=1)


class TakesAllForActive(InMemoryStaleSessions):
    """Claims its candidates as they are, and closes them by a rule that does not ask whether they are Active."""

    def _lock_sessions(self, ids: Sequence[UUID], cutoff: datetime) -> list[Session]:
        with self._transaction.statement():
            found = filter(None, map(self._transaction.session, ids))
            locked = [session for session in found if self._transaction.try_lock(session.id)]
        return [
            evolve(session, status=ActivityStatus.ACTIVE) for session in locked if session.last_activity_at < cutoff
        ]


class ClosesWhatever(InMemorySessions):
    """Updates the row whatever is in it."""

    def close(self, sessions: Sequence[Session]) -> None:
        with self._transaction.statement():
            for session in sessions:
                self._transaction.lock(session.id)
                self._transaction.changed_sessions[session.id] = session


class TrustsItsCandidates(InMemoryStaleSessions):
    """Reads sessions first and locks them afterwards, without another look under the lock."""

    def _lock_sessions(self, ids: Sequence[UUID], cutoff: datetime) -> list[Session]:
        with self._transaction.statement():
            found = filter(None, map(self._transaction.session, ids))
            candidates = [session for session in found if session.last_activity_at < cutoff]
        with self._transaction.statement():
            return [session for session in candidates if self._transaction.try_lock(session.id)]


class ReadsViewsBeforeTheLock(InMemoryStaleSessions):
    """Sees the views as they were when it asked for the session's lock: one statement for both."""

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        with self._transaction.statement():
            seen = {session_id: tuple(self._transaction.open_views_of(session_id)) for session_id in ids}
        sessions = self._lock_sessions(ids, cutoff)
        return Claim(rows=tuple(OpenSession(session=session, open_views=seen[session.id]) for session in sessions))


class LeavesHeldViewsBehind(InMemoryStaleSessions):
    """Closes a session with those of its views that nobody holds, in place of deferring it."""

    def _lock_views(self, sessions: Sequence[Session]) -> Claim[OpenSession]:
        with self._transaction.statement():
            return Claim(rows=tuple(OpenSession(session=one, open_views=self._free_views(one)) for one in sessions))

    def _free_views(self, session: Session) -> tuple[PropertyObjectView, ...]:
        views = self._transaction.open_views_of(session.id)
        return tuple(view for view in views if self._transaction.try_lock(view.id))


class LocksTooWeakly(InMemoryStaleSessions):
    """Takes a lock that keeps other workers away, but not those who open views."""

    def _lock_sessions(self, ids: Sequence[UUID], cutoff: datetime) -> list[Session]:
        with self._transaction.statement():
            found = filter(None, map(self._transaction.session, ids))
            stale = [s for s in found if s.status is ActivityStatus.ACTIVE and s.last_activity_at < cutoff]
            return [session for session in stale if self._transaction.try_lock(("weakly", session.id))]


class IgnoresThatASessionIsHeld(InMemoryStaleSessions):
    """Claims a stale session whether or not another worker has it."""

    def _lock_sessions(self, ids: Sequence[UUID], cutoff: datetime) -> list[Session]:
        with self._transaction.statement():
            found = filter(None, map(self._transaction.session, ids))
            return [s for s in found if s.status is ActivityStatus.ACTIVE and s.last_activity_at < cutoff]


class TakesTheCutoffForStale(InMemoryStaleSessions):
    """Compares with `<=` where specification §1 has `<`."""

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return super().page(cutoff + A_TICK, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        return super().claim(ids, cutoff + A_TICK)


class PassesOverTheNext(InMemoryStaleSessions):
    """Begins its next page one candidate too late."""

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return super().page(cutoff, after, limit) if after is None else super().page(cutoff, after, limit + 1)[1:]


class ReturnsToPassedSessions(InMemoryStaleSessions):
    """Reads each page from the beginning, since what was closed is not stale any more."""

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return super().page(cutoff, None, limit)


class ReturnsToPassedViews(InMemoryHangingViews):
    """Claims each page from the beginning."""

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        return super().claim_page(cutoff, None, limit)

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return super().page(cutoff, None, limit)


class IgnoresThatAViewIsHeld(InMemoryHangingViews):
    """Claims a hanging view whether or not another worker has it."""

    def _lock(self, views: Iterable[PropertyObjectView], limit: int) -> list[HangingView]:
        return [HangingView(view=view, user_id=self._user_of(view)) for view in islice(views, limit)]

    def _user_of(self, view: PropertyObjectView) -> UUID | None:
        session = self._transaction.session(view.session_id)
        assert session is not None
        return session.user_id


class NamesNobody(InMemoryHangingViews):
    """Leaves the user out of the events of hanging views, since the view's row does not hold it."""

    def _lock(self, views: Iterable[PropertyObjectView], limit: int) -> list[HangingView]:
        return [HangingView(view=locked.view, user_id=None) for locked in super()._lock(views, limit)]


class ReadsWithoutLocking(InMemorySessions):
    """Commands read the session and save it later, as if nobody could come in between."""

    def lock(self, session_id: UUID) -> Session | None:
        with self._transaction.statement():
            return self._transaction.session(session_id)

    def lock_active_of(self, anonymous_id: UUID) -> Session | None:
        with self._transaction.statement():
            return next(iter(self._active_of(anonymous_id)), None)


class ForgetsOpenViews(InMemoryPropertyObjectViews):
    """A switch closes the other user's session without its views."""

    def lock_open_of(self, session_id: UUID) -> Sequence[PropertyObjectView]:
        return ()


class WritesEventsApart(InMemoryOutbox):
    """Writes events on a connection of its own, outside of the transaction."""

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        with self._transaction.statement():
            self._transaction._tables.messages.update((message.id, message) for message in messages)


class TakesTheCutoffFromItsHost(HostClock):
    """Asks the clock on its host's wall when a run begins, and the store from then on."""

    def _answer(self) -> datetime:
        is_first, now = self._reading is None, super()._answer()
        return now + self._host.skew if is_first else now


def _with(
    *,
    stale_sessions: Callable[[Transaction], InMemoryStaleSessions] = InMemoryStaleSessions,
    hanging_views: Callable[[Transaction], InMemoryHangingViews] = InMemoryHangingViews,
    sessions: Callable[[Transaction], InMemorySessions] = InMemorySessions,
    views: Callable[[Transaction], InMemoryPropertyObjectViews] = InMemoryPropertyObjectViews,
    outbox: Callable[[Transaction], InMemoryOutbox] = InMemoryOutbox,
) -> System:
    def roles(transaction: Transaction) -> InMemoryUnitOfWork:
        unit_of_work = InMemoryUnitOfWork(transaction)
        unit_of_work.stale_sessions = stale_sessions(transaction)
        unit_of_work.hanging_views = hanging_views(transaction)
        unit_of_work.sessions = sessions(transaction)
        unit_of_work.views = views(transaction)
        unit_of_work.outbox = outbox(transaction)
        return unit_of_work

    return System(roles=roles)


BROKEN_VARIANTS: Final[Mapping[str, System]] = {
    "closes without a guard": _with(stale_sessions=TakesAllForActive, sessions=ClosesWhatever),
    "trusts its candidates": _with(stale_sessions=TrustsItsCandidates),
    "reads views before the lock": _with(stale_sessions=ReadsViewsBeforeTheLock),
    "leaves held views behind": _with(stale_sessions=LeavesHeldViewsBehind),
    "locks too weakly": _with(stale_sessions=LocksTooWeakly),
    "ignores that a session is held": _with(stale_sessions=IgnoresThatASessionIsHeld),
    "takes the cutoff for stale": _with(stale_sessions=TakesTheCutoffForStale),
    "passes over the next": _with(stale_sessions=PassesOverTheNext),
    "returns to passed sessions": _with(stale_sessions=ReturnsToPassedSessions),
    "returns to passed views": _with(hanging_views=ReturnsToPassedViews),
    "ignores that a view is held": _with(hanging_views=IgnoresThatAViewIsHeld),
    "names nobody": _with(hanging_views=NamesNobody),
    "reads without locking": _with(sessions=ReadsWithoutLocking),
    "forgets open views": _with(views=ForgetsOpenViews),
    "writes events apart": _with(outbox=WritesEventsApart),
    "takes the cutoff from its host": System(workers_clock=TakesTheCutoffFromItsHost),
}

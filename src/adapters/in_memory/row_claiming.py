"""Claiming rows that have gone silent."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar
from uuid import UUID

from adapters.in_memory.transaction import Transaction
from application.ports.row_claiming import Claim, RowReference, ViewPage
from domain.activity import is_stale
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session

Row = TypeVar("Row", Session, PropertyObjectView)


class InMemoryHangingViews:
    """Claiming for phase A."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        with self._transaction.statement():
            candidates = (view for view in _in_order(self._transaction.all_views(), cutoff) if _is_after(view, after))
            locked = self._lock(candidates, limit)
        return ViewPage(claim=Claim(rows=tuple(locked)), references=tuple(_reference(one.view) for one in locked))

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        with self._transaction.statement():
            return _page(self._transaction.all_views(), cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[HangingView]:
        with self._transaction.statement():
            views = _in_order(filter(None, map(self._transaction.view, ids)), cutoff)
            return Claim(rows=tuple(self._lock(views, len(views))))

    def newest(self, cutoff: datetime) -> UUID | None:
        with self._transaction.statement():
            views = _in_order(self._transaction.all_views(), cutoff)
            return views[-1].id if views else None

    def count(self, cutoff: datetime) -> int:
        with self._transaction.statement():
            return len(_in_order(self._transaction.all_views(), cutoff))

    def _lock(self, views: Iterable[PropertyObjectView], limit: int) -> list[HangingView]:
        locked: list[HangingView] = []
        for view in views:
            if len(locked) == limit:
                break
            if self._transaction.try_lock(view.id):
                session = self._transaction.session(view.session_id)
                assert session is not None, "a view has a session (foreign key)"
                locked.append(HangingView(view=view, user_id=session.user_id))
        return locked


class InMemoryStaleSessions:
    """Claiming for phase B."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        with self._transaction.statement():
            return _page(self._transaction.all_sessions(), cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        # Two statements, each with a view of its own of what is committed, as D-03 has it.
        sessions = self._lock_sessions(ids, cutoff)
        return self._lock_views(sessions)

    def _lock_sessions(self, ids: Sequence[UUID], cutoff: datetime) -> list[Session]:
        with self._transaction.statement():
            return [
                session
                for session in _in_order(filter(None, map(self._transaction.session, ids)), cutoff)
                if self._transaction.try_lock(session.id)
            ]

    def _lock_views(self, sessions: Sequence[Session]) -> Claim[OpenSession]:
        with self._transaction.statement():
            rows, deferred = [], []
            for session in sessions:
                views = self._transaction.open_views_of(session.id)
                are_locked = [self._transaction.try_lock(view.id) for view in views]
                if all(are_locked):
                    rows.append(OpenSession(session=session, open_views=tuple(views)))
                else:
                    deferred.append(session.id)
        return Claim(rows=tuple(rows), deferred=tuple(deferred))

    def newest(self, cutoff: datetime) -> UUID | None:
        with self._transaction.statement():
            sessions = _in_order(self._transaction.all_sessions(), cutoff)
            return sessions[-1].id if sessions else None

    def count(self, cutoff: datetime) -> int:
        with self._transaction.statement():
            return len(_in_order(self._transaction.all_sessions(), cutoff))


def _in_order(rows: Iterable[Row], cutoff: datetime) -> list[Row]:
    """Stale rows, oldest first (D-04)."""
    return sorted((row for row in rows if is_stale(row, cutoff)), key=_position)


def _position(row: Session | PropertyObjectView) -> tuple[datetime, UUID]:
    return row.last_activity_at, row.id


def _reference(row: Session | PropertyObjectView) -> RowReference:
    return RowReference(id=row.id, last_activity_at=row.last_activity_at.isoformat())


def _is_after(row: Session | PropertyObjectView, after: RowReference | None) -> bool:
    return after is None or _position(row) > (datetime.fromisoformat(after.last_activity_at), after.id)


def _page(rows: Iterable[Row], cutoff: datetime, after: RowReference | None, limit: int) -> list[RowReference]:
    candidates = (row for row in _in_order(rows, cutoff) if _is_after(row, after))
    return [_reference(row) for row in islice(candidates, limit)]

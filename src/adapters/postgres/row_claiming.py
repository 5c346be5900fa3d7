"""Claiming rows that have gone silent, by `FOR UPDATE SKIP LOCKED`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from adapters.postgres.rows import is_whole_session, is_whole_view, session_of, view_of
from adapters.postgres.transaction import Transaction, Values
from application.ports.row_claiming import Claim, RowReference, UnreadableRow, ViewPage
from domain.closing import HangingView, OpenSession

# Before every row that can be closed: no duration begins before all time.
_BEGINNING: Final = RowReference(id=UUID(int=0), last_activity_at="-infinity")


class PostgresHangingViews:
    """Claiming for phase A."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        after = after or _BEGINNING
        rows = self._transaction.fetch_partially(
            "claim_hanging_views_page",
            cutoff=cutoff,
            after_id=after.id,
            after_last_activity_at=after.last_activity_at,
            limit=limit,
        )
        return ViewPage(claim=_claim_of_views(rows), references=_references(rows))

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return _page(self._transaction, "find_hanging_views", cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[HangingView]:
        return _claim_of_views(self._transaction.fetch_partially("claim_hanging_views", ids=list(ids), cutoff=cutoff))

    def newest(self, cutoff: datetime) -> UUID | None:
        return _first_id(self._transaction.fetch("find_newest_hanging_view", cutoff=cutoff))

    def count(self, cutoff: datetime) -> int:
        [(count,)] = self._transaction.fetch("count_hanging_views", cutoff=cutoff)
        return int(count)


class PostgresStaleSessions:
    """Claiming for phase B."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        return _page(self._transaction, "find_stale_sessions", cutoff, after, limit)

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        # Both statements are under way before either is answered.
        sessions, views = self._transaction.fetch_all_partially(
            ("lock_stale_sessions", {"ids": list(ids), "cutoff": cutoff}),
            ("lock_open_views", {"session_ids": list(ids)}),
        )
        return _claim_of_sessions(sessions, views)

    def newest(self, cutoff: datetime) -> UUID | None:
        return _first_id(self._transaction.fetch("find_newest_stale_session", cutoff=cutoff))

    def count(self, cutoff: datetime) -> int:
        [(count,)] = self._transaction.fetch("count_stale_sessions", cutoff=cutoff)
        return int(count)


def _claim_of_views(rows: Sequence[Values]) -> Claim[HangingView]:
    """From a view's columns and its session's user."""
    return Claim(
        rows=tuple(HangingView(view=view_of(row), user_id=row[8]) for row in rows if is_whole_view(row)),
        unreadable=tuple(_unreadable(row[0]) for row in rows if not is_whole_view(row)),
    )


def _claim_of_sessions(sessions: Sequence[Values], views: Sequence[Values]) -> Claim[OpenSession]:
    """From sessions' columns, and views' columns with whether the view is locked."""
    views_of: defaultdict[UUID, list[Values]] = defaultdict(list)
    for view in views:
        views_of[view[2]].append(view)
    rows, unreadable, deferred = [], [], []
    for session in sessions:
        own_views = views_of[session[0]]
        if not all(view[8] for view in own_views):
            deferred.append(session[0])
        elif not (is_whole_session(session) and all(map(is_whole_view, own_views))):
            unreadable.append(_unreadable(session[0]))
        else:
            open_views = tuple(map(view_of, own_views))
            rows.append(OpenSession(session=session_of(session), open_views=open_views))
    return Claim(rows=tuple(rows), unreadable=tuple(unreadable), deferred=tuple(deferred))


def _page(
    transaction: Transaction, statement: str, cutoff: datetime, after: RowReference | None, limit: int
) -> tuple[RowReference, ...]:
    after = after or _BEGINNING
    return _references(
        transaction.fetch(
            statement,
            cutoff=cutoff,
            after_id=after.id,
            after_last_activity_at=after.last_activity_at,
            limit=limit,
        )
    )


def _references(rows: Sequence[Values]) -> tuple[RowReference, ...]:
    return tuple(RowReference(id=row[0], last_activity_at=row[-1]) for row in rows)


def _unreadable(row_id: UUID) -> UnreadableRow:
    return UnreadableRow(id=row_id, reason="a value of the row, or of one of its views, is missing or out of range")


def _first_id(rows: Sequence[Values]) -> UUID | None:
    return rows[0][0] if rows else None

"""Claiming rows that have gone silent.

Under the lock of the file there is nothing to skip, and nobody to defer to. Candidates are read without it. What is
claimed by id is read id by id: a statement costs no round trip here.
"""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final
from uuid import UUID

from application.ports.row_claiming import Claim, RowReference, ViewPage
from domain.closing import HangingView, OpenSession
from sqlite_store.activity_rows import SqlitePropertyObjectViews
from sqlite_store.rows import session_of, since_epoch, user_id_of, view_of
from sqlite_store.transaction import Transaction, Value

_BEFORE_ALL_TIME: Final = -(2**63)
"""The least integer of SQLite."""


class _Claiming:
    """What both phases have in common: which rows are stale, in the order of a run (D-04)."""

    PAGE: ClassVar[str]
    NEWEST: ClassVar[str]
    COUNT: ClassVar[str]

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        rows = self._transaction.read(self.PAGE, **_place(cutoff, after), limit=limit)
        return [_reference(row) for row in rows]

    def newest(self, cutoff: datetime) -> UUID | None:
        rows = self._transaction.read(self.NEWEST, cutoff=since_epoch(cutoff))
        return UUID(bytes=rows[0]["id"]) if rows else None

    def count(self, cutoff: datetime) -> int:
        [(count,)] = self._transaction.read(self.COUNT, cutoff=since_epoch(cutoff))
        return int(count)


class SqliteHangingViews(_Claiming):
    """Claiming for phase A."""

    PAGE = """
        select id, last_activity_at from property_object_views
        where status = 'Active' and last_activity_at < :cutoff and (last_activity_at, id) > (:after_time, :after_id)
        order by last_activity_at, id limit :limit
        """
    NEWEST = """
        select id from property_object_views where status = 'Active' and last_activity_at < :cutoff
        order by last_activity_at desc, id desc limit 1
        """
    COUNT = "select count(*) from property_object_views where status = 'Active' and last_activity_at < :cutoff"

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        self._transaction.lock()
        references = self.page(cutoff, after, limit)
        return ViewPage(
            claim=self.claim([reference.id for reference in references], cutoff), references=tuple(references)
        )

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[HangingView]:
        rows = [
            row
            for view_id in ids
            for row in self._transaction.read_locked(
                """
                select views.*, sessions.user_id
                from property_object_views as views join sessions on sessions.id = views.session_id
                where views.id = :id and views.status = 'Active' and views.last_activity_at < :cutoff
                """,
                id=view_id.bytes,
                cutoff=since_epoch(cutoff),
            )
        ]
        return Claim(rows=tuple(HangingView(view=view_of(row), user_id=user_id_of(row)) for row in rows))


class SqliteStaleSessions(_Claiming):
    """Claiming for phase B."""

    PAGE = """
        select id, last_activity_at from sessions
        where status = 'Active' and last_activity_at < :cutoff and (last_activity_at, id) > (:after_time, :after_id)
        order by last_activity_at, id limit :limit
        """
    NEWEST = """
        select id from sessions where status = 'Active' and last_activity_at < :cutoff
        order by last_activity_at desc, id desc limit 1
        """
    COUNT = "select count(*) from sessions where status = 'Active' and last_activity_at < :cutoff"

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[OpenSession]:
        sessions = [
            session_of(row)
            for session_id in ids
            for row in self._transaction.read_locked(
                "select * from sessions where id = :id and status = 'Active' and last_activity_at < :cutoff",
                id=session_id.bytes,
                cutoff=since_epoch(cutoff),
            )
        ]
        views = SqlitePropertyObjectViews(self._transaction)
        return Claim(
            rows=tuple(
                OpenSession(session=session, open_views=tuple(views.lock_open_of(session.id))) for session in sessions
            )
        )


def _place(cutoff: datetime, after: RowReference | None) -> dict[str, Value]:
    return {
        "cutoff": since_epoch(cutoff),
        "after_time": int(after.last_activity_at) if after else _BEFORE_ALL_TIME,
        "after_id": after.id.bytes if after else b"",
    }


def _reference(row: sqlite3.Row) -> RowReference:
    return RowReference(id=UUID(bytes=row["id"]), last_activity_at=str(row["last_activity_at"]))

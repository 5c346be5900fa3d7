"""Reading and changing single sessions and views."""

from collections.abc import Sequence
from uuid import UUID

from adapters.postgres.rows import session_of, view_of
from adapters.postgres.transaction import Transaction, Values
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class PostgresSessions:
    """Single sessions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, session_id: UUID) -> Session | None:
        rows = self._transaction.fetch("lock_session", id=session_id)
        return _session(rows[0]) if rows else None

    def lock_active_of(self, anonymous_id: UUID) -> Session | None:
        rows = self._transaction.fetch("lock_active_session", anonymous_id=anonymous_id)
        return _session(rows[0]) if rows else None

    def add(self, session: Session) -> None:
        self._transaction.send(
            "insert_session",
            id=session.id,
            anonymous_id=session.anonymous_id,
            user_id=session.user_id,
            status=session.status.value,
            created_at=session.created_at,
            last_activity_at=session.last_activity_at,
            ended_at=session.ended_at,
            duration=session.duration,
        )

    def save(self, session: Session) -> None:
        self._transaction.send(
            "update_session", id=session.id, last_activity_at=session.last_activity_at, user_id=session.user_id
        )

    def close(self, sessions: Sequence[Session]) -> None:
        _send_closed(self._transaction, "close_sessions", sessions)


class PostgresPropertyObjectViews:
    """Single views."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, view_id: UUID) -> PropertyObjectView | None:
        self._transaction.send("lock_session_of_view", id=view_id)
        rows = self._transaction.fetch("lock_view", id=view_id)
        return _view(rows[0]) if rows else None

    def lock_open_of(self, session_id: UUID) -> Sequence[PropertyObjectView]:
        return [_view(row) for row in self._transaction.fetch("lock_open_views_of_session", session_id=session_id)]

    def add(self, view: PropertyObjectView) -> None:
        self._transaction.send(
            "insert_view",
            id=view.id,
            property_object_id=view.property_object_id,
            session_id=view.session_id,
            anonymous_id=view.anonymous_id,
            view_source=view.view_source,
            filter_snapshot=view.filter_snapshot,
            status=view.status.value,
            created_at=view.created_at,
            last_activity_at=view.last_activity_at,
            ended_at=view.ended_at,
            duration=view.duration,
        )

    def save(self, view: PropertyObjectView) -> None:
        self._transaction.send("update_view", id=view.id, last_activity_at=view.last_activity_at)

    def close(self, views: Sequence[PropertyObjectView]) -> None:
        _send_closed(self._transaction, "close_views", views)


def _send_closed(transaction: Transaction, name: str, rows: Sequence[Session] | Sequence[PropertyObjectView]) -> None:
    if rows:
        transaction.send(
            name,
            ids=[row.id for row in rows],
            ended_at=[row.ended_at for row in rows],
            durations=[row.duration for row in rows],
        )


def _session(row: Values) -> Session:
    return session_of(row, status=ActivityStatus(row[5]), ended_at=row[6], duration=row[7])


def _view(row: Values) -> PropertyObjectView:
    return view_of(row, status=ActivityStatus(row[8]), ended_at=row[9], duration=row[10])

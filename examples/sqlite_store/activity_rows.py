"""Reading and changing single sessions and views."""

from collections.abc import Sequence
from uuid import UUID

from domain.property_object_view import PropertyObjectView
from domain.session import Session
from sqlite_store.rows import session_of, session_values, view_of, view_values
from sqlite_store.transaction import Transaction


class SqliteSessions:
    """Single sessions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, session_id: UUID) -> Session | None:
        rows = self._transaction.read_locked("select * from sessions where id = :id", id=session_id.bytes)
        return session_of(rows[0]) if rows else None

    def lock_active_of(self, anonymous_id: UUID) -> Session | None:
        rows = self._transaction.read_locked(
            "select * from sessions where anonymous_id = :anonymous_id and status = 'Active'",
            anonymous_id=anonymous_id.bytes,
        )
        return session_of(rows[0]) if rows else None

    def add(self, session: Session) -> None:
        self._transaction.write_each(
            """
            insert into sessions
                (id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration)
            values
                (:id, :anonymous_id, :user_id, :status, :created_at, :last_activity_at, :ended_at, :duration)
            """,
            [session_values(session)],
        )

    def save(self, session: Session) -> None:
        self._transaction.write_each(
            "update sessions set last_activity_at = :last_activity_at, user_id = :user_id where id = :id",
            [session_values(session)],
        )

    def close(self, sessions: Sequence[Session]) -> None:
        self._transaction.write_each(
            """
            update sessions set status = :status, ended_at = :ended_at, duration = :duration
            where id = :id and status = 'Active'
            """,
            [session_values(session) for session in sessions],
        )


class SqlitePropertyObjectViews:
    """Single views."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, view_id: UUID) -> PropertyObjectView | None:
        # The lock of the file is that of the view's session, too.
        rows = self._transaction.read_locked("select * from property_object_views where id = :id", id=view_id.bytes)
        return view_of(rows[0]) if rows else None

    def lock_open_of(self, session_id: UUID) -> Sequence[PropertyObjectView]:
        rows = self._transaction.read_locked(
            "select * from property_object_views where session_id = :session_id and status = 'Active' order by id",
            session_id=session_id.bytes,
        )
        return [view_of(row) for row in rows]

    def add(self, view: PropertyObjectView) -> None:
        self._transaction.write_each(
            """
            insert into property_object_views
                (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
                 last_activity_at, ended_at, duration)
            values
                (:id, :property_object_id, :session_id, :anonymous_id, :view_source, :filter_snapshot, :status,
                 :created_at, :last_activity_at, :ended_at, :duration)
            """,
            [view_values(view)],
        )

    def save(self, view: PropertyObjectView) -> None:
        self._transaction.write_each(
            "update property_object_views set last_activity_at = :last_activity_at where id = :id",
            [view_values(view)],
        )

    def close(self, views: Sequence[PropertyObjectView]) -> None:
        self._transaction.write_each(
            """
            update property_object_views set status = :status, ended_at = :ended_at, duration = :duration
            where id = :id and status = 'Active'
            """,
            [view_values(view) for view in views],
        )

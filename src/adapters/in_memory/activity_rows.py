"""Reading and changing single sessions and views."""

from collections.abc import Sequence
from uuid import UUID

from attrs import evolve

from adapters.in_memory.row_locks import LockMode
from adapters.in_memory.tables import Row
from adapters.in_memory.transaction import Transaction
from application.ports.store_errors import ActiveSessionExists, TransactionRefused
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class InMemorySessions:
    """Single sessions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, session_id: UUID) -> Session | None:
        with self._transaction.statement():
            if self._transaction.session(session_id) is None:
                return None
            self._transaction.lock(session_id)
            return self._transaction.session(session_id)

    def lock_active_of(self, anonymous_id: UUID) -> Session | None:
        with self._transaction.statement():
            for found in self._active_of(anonymous_id):
                self._transaction.lock(found.id)
                # What was waited for may have been closed meanwhile: the row is tested again under its lock.
                session = self._transaction.session(found.id)
                if session is not None and session.status is ActivityStatus.ACTIVE:
                    return session
            return None

    def add(self, session: Session) -> None:
        with self._transaction.statement():
            if session.status is ActivityStatus.ACTIVE:
                self._lock_key(session.anonymous_id)
                if self._active_of(session.anonymous_id):
                    raise ActiveSessionExists(kind="23505", reason="the device has an Active session already")
            self._transaction.lock(session.id)
            self._transaction.changed_sessions[session.id] = session

    def save(self, session: Session) -> None:
        with self._transaction.statement():
            self._transaction.lock(session.id)
            stored = self._transaction.session(session.id)
            if stored is not None:
                if stored.status is ActivityStatus.ACTIVE:
                    self._lock_key(stored.anonymous_id)
                saved = evolve(stored, last_activity_at=session.last_activity_at, user_id=session.user_id)
                self._transaction.changed_sessions[session.id] = saved

    def close(self, sessions: Sequence[Session]) -> None:
        with self._transaction.statement():
            for session in sessions:
                self._transaction.lock(session.id)
                _check_closing(self._transaction, self._transaction.session(session.id), session)
                self._lock_key(session.anonymous_id)
                self._transaction.changed_sessions[session.id] = session

    def _lock_key(self, anonymous_id: UUID) -> None:
        """As a unique index: whoever adds waits for those who have changed the Active session of the device.

        For a row that is only locked nobody waits there: it will be as it is.
        """
        self._transaction.lock(("ux_sessions_active_anonymous_id", anonymous_id))

    def _active_of(self, anonymous_id: UUID) -> list[Session]:
        return [
            session
            for session in self._transaction.all_sessions()
            if session.anonymous_id == anonymous_id and session.status is ActivityStatus.ACTIVE
        ]


class InMemoryPropertyObjectViews:
    """Single views."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lock(self, view_id: UUID) -> PropertyObjectView | None:
        with self._transaction.statement():
            view = self._transaction.view(view_id)
            if view is None:
                return None
            self._transaction.lock(view.session_id)
            self._transaction.lock(view_id)
            return self._transaction.view(view_id)

    def lock_open_of(self, session_id: UUID) -> Sequence[PropertyObjectView]:
        with self._transaction.statement():
            found = self._transaction.open_views_of(session_id)
            for view in found:
                self._transaction.lock(view.id)
            # What was waited for may have been closed meanwhile, so the views are read again under their locks.
            views = filter(None, (self._transaction.view(view.id) for view in found))
            return [view for view in views if view.status is ActivityStatus.ACTIVE]

    def add(self, view: PropertyObjectView) -> None:
        with self._transaction.statement():
            # A session that somebody has added and not committed is not there, and not waited for.
            if self._transaction.session(view.session_id) is None:
                raise TransactionRefused(kind="23503", reason="the view's session does not exist")
            self._transaction.lock(view.session_id, LockMode.KEY_SHARE)
            self._transaction.lock(view.id)
            self._transaction.changed_views[view.id] = view

    def save(self, view: PropertyObjectView) -> None:
        with self._transaction.statement():
            self._transaction.lock(view.id)
            stored = self._transaction.view(view.id)
            if stored is not None:
                saved = evolve(stored, last_activity_at=view.last_activity_at)
                self._transaction.changed_views[view.id] = saved

    def close(self, views: Sequence[PropertyObjectView]) -> None:
        with self._transaction.statement():
            for view in views:
                self._transaction.lock(view.id)
                _check_closing(self._transaction, self._transaction.view(view.id), view)
                self._transaction.changed_views[view.id] = view


def _check_closing(transaction: Transaction, before: Row | None, after: Row) -> None:
    """What the tables, and the statements that close, hold against anybody (INV-SES-006, INV-LV-008)."""
    if before is None or before.status is not ActivityStatus.ACTIVE:
        raise TransactionRefused(kind="not_changed", reason="the row is not Active")
    if after.duration is None or after.duration.total_seconds() < 0:
        raise TransactionRefused(kind="23514", reason="the duration is negative or missing")
    if transaction.refuses(after):
        raise TransactionRefused(kind="P0001", reason="a trigger refused the row")

"""What must hold of every committed state, and of every commit (specification §2)."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from attrs import frozen

from adapters.in_memory.store import InMemoryActivityStore
from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session

Row = Session | PropertyObjectView


class Violation(AssertionError):
    """A rule of the specification was broken."""


def require(condition: bool, rule: str) -> None:
    """Raises Violation unless the rule holds."""
    if not condition:
        raise Violation(rule)


@frozen(kw_only=True)
class Snapshot:
    """All that is committed."""

    sessions: Mapping[UUID, Session]
    views: Mapping[UUID, PropertyObjectView]
    messages: Sequence[OutboxMessage]
    published: frozenset[UUID]
    """Events that are recorded as delivered."""
    dead: frozenset[UUID]
    """Events that are set aside."""

    @classmethod
    def of(cls, store: InMemoryActivityStore) -> Self:
        """The committed state of a store."""
        return cls(
            sessions={session.id: session for session in store.sessions()},
            views={view.id: view for view in store.views()},
            messages=store.messages(),
            published=frozenset(one for one, state in store.deliveries().items() if state.published_at),
            dead=frozenset(one for one, state in store.deliveries().items() if state.dead_at),
        )

    @property
    def rows(self) -> list[Row]:
        """Sessions and views."""
        return [*self.sessions.values(), *self.views.values()]

    def active_of(self, anonymous_id: UUID) -> Session | None:
        """A device's Active session."""
        return next(
            (one for one in self.sessions.values() if one.anonymous_id == anonymous_id and is_active(one)), None
        )


@frozen(kw_only=True)
class Change:
    """One commit."""

    before: Snapshot
    after: Snapshot
    at: datetime

    @property
    def closed_sessions(self) -> list[Session]:
        """Sessions that it closed, as they are now."""
        return [self.after.sessions[one.id] for one in self.before.sessions.values() if self._closed(one)]

    @property
    def closed_views(self) -> list[PropertyObjectView]:
        """Views that it closed, as they are now."""
        return [self.after.views[one.id] for one in self.before.views.values() if self._closed(one)]

    @property
    def closed_rows(self) -> list[Row]:
        """Sessions and views that it closed, as they are now."""
        return [*self.closed_sessions, *self.closed_views]

    @property
    def new_rows(self) -> list[Row]:
        """Rows that were not there before."""
        old = {row.id for row in self.before.rows}
        return [row for row in self.after.rows if row.id not in old]

    @property
    def new_messages(self) -> Sequence[OutboxMessage]:
        """Events that it added."""
        return self.after.messages[len(self.before.messages) :]

    @property
    def touched_sessions(self) -> list[Session]:
        """Active sessions that it changed and left Active, as they are now."""
        after = self.after.sessions
        return [
            after[old.id] for old in self.before.sessions.values() if after[old.id] != old and is_active(after[old.id])
        ]

    @property
    def touched_views(self) -> list[PropertyObjectView]:
        """Active views that it changed and left Active, as they are now."""
        after = self.after.views
        return [
            after[old.id] for old in self.before.views.values() if after[old.id] != old and is_active(after[old.id])
        ]

    def _closed(self, row: Row) -> bool:
        after = self.after.sessions[row.id] if isinstance(row, Session) else self.after.views[row.id]
        return is_active(row) and not is_active(after)


def is_active(row: Row) -> bool:
    """Whether the row is alive."""
    return row.status is ActivityStatus.ACTIVE


def check_state(present: Snapshot) -> None:
    """The invariants of whatever is committed."""
    devices = Counter(session.anonymous_id for session in present.sessions.values() if is_active(session))
    require(max(devices.values(), default=0) <= 1, "§6: at most one Active session of a device")
    for view in present.views.values():
        alive = is_active(view) <= is_active(present.sessions[view.session_id])
        require(alive, "INV-LV-007: an Inactive session has no Active view")
    for row in present.rows:
        _check_duration(row)
    events = Counter(message.aggregate_id for message in present.messages)
    require(max(events.values(), default=0) <= 1, "INV-SES-006, INV-LV-008: at most one event a row")
    closed = {row.id for row in present.rows if not is_active(row)}
    require(set(events) == closed, "INV-SES-005: each closed row has its event, and no Active row has one")


def _check_duration(row: Row) -> None:
    expected = None if is_active(row) else row.last_activity_at - row.created_at
    require(row.duration == expected, "§2: Duration is LastActivityAt - CreatedAt")
    require((row.ended_at is None) is is_active(row), "§2: closing sets EndedAt")
    require(row.last_activity_at - row.created_at >= timedelta(0), "§2: Duration is never negative")


def check_change(change: Change) -> None:
    """What no commit may do, whoever it is of."""
    before, after = change.before, change.after
    present = {row.id: row for row in after.rows}
    for old in before.rows:
        require(old.id in present, "no row is ever deleted")
        new = present[old.id]
        require(is_active(old) or new == old, "INV-SES-006, INV-LV-008: a closed row never changes again")
        require(new.created_at == old.created_at, "CreatedAt never changes")
        require(new.last_activity_at >= old.last_activity_at, "LastActivityAt never moves back")
        unmoved = is_active(new) or new.last_activity_at == old.last_activity_at
        require(unmoved, "§2: closing leaves LastActivityAt alone")
    require(list(after.messages[: len(before.messages)]) == list(before.messages), "an event never changes")
    _check_closed_together(change)
    _check_events(change)


def _check_closed_together(change: Change) -> None:
    for view in change.closed_views:
        session = change.after.sessions[view.session_id]
        shares = is_active(session) or view.ended_at == session.ended_at
        require(shares, "D-02: a session and the views closed with it share one EndedAt")
        alone = not is_active(session) or session == change.before.sessions[session.id]
        require(alone, "INV-LV-004: a hanging view is closed alone")


def _check_events(change: Change) -> None:
    rows = {row.id: row for row in change.closed_rows}
    messages = change.new_messages
    require(Counter(one.aggregate_id for one in messages) == Counter(list(rows)), "INV-SES-005: one event a closed row")
    for message in messages:
        row, payload = rows[message.aggregate_id], json.loads(message.payload)
        assert row.duration is not None
        require(message.occurred_at == row.ended_at, "D-11: occurred-at is EndedAt")
        require(payload["durationSeconds"] == row.duration // timedelta(seconds=1), "D-10: whole seconds, rounded down")
        require(payload["anonymousId"] == str(row.anonymous_id), "§7: the event is about its row")


def user_in(message: OutboxMessage) -> UUID | None:
    """The user that an event names."""
    user_id = json.loads(message.payload)["userId"]
    return None if user_id is None else UUID(user_id)

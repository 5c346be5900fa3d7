"""What must hold of every committed state, and of every commit (specification §2)."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Self
from uuid import UUID

from attrs import frozen

from adapters.in_memory.tables import Delivery, Row, Tables
from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


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
    outbox: Mapping[UUID, OutboxMessage]
    deliveries: Mapping[UUID, Delivery]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """The committed state of a store."""
        return cls(
            sessions=tables.sessions.copy(),
            views=tables.views.copy(),
            outbox=tables.messages.copy(),
            deliveries=tables.deliveries.copy(),
        )

    def is_of(self, tables: Tables) -> bool:
        """Whether nothing has changed since."""
        return (
            self.sessions == tables.sessions
            and self.views == tables.views
            and self.outbox == tables.messages
            and self.deliveries == tables.deliveries
        )

    @cached_property
    def rows(self) -> list[Row]:
        """Sessions and views."""
        return [*self.sessions.values(), *self.views.values()]

    @cached_property
    def messages(self) -> list[OutboxMessage]:
        """The outbox in the order of commits."""
        return list(self.outbox.values())

    @cached_property
    def published(self) -> frozenset[UUID]:
        """Events that are recorded as delivered."""
        return frozenset(one for one, state in self.deliveries.items() if state.published_at)

    @cached_property
    def dead(self) -> frozenset[UUID]:
        """Events that are set aside."""
        return frozenset(one for one, state in self.deliveries.items() if state.dead_at)

    @property
    def pending(self) -> list[OutboxMessage]:
        """Events that have to be delivered yet."""
        return [one for one in self.messages if one.id not in self.published and one.id not in self.dead]

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
    came_at: datetime
    """The store's time when the actor came."""
    began_at: datetime
    """The store's time when the transaction began."""
    at: datetime
    """The store's time at the commit."""
    corrections: timedelta = timedelta(0)
    """By how much the store's clock has been set, forward or back, since the actor came."""

    @cached_property
    def moved(self) -> list[tuple[Row, Row]]:
        """Rows that are not as they were: before and after."""
        after: dict[UUID, Row] = {**self.after.sessions, **self.after.views}
        pairs = ((old, after[old.id]) for old in self.before.rows)
        return [(old, new) for old, new in pairs if old is not new and old != new]

    @cached_property
    def closed_rows(self) -> list[Row]:
        """Sessions and views that it closed, as they are now."""
        return [new for old, new in self.moved if is_active(old) and not is_active(new)]

    @property
    def closed_sessions(self) -> list[Session]:
        """Sessions that it closed, as they are now."""
        return [row for row in self.closed_rows if isinstance(row, Session)]

    @property
    def closed_views(self) -> list[PropertyObjectView]:
        """Views that it closed, as they are now."""
        return [row for row in self.closed_rows if isinstance(row, PropertyObjectView)]

    @property
    def touched_rows(self) -> list[Row]:
        """Rows that it changed and left Active, as they are now."""
        return [new for _, new in self.moved if is_active(new)]

    @property
    def touched_sessions(self) -> list[Session]:
        """Active sessions that it changed and left Active, as they are now."""
        return [row for row in self.touched_rows if isinstance(row, Session)]

    @property
    def touched_views(self) -> list[PropertyObjectView]:
        """Active views that it changed and left Active, as they are now."""
        return [row for row in self.touched_rows if isinstance(row, PropertyObjectView)]

    @property
    def new_rows(self) -> list[Row]:
        """Rows that were not there before."""
        before = self.before.sessions.keys() | self.before.views.keys()
        return [row for row in self.after.rows if row.id not in before]

    @property
    def new_messages(self) -> Sequence[OutboxMessage]:
        """Events that it added."""
        return self.after.messages[len(self.before.messages) :]


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
    stays = before.sessions.keys() <= after.sessions.keys() and before.views.keys() <= after.views.keys()
    require(stays, "no row is ever deleted")
    for old, new in change.moved:
        require(is_active(old), "INV-SES-006, INV-LV-008: a closed row never changes again")
        require(new.created_at == old.created_at, "CreatedAt never changes")
        require(new.last_activity_at >= old.last_activity_at, "LastActivityAt never moves back")
        unmoved = is_active(new) or new.last_activity_at == old.last_activity_at
        require(unmoved, "§2: closing leaves LastActivityAt alone")
    _check_times(change)
    require(after.messages[: len(before.messages)] == before.messages, "an event never changes")
    _check_closed_together(change)
    _check_events(change)


def _check_times(change: Change) -> None:
    """D-01: whatever the clocks of hosts say."""
    latest = change.at + change.corrections
    for row in change.closed_rows:
        assert row.ended_at is not None
        require(change.began_at - change.corrections <= row.ended_at <= latest, "D-01: EndedAt is the time of closing")
    alive = [new for old, new in change.moved if is_active(new) and new.last_activity_at != old.last_activity_at]
    for row in (*alive, *change.new_rows):
        known = change.came_at - change.corrections <= row.last_activity_at <= latest
        require(known, "D-01: LastActivityAt is the time of the command")


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

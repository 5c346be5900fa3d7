"""What has been seen and promised so far, and whether the database still says so."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final
from uuid import UUID

from attrs import field, frozen, mutable

from adapters.postgres.auditing import PostgresActivityAudit
from application.audit_activity import AuditOptions, AuditUseCase
from tests.end_to_end.activity_tables import ActivityTables

_ROWS: Final = """
    select rows.id, status = 'Inactive', last_activity_at, ended_at, duration, array_agg(outbox.id order by outbox.id)
    from (
        select id, status, last_activity_at, ended_at, duration from user_activity.sessions
        union all
        select id, status, last_activity_at, ended_at, duration from user_activity.property_object_views
    ) as rows
    left join user_activity.outbox on outbox.aggregate_id = rows.id
    group by rows.id, status, last_activity_at, ended_at, duration"""
_TORN: Final = """
    select old.id from user_activity.sessions as old
    join user_activity.outbox on outbox.aggregate_id = old.id
    where outbox.correlation_id = any(%(commands)s) and not exists (
        select from user_activity.sessions as new
        where new.anonymous_id = old.anonymous_id and new.created_at = old.ended_at
    )"""
"""A visitor's command closed a session, and the one that it starts in the same transaction is not there."""
_SETTLED: Final = """
    select sessions.id, array_remove(array_agg(views.id), null)
    from user_activity.sessions
    left join user_activity.property_object_views as views on views.session_id = sessions.id
    where sessions.ended_at < clock_timestamp() - interval '15 s'
    group by sessions.id"""
"""Long over: what is still on its way to the server, of whomever, ends within a few seconds."""


@frozen
class ClosedRow:
    """What a row says once it is closed, for ever, and the one event that says so."""

    last_activity_at: datetime
    ended_at: datetime
    duration: timedelta
    event_ids: tuple[UUID | None, ...]


@mutable
class Ledger:
    """The memory of a run: the audit judges what is there, this what was there before."""

    closed: dict[UUID, ClosedRow] = field(factory=dict)
    settled_rows: int = 0
    """Closed rows that were checked and removed."""
    settled_events: int = 0
    """Events that were removed with them."""
    _heard_until: dict[UUID, datetime] = field(factory=dict)
    _over: set[UUID] = field(factory=set)
    _commands: set[UUID] = field(factory=set)
    _told: set[str] = field(factory=set)
    _mutex: Lock = field(factory=Lock)

    def acknowledge(self, row_id: UUID, active_at: datetime) -> None:
        """A visitor was told that the row was active then, or later."""
        with self._mutex:
            self._heard_until[row_id] = max(active_at, self._heard_until.get(row_id, active_at))

    def end(self, row_id: UUID) -> None:
        """A visitor was told that the row is not Active any more."""
        with self._mutex:
            self._over.add(row_id)

    def issue(self, command_id: UUID) -> None:
        """A visitor's command may go by this id."""
        with self._mutex:
            self._commands.add(command_id)

    def look(self, tables: ActivityTables) -> list[str]:
        """What is not as it must be at any time, amid the work too, and was not told before."""
        return self._news(self._compare(tables))

    def check(self, tables: ActivityTables) -> list[str]:
        """What is not as it must be while no visitor is there, and was not told before."""
        torn = tables.execute(_TORN, commands=list(self._commands))
        self._commands.clear()
        return self._news(
            [
                *self._compare(tables),
                *(f"{row_id}: closed by a command that did only half of its work" for (row_id,) in torn),
                *_audited(tables.dsn),
            ]
        )

    def settle(self, tables: ActivityTables) -> None:
        """Remove what has stayed as it was closed, so that a round of a long run costs what the first one does.

        The audit finds an event that came later as one without a row.
        """
        over = [
            (session_id, view_ids)
            for session_id, view_ids in tables.execute(_SETTLED)
            if self.closed.keys() >= {session_id, *view_ids}
        ]
        sessions = [session_id for session_id, _ in over]
        rows = [*sessions, *(view_id for _, view_ids in over for view_id in view_ids)]
        for statement in (
            "delete from user_activity.property_object_views where id = any(%(rows)s)",
            "delete from user_activity.sessions where id = any(%(rows)s)",
        ):
            tables.execute(statement, rows=rows)
        events = tables.execute(
            "delete from user_activity.outbox where aggregate_id = any(%(rows)s) returning id", rows=rows
        )
        self.settled_rows += len(rows)
        self.settled_events += len(events)
        with self._mutex:
            for row_id in rows:
                del self.closed[row_id]
                self._heard_until.pop(row_id, None)
                self._over.discard(row_id)

    def _compare(self, tables: ActivityTables) -> list[str]:
        with self._mutex:  # before the rows are read: what is promised later may come later
            heard, over = dict(self._heard_until), set(self._over)
        rows = {row[0]: row[1:] for row in tables.execute(_ROWS)}
        closed = {
            row_id: ClosedRow(last_activity_at, ended_at, duration, tuple(event_ids))
            for row_id, (is_closed, last_activity_at, ended_at, duration, event_ids) in rows.items()
            if is_closed
        }
        broken = [
            *_lost(heard, rows),
            *(f"{row_id}: open, after a visitor was told that it is not" for row_id in over - closed.keys()),
            *self._changed(closed),
        ]
        self.closed = closed
        return broken

    def _changed(self, closed: Mapping[UUID, ClosedRow]) -> list[str]:
        changed = [
            f"{row_id}: closed, and not the same any more"
            for row_id, row in self.closed.items()
            if closed.get(row_id) != row
        ]
        events = [
            f"{row_id}: closed, with {len(event_ids)} events"
            for row_id, row in closed.items()
            if len(event_ids := [one for one in row.event_ids if one is not None]) != 1
        ]
        return changed + events

    def _news(self, broken: Sequence[str]) -> list[str]:
        news = [one for one in broken if one not in self._told]
        self._told.update(news)
        return news


def _lost(heard: Mapping[UUID, datetime], rows: Mapping[UUID, tuple[Any, ...]]) -> list[str]:
    return [
        f"{row_id}: what its visitor was told was not kept"
        for row_id, active_at in heard.items()
        if row_id not in rows or rows[row_id][1] < active_at
    ]


def _audited(dsn: str) -> list[str]:
    options = AuditOptions(
        inactivity_threshold=timedelta(minutes=12), outbox_retention=timedelta(days=7), examples_max=1000
    )
    with closing(PostgresActivityAudit(dsn)) as audit:
        report = AuditUseCase(audit=audit, options=options, observe=lambda _examined: None).run()
    return [f"{finding.row_id}: {kind}" for kind, found in report.found.items() for finding in found.examples]

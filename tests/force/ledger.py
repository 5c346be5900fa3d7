"""What has been seen and promised so far, and whether the database still says so."""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from threading import Lock
from typing import Final
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
    _heard_until: dict[UUID, datetime] = field(factory=dict)
    _told: set[str] = field(factory=set)
    _mutex: Lock = field(factory=Lock)

    def acknowledge(self, row_id: UUID, active_at: datetime) -> None:
        """A visitor was told that the row was active then, or later."""
        with self._mutex:
            self._heard_until[row_id] = max(active_at, self._heard_until.get(row_id, active_at))

    def check(self, tables: ActivityTables) -> list[str]:
        """What is not as it must be, and was not told before."""
        rows = {row[0]: row[1:] for row in tables.execute(_ROWS)}
        closed = {
            row_id: ClosedRow(last_activity_at, ended_at, duration, tuple(event_ids))
            for row_id, (is_closed, last_activity_at, ended_at, duration, event_ids) in rows.items()
            if is_closed
        }
        broken = [*self._lost(rows), *self._changed(closed), *_audited(tables.dsn)]
        self.closed = closed
        news = [one for one in broken if one not in self._told]
        self._told.update(news)
        return news

    def _lost(self, rows: Mapping[UUID, tuple[object, ...]]) -> list[str]:
        with self._mutex:
            heard = dict(self._heard_until)
        broken: list[str] = []
        for row_id, active_at in heard.items():
            last_activity_at = rows[row_id][1] if row_id in rows else None
            if not isinstance(last_activity_at, datetime) or last_activity_at < active_at:
                broken.append(f"{row_id}: what its visitor was told was not kept")
        return broken

    def _changed(self, closed: Mapping[UUID, ClosedRow]) -> list[str]:
        changed = [
            f"{row_id}: closed, and not the same any more"
            for row_id, row in self.closed.items()
            if closed.get(row_id) != row
        ]
        events = [f"{row_id}: {len(row.event_ids)} events" for row_id, row in closed.items() if len(row.event_ids) != 1]
        return changed + events


def _audited(dsn: str) -> list[str]:
    options = AuditOptions(
        inactivity_threshold=timedelta(minutes=12), outbox_retention=timedelta(days=7), examples_max=1000
    )
    with closing(PostgresActivityAudit(dsn)) as audit:
        report = AuditUseCase(audit=audit, options=options, observe=lambda _examined: None).run()
    return [f"{finding.row_id}: {kind}" for kind, found in report.found.items() for finding in found.examples]

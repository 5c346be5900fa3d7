"""One of everything that an audit has to find, planted by SQL."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import uuid4

from attrs import evolve

from application.ports.activity_audit import Finding, FindingKind, RowKind
from tests.postgres.audited_tables import Audited, AuditedTables

# What is changed of a closed session, or view, or its event; and what is found of it then.
_SPOILT_ROWS: Final[Mapping[FindingKind, str]] = {
    FindingKind.CLOSED_ROW_WITHOUT_ENDED_AT: "update {table} set ended_at = null where id = '{row}'",
    FindingKind.CLOSED_ROW_WITHOUT_DURATION: "update {table} set duration = null where id = '{row}'",
    FindingKind.NEGATIVE_DURATION: "update {table} set duration = interval '-1 us' where id = '{row}'",
    FindingKind.WRONG_DURATION: "update {table} set duration = duration + interval '1 us' where id = '{row}'",
    FindingKind.CLOSED_ROW_WITHOUT_EVENT: "delete from user_activity.outbox where id = '{event}'",
    FindingKind.ENDED_BEFORE_LAST_ACTIVITY: """
        update {table} set ended_at = last_activity_at - interval '1 us' where id = '{row}';
        update user_activity.outbox set occurred_at = (select ended_at from {table} where id = '{row}')
        where id = '{event}'""",
}
_SPOILT_ACTIVE_ROWS: Final[Mapping[FindingKind, str]] = {
    FindingKind.ACTIVE_ROW_WITH_END: "update {table} set duration = interval '1 s' where id = '{row}'",
    FindingKind.OVERDUE_ACTIVE_ROW: (
        "update {table} set last_activity_at = now() - interval '24 min 1 s' where id = '{row}'"
    ),
}
_SPOILT_EVENTS: Final[Mapping[RowKind, Mapping[str, str]]] = {
    RowKind.SESSION: {
        "sessionId": "to_jsonb(gen_random_uuid())",
        "anonymousId": "to_jsonb(gen_random_uuid())",
        "userId": "to_jsonb(gen_random_uuid())",
        "createdAt": "to_jsonb(now())",
        "lastActivityAt": "to_jsonb(now())",
        "durationSeconds": "to_jsonb((payload ->> 'durationSeconds')::int + 1)",
    },
    RowKind.PROPERTY_OBJECT_VIEW: {
        "propertyObjectViewId": "to_jsonb(gen_random_uuid())",
        "propertyObjectId": "to_jsonb(gen_random_uuid())",
        "sessionId": "to_jsonb(gen_random_uuid())",
        "anonymousId": "to_jsonb(gen_random_uuid())",
        "userId": "to_jsonb(gen_random_uuid())",
        "viewSource": "to_jsonb('Elsewhere'::text)",
        "viewedAt": "to_jsonb(now())",
        "lastActivityAt": "to_jsonb(now())",
        "durationSeconds": "to_jsonb('1'::text)",
        "filterSnapshot": "'null'",
    },
}
_SPOILT_COLUMNS: Final[Mapping[str, str]] = {
    "aggregateType": "aggregate_type = 'Other'",
    "eventType": "event_type = 'OtherKafkaEvent'",
    "topic": "topic = 'other'",
    "contractVersion": "contract_version = 2",
    "occurredAt": "occurred_at = occurred_at + interval '1 us'",
}


def spoil(tables: AuditedTables) -> list[Finding]:
    """Plants one of everything that must not be, each in a row of its own; answers what has to be found."""
    tables.execute(
        """alter table user_activity.sessions drop constraint chk_sessions_duration_nonneg;
           alter table user_activity.property_object_views drop constraint chk_property_object_views_duration_nonneg;
           drop index user_activity.ux_sessions_active_anonymous_id"""
    )
    closed = iter(tables.closed_visits(50))
    planted = [_reopen_view(tables, next(closed).view), _repeat_session(tables)]
    for kind in RowKind:
        for finding, statement in _SPOILT_ROWS.items():
            planted.append(_spoil_row(tables, next(closed).row(kind), finding, statement))
        for finding, statement in _SPOILT_ACTIVE_ROWS.items():
            planted.append(_spoil_row(tables, tables.active_visit().row(kind), finding, statement))
        for name, value in _SPOILT_EVENTS[kind].items():
            change = f"payload = jsonb_set(payload, '{{{name}}}', {value})"
            planted.append(_spoil_event(tables, next(closed).row(kind), name, change))
        for name, change in _SPOILT_COLUMNS.items():
            planted.append(_spoil_event(tables, next(closed).row(kind), name, change))
        planted += _add_events(tables, next(closed).row(kind), tables.active_visit().row(kind))
    return planted


def _reopen_view(tables: AuditedTables, view: Audited) -> Finding:
    tables.execute(
        f"""update user_activity.property_object_views
            set status = 'Active', ended_at = null, duration = null, last_activity_at = now()
            where id = '{view.id}';
            delete from user_activity.outbox where id = '{view.event_id}'"""
    )
    return Finding(kind=FindingKind.ACTIVE_VIEW_OF_INACTIVE_SESSION, row_kind=view.kind, row_id=view.id)


def _repeat_session(tables: AuditedTables) -> Finding:
    """The one that was active last is the device's, whichever began first."""
    last, other = tables.active_visit().session, tables.active_visit().session
    tables.execute(
        f"""update user_activity.sessions
            set anonymous_id = (select anonymous_id from user_activity.sessions where id = '{last.id}'),
                last_activity_at = last_activity_at - interval '1 min'
            where id = '{other.id}'"""
    )
    return Finding(kind=FindingKind.REPEATED_ACTIVE_SESSION, row_kind=other.kind, row_id=other.id)


def _spoil_row(tables: AuditedTables, row: Audited, finding: FindingKind, statement: str) -> Finding:
    tables.execute(statement.format(table=row.table, row=row.id, event=row.event_id))
    return Finding(kind=finding, row_kind=row.kind, row_id=row.id)


def _spoil_event(tables: AuditedTables, row: Audited, name: str, change: str) -> Finding:
    tables.execute(f"update user_activity.outbox set {change} where id = '{row.event_id}'")
    return difference(row, name)


def _add_events(tables: AuditedTables, row: Audited, active: Audited) -> list[Finding]:
    """One too many, one too early, and one of a row that is not there."""
    assert row.event_id is not None
    missing = uuid4()
    wanted = (
        (FindingKind.CLOSED_ROW_WITH_SEVERAL_EVENTS, row.id, (row.event_id,)),
        (FindingKind.EVENT_OF_ROW_NOT_CLOSED, active.id, ()),
        (FindingKind.EVENT_OF_MISSING_ROW, missing, ()),
    )
    return [
        Finding(kind=kind, row_kind=row.kind, row_id=row_id, event_ids=(*others, tables.copy_event(row, of=row_id)))
        for kind, row_id, others in wanted
    ]


def difference(row: Audited, *names: str) -> Finding:
    """What is found where an event says something else than its row."""
    assert row.event_id is not None
    return Finding(
        kind=FindingKind.EVENT_DIFFERS_FROM_ROW,
        row_kind=row.kind,
        row_id=row.id,
        event_ids=(row.event_id,),
        differences=names,
    )


def as_found(findings: Iterable[Finding]) -> Counter[Finding]:
    """In whatever order, and how often each."""
    return Counter(evolve(one, event_ids=tuple(sorted(one.event_ids))) for one in findings)

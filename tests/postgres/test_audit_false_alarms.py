"""What the audit must not take for a finding: what is legal, and what others may have done (specification §2, §6)."""

from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from adapters.postgres.migrations import migrate
from application.ports.activity_audit import AuditTerms, FindingKind
from application.ports.store_errors import AccessDenied
from tests.end_to_end.program import wait_until
from tests.postgres.audited_tables import RETENTION, AuditedTables, Sizes, findings_of
from tests.postgres.spoilt_tables import as_found, spoil
from tests.postgres.test_migrations_convergence import make_service_tables
from tests.postgres.test_roles import apply_roles, login_role

_SHIFT = """
    update user_activity.sessions
    set created_at = created_at - {ago}, last_activity_at = last_activity_at - {ago}, ended_at = ended_at - {ago};
    update user_activity.property_object_views
    set created_at = created_at - {ago}, last_activity_at = last_activity_at - {ago}, ended_at = ended_at - {ago};
    update user_activity.outbox
    set occurred_at = occurred_at - {ago}, published_at = occurred_at - {ago} + interval '1 s',
        payload = payload || jsonb_strip_nulls(jsonb_build_object(
            'createdAt', earlier(payload ->> 'createdAt', {ago}), 'viewedAt', earlier(payload ->> 'viewedAt', {ago}),
            'lastActivityAt', earlier(payload ->> 'lastActivityAt', {ago})))"""
_EARLIER = """
    create function earlier(moment text, ago interval) returns text language sql as $$
        select to_char((moment::timestamptz - ago) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$"""


def move_back(tables: AuditedTables, ago: str) -> None:
    """Everything happened so much earlier, and was delivered at once."""
    tables.execute(_EARLIER)
    tables.execute(_SHIFT.format(ago=f"interval '{ago}'"))


def without_events(tables: AuditedTables, *, retention: timedelta | None = RETENTION) -> int:
    """How many rows are found to lack their event; nothing else is found."""
    found = findings_of(tables.audit(retention=retention))
    assert {finding.kind for finding in found} <= {FindingKind.CLOSED_ROW_WITHOUT_EVENT}
    return len(found)


def test_an_empty_database_has_nothing_to_find(database: str) -> None:
    """Nothing is nothing."""
    report = AuditedTables(database).audit()
    assert (report.examined, report.found) == ({"sessions": 0, "views": 0, "events": 0}, {})


def test_whatever_becomes_of_an_event_it_is_its_rows(database: str) -> None:
    """Pending, refused, dead or delivered events are there, however old they are."""
    tables = AuditedTables(database)
    states = (
        "published_at = null",
        "published_at = now()",
        "published_at = null, refusals = 2, next_attempt_at = now()",
        "published_at = null, refusals = 10, dead_at = now()",
    )
    for state, visit in zip(states, tables.closed_visits(len(states)), strict=True):
        tables.execute(f"update user_activity.outbox set {state} where id = '{visit.session.event_id}'")
    assert not tables.audit().found
    move_back(tables, "20 days")
    assert not tables.audit().found


def test_sessions_that_end_with_their_views_and_live_ones(database: str) -> None:
    """Hanging views, sessions with open views, and rows that are alive, some of them with times that cannot be read."""
    tables = AuditedTables(database)
    tables.closed_visits(5)
    tables.closed_visits(5, views_silent="1 min")
    for change in (
        "last_activity_at = 'infinity'",
        "created_at = '-infinity'",
        "created_at = last_activity_at + interval '1 min'",
        "last_activity_at = now() - interval '23 min'",
        "last_activity_at = '12000-01-01'",
    ):
        visit = tables.active_visit()
        for row in (visit.session, visit.view):
            tables.execute(f"update {row.table} set {change} where id = '{row.id}'")
    assert not tables.audit().found


def test_an_event_that_may_have_been_removed_is_not_missed(database: str) -> None:
    """Delivered events are removed after the retention: until then, less a minute, each has to be there."""
    tables = AuditedTables(database)
    tables.closed_visits(3)
    tables.execute("delete from user_activity.outbox")
    assert without_events(tables) == 6
    assert without_events(tables, retention=timedelta(0)) == 0
    assert without_events(tables, retention=timedelta(minutes=2)) == 6
    move_back(tables, "6 days 23:58")
    assert without_events(tables) == 6
    assert without_events(tables, retention=timedelta(days=6)) == 0
    tables.execute(_SHIFT.format(ago="interval '90 s'"))
    assert without_events(tables) == 0


def test_what_is_not_committed_is_neither_seen_nor_waited_for(database: str) -> None:
    """A closer, a publisher and a visitor in the middle of their transactions: rows and events are as they were."""
    tables = AuditedTables(database)
    [closed] = tables.closed_visits(1)
    active = tables.active_visit()
    with psycopg.connect(database) as others:
        others.execute("update user_activity.sessions set status = 'Inactive', ended_at = now(), duration = '1 h'")
        others.execute("update user_activity.property_object_views set last_activity_at = '-infinity'")
        others.execute("delete from user_activity.outbox where aggregate_id = %s", [closed.session.id])
        assert not tables.audit().found
        others.rollback()
        others.execute("delete from user_activity.property_object_views where id = %s", [active.view.id])
        others.execute("lock table user_activity.outbox in share row exclusive mode")
        assert not tables.audit().found


def test_an_event_that_is_removed_during_the_audit_is_not_missed(database: str) -> None:
    """When the audit began it had to be there; when it is looked for its time is over."""
    tables = AuditedTables(database)
    tables.closed_visits(1)
    kept_for = timedelta(minutes=5)
    tables.execute("update user_activity.sessions set ended_at = now() - interval '4 min 58 s'")
    with closing(Sizes().audit_of(database)) as audit:
        now = audit.clock.read()
        terms = AuditTerms(overdue_before=now - kept_for, rows_kept_since=now - kept_for, events_kept_for=kept_for)
        parts = audit.examine(terms)
        next(parts)
        wait_until(lambda: audit.clock.read() > now + timedelta(seconds=3))
        tables.execute("delete from user_activity.outbox where aggregate_type = 'Session'")
        assert not [finding for part in parts for finding in part.findings]


def test_where_others_empty_the_outbox_no_event_is_missed(database: str) -> None:
    """Debezium's events may be removed at any time; what there is is judged all the same."""
    tables = AuditedTables(database)
    gone, spoilt = tables.closed_visits(2)
    tables.execute(f"delete from user_activity.outbox where id = '{gone.session.event_id}'")
    tables.execute(f"update user_activity.outbox set topic = 'x' where id = '{spoilt.session.event_id}'")
    assert [one.row_id for one in findings_of(tables.audit(retention=None))] == [spoilt.session.id]


def test_what_ended_before_the_adoption_is_not_judged(database: str) -> None:
    """The service itself may have closed rows, by rules of its own, with events of its own or none."""
    tables = AuditedTables(database)
    visits = tables.closed_visits(10)
    tables.adopt("0 s")
    changes = (
        "update {table} set ended_at = null, duration = null where id = '{id}'",
        "update {table} set ended_at = null, last_activity_at = '-infinity' where id = '{id}'",
        "update {table} set duration = interval '5 s' where id = '{id}'",
        "update {table} set duration = null, ended_at = '-infinity' where id = '{id}'",
        "update {table} set created_at = 'infinity', last_activity_at = '12000-01-01' where id = '{id}'",
        "update {table} set ended_at = last_activity_at - interval '1 s' where id = '{id}'",
        "update user_activity.outbox set payload = '[]', topic = 'x', contract_version = 0 where id = '{event_id}'",
        "update user_activity.outbox set aggregate_id = gen_random_uuid() where id = '{event_id}'",
        "delete from user_activity.outbox where id = '{event_id}'",
        "update user_activity.outbox set occurred_at = '-infinity' where id = '{event_id}'",
    )
    for change, visit in zip(changes, visits, strict=True):
        for row in (visit.session, visit.view):
            tables.execute(change.format(table=row.table, id=row.id, event_id=row.event_id))
            tables.copy_event(visits[0].session, of=row.id)
    assert not tables.audit().found


def test_the_tables_of_a_service_raise_no_alarm_once_they_are_adopted(empty_database: str) -> None:
    """Rows that the service closed, in tables that could not even say when, are not judged; later ones are."""
    make_service_tables(empty_database)
    migrate(empty_database)
    tables = AuditedTables(empty_database, adopted=None)
    add = """
        with session as (
            insert into user_activity.sessions (id, anonymous_id, status, created_at, last_activity_at)
            select gen_random_uuid(), gen_random_uuid(), 'Inactive', now() - interval '2 h', now() - interval '1 h'
            from generate_series(1, 20)
            returning *
        )
        insert into user_activity.property_object_views
            (id, property_object_id, session_id, anonymous_id, view_source, status, created_at, last_activity_at)
        select gen_random_uuid(), gen_random_uuid(), id, anonymous_id, 'Map', 'Inactive', created_at, last_activity_at
        from session"""
    tables.execute(add)
    assert not tables.audit().found
    tables.execute("update user_activity.property_object_views set last_activity_at = now()")
    assert {finding.kind for finding in findings_of(tables.audit())} == {
        FindingKind.CLOSED_ROW_WITHOUT_ENDED_AT,
        FindingKind.CLOSED_ROW_WITHOUT_DURATION,
    }


def test_the_events_of_others_are_not_judged(database: str) -> None:
    """The outbox may be shared, even by other events about sessions: ours are known by their type, or their topic."""
    tables = AuditedTables(database)
    [closed] = tables.closed_visits(1)
    for row in (closed.session, tables.active_visit().session):
        copy = tables.copy_event(closed.session, of=row.id)
        tables.execute(
            f"""update user_activity.outbox set event_type = 'SessionStartedKafkaEvent', topic = 'session-started.v1',
                       payload = '{{}}' where id = '{copy}'"""
        )
    assert not tables.audit().found


def test_an_event_may_outlive_its_row_by_a_year(database: str) -> None:
    """The service removes closed rows after twelve months; a dead event may be older. A younger one has its row."""
    tables = AuditedTables(database, adopted="1000 days")
    [visit] = tables.closed_visits(1)
    tables.execute("delete from user_activity.property_object_views; delete from user_activity.sessions")
    missing = [(FindingKind.EVENT_OF_MISSING_ROW, row.id) for row in (visit.session, visit.view)]
    tables.execute("update user_activity.outbox set occurred_at = now() - interval '364 days'")
    assert [(finding.kind, finding.row_id) for finding in findings_of(tables.audit())] == missing
    tables.execute("update user_activity.outbox set occurred_at = now() - interval '366 days'")
    assert not tables.audit().found


def test_the_role_of_readers_is_enough(database: str) -> None:
    """Specification §6: for all there is to find; and without a right nothing is passed over in silence."""
    apply_roles(database)
    tables = AuditedTables(database)
    planted = spoil(tables)
    with login_role(database, "activity_reader") as reader:
        assert as_found(findings_of(tables.audit(dsn=reader))) == as_found(planted)
        tables.execute(
            """create policy own on user_activity.sessions for select using (false);
               alter table user_activity.sessions enable row level security"""
        )
        with pytest.raises(AccessDenied, match="row-level security"):
            tables.audit(dsn=reader)

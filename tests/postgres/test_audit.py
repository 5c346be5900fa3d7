"""What the audit finds (specification §2, §6 to §10)."""

from uuid import UUID

import pytest

from application.ports.activity_audit import FindingKind
from application.ports.store_errors import SchemaMissing, StoreError, TransactionRefused
from tests.postgres.audited_tables import AuditedTables, Sizes, findings_of
from tests.postgres.spoilt_tables import as_found, difference, spoil


@pytest.mark.parametrize(
    "sizes", [Sizes(), Sizes(page_rows=7, closed_rows_max=20, odd_rows_max=1)], ids=["one", "many"]
)
def test_every_violation_is_found_once_and_nothing_else(database: str, sizes: Sizes) -> None:
    """One of each kind in sessions, views and their events, in one database; in one range of rows, or in many."""
    tables = AuditedTables(database)
    planted = spoil(tables)
    assert {finding.kind for finding in planted} == set(FindingKind)
    report = tables.audit(sizes=sizes)
    assert as_found(findings_of(report)) == as_found(planted)
    counts = tables.counts()
    assert report.examined == {
        "sessions": counts.active_sessions + counts.inactive_sessions,
        "views": counts.active_views + counts.inactive_views,
        "events": counts.events,
    }
    assert report.warnings == 2
    assert report.violations == len(planted) - 2


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 20])
def test_ranges_leave_nothing_out_at_their_ends(database: str, rows: int) -> None:
    """Tables that end with a range, or a row before or after: each row is looked at once, the last one too."""
    tables = AuditedTables(database)
    for visit in tables.closed_visits(rows):
        tables.execute(f"delete from user_activity.outbox where id = '{visit.session.event_id}'")
    report = tables.audit(sizes=Sizes(page_rows=10, closed_rows_max=10, odd_rows_max=5))
    assert [found.count for found in report.found.values()] == [rows] * bool(rows)
    assert report.examined == {"sessions": rows, "views": rows, "events": rows}


def test_the_ids_at_both_ends_of_all_ids_are_seen(database: str) -> None:
    """The first and the last id that there can be are those of rows like any other."""
    tables = AuditedTables(database)
    ids = [UUID(int=0), UUID(int=2**128 - 1)]
    for visit, row_id in zip(tables.closed_visits(2), ids, strict=True):
        tables.execute(f"delete from user_activity.property_object_views where id = '{visit.view.id}'")
        tables.execute(f"delete from user_activity.outbox where aggregate_id = '{visit.view.id}'")
        tables.execute(f"update user_activity.sessions set id = '{row_id}' where id = '{visit.session.id}'")
        tables.execute(f"delete from user_activity.outbox where id = '{visit.session.event_id}'")
    found = findings_of(tables.audit(sizes=Sizes(page_rows=1, odd_rows_max=1)))
    assert [(one.kind, one.row_id) for one in found] == [(FindingKind.CLOSED_ROW_WITHOUT_EVENT, one) for one in ids]


@pytest.mark.parametrize("page_rows", [1, 2, 3, 4, 5])
def test_of_the_active_sessions_of_a_device_all_but_one_are_found(database: str, page_rows: int) -> None:
    """Specification §6: the one that was active last is the device's; of those at one time, that of the greatest id."""
    tables = AuditedTables(database)
    tables.execute("drop index user_activity.ux_sessions_active_anonymous_id")
    sessions = sorted(tables.active_visit().session.id for _ in range(6))
    tables.execute(
        "update user_activity.sessions set anonymous_id = %(one)s, last_activity_at = now()", one=UUID(int=1)
    )
    tables.execute(f"update user_activity.sessions set anonymous_id = '{UUID(int=2)}' where id = '{sessions[3]}'")
    found = findings_of(tables.audit(sizes=Sizes(page_rows=page_rows)))
    assert [finding.row_id for finding in found] == [*sessions[:3], sessions[4]]
    assert {finding.kind for finding in found} == {FindingKind.REPEATED_ACTIVE_SESSION}


@pytest.mark.parametrize("ends_with_session", [False, True], ids=["ends before its session", "ends with it"])
@pytest.mark.parametrize(
    ("user", "said", "is_allowed"),
    [
        ("A", "A", "always"),
        ("A", None, "before"),
        ("A", "B", "never"),
        (None, None, "always"),
        (None, "A", "never"),
    ],
)
def test_the_user_in_a_views_event(
    database: str, ends_with_session: bool, user: str | None, said: str | None, is_allowed: str
) -> None:
    """A session that had no user may have got one since a view of it was closed; no session loses or changes its user.

    So the event of a view that ended before its session may say nobody; not that of one that ended with it.
    """
    users = {"A": UUID(int=10), "B": UUID(int=11), None: None}
    tables = AuditedTables(database)
    [visit] = tables.closed_visits(1, views_silent="1 min" if ends_with_session else None)
    tables.execute("update user_activity.sessions set user_id = %(user)s", user=users[user])
    says = "update user_activity.outbox set payload = jsonb_set(payload, '{userId}', coalesce(%(user)s, 'null')::jsonb)"
    for row, value in ((visit.session, users[user]), (visit.view, users[said])):
        quoted = None if value is None else f'"{value}"'
        tables.execute(f"{says} where id = '{row.event_id}'", user=quoted)
    is_right = is_allowed == "always" or (is_allowed == "before" and not ends_with_session)
    assert findings_of(tables.audit()) == ([] if is_right else [difference(visit.view, "userId")])


def test_a_row_and_its_event_that_disagree_twice_are_one_finding(database: str) -> None:
    """All that an event says otherwise is named, in the order of the contract."""
    tables = AuditedTables(database)
    [visit] = tables.closed_visits(1)
    tables.execute(
        f"""update user_activity.outbox set topic = 'other', payload = payload || '{{"viewSource": 7, "viewedAt": 7}}'
            where id = '{visit.view.event_id}'"""
    )
    assert findings_of(tables.audit()) == [difference(visit.view, "topic", "viewSource", "viewedAt")]


@pytest.mark.parametrize("payload", ["null", "[]", '"text"', "{}", '{"durationSeconds": {}}', '{"userId": [1]}'])
def test_a_payload_of_any_shape_is_judged(database: str, payload: str) -> None:
    """Whatever JSON it is, it is a finding and stops nothing."""
    tables = AuditedTables(database)
    [visit] = tables.closed_visits(1)
    tables.execute(f"update user_activity.outbox set payload = '{payload}'")
    found = findings_of(tables.audit())
    assert [finding.row_id for finding in found] == [visit.session.id, visit.view.id]
    assert {"anonymousId", "lastActivityAt", "durationSeconds"} < set(found[0].differences)


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "12000-01-01 00:00Z", "4000-01-01 00:00Z BC"])
@pytest.mark.parametrize("column", ["created_at", "last_activity_at", "ended_at"])
def test_times_that_cannot_be_read_or_subtracted_are_judged(database: str, column: str, moment: str) -> None:
    """A closed row was spoilt after closing: it differs from its event, and nothing fails."""
    tables = AuditedTables(database)
    [visit] = tables.closed_visits(1)
    tables.execute(f"update user_activity.sessions set {column} = '{moment}'")
    kinds = {finding.kind for finding in findings_of(tables.audit()) if finding.row_id == visit.session.id}
    assert FindingKind.EVENT_DIFFERS_FROM_ROW in kinds
    assert (FindingKind.WRONG_DURATION in kinds) is (column != "ended_at")


def test_a_time_of_adoption_that_was_lost_is_said(database: str) -> None:
    """Without it nobody knows what to judge."""
    tables = AuditedTables(database)
    tables.execute("delete from user_activity.activity_closer_adoption")
    with pytest.raises(TransactionRefused, match="drop the table, and migrate again"):
        tables.audit()
    tables.execute("drop table user_activity.activity_closer_adoption")
    with pytest.raises(SchemaMissing, match="activity_closer_adoption"):
        tables.audit()


def test_nothing_can_be_written(database: str) -> None:
    """Each transaction is read only, whatever the login may do: even what a function does by the way is refused."""
    tables = AuditedTables(database)
    tables.closed_visits(1)
    tables.execute(
        """create function meddle(text, text) returns boolean language plpgsql as $$
           begin delete from user_activity.outbox; return true; end $$;
           create view user_activity.elsewhere as select * from user_activity.sessions where meddle(status, status);
           alter table user_activity.sessions rename to hidden;
           alter view user_activity.elsewhere rename to sessions"""
    )
    with pytest.raises(StoreError, match="25006"):
        tables.audit()

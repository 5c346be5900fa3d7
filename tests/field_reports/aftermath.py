"""What holds after every scenario, whatever happened in it (the head of the field reports, specification §2)."""

import json
import traceback
from collections.abc import Iterable

from application.ports.run_observation import ItemFailed, RunOutcome
from tests.contracts.event_schemas import faults_of
from tests.field_reports.scenario import PERSONAL_MARKS, Closer, Scenario

_ROWS = """
    select id, status, created_at, last_activity_at, ended_at, duration, 'Session' as aggregate_type
    from user_activity.sessions
    union all
    select id, status, created_at, last_activity_at, ended_at, duration, 'PropertyObjectView'
    from user_activity.property_object_views
"""
_FAULTS = {
    "an Active view under an Inactive session (INV-LV-007)": """
        select views.id
        from user_activity.property_object_views as views
        join user_activity.sessions on sessions.id = views.session_id
        where views.status = 'Active' and sessions.status = 'Inactive'""",
    "not exactly one event of a closed row, or one of an Active row": f"""
        select rows.id
        from ({_ROWS}) as rows
        left join user_activity.outbox
            on outbox.aggregate_id = rows.id and outbox.aggregate_type = rows.aggregate_type
        group by rows.id, rows.status
        having count(outbox.id) <> (rows.status = 'Inactive')::int""",
    "an event of nothing": f"""
        select aggregate_id from user_activity.outbox where aggregate_id not in (select id from ({_ROWS}) as rows)""",
    "a duration that is not LastActivityAt - CreatedAt": f"""
        select id from ({_ROWS}) as rows
        where status = 'Inactive'
          and (duration is null or ended_at is null or duration < interval '0'
               or extract(epoch from duration) <> extract(epoch from last_activity_at - created_at))""",
    "an Active row with the marks of a closed one": f"""
        select id from ({_ROWS}) as rows where status = 'Active' and (duration is not null or ended_at is not null)""",
    "an event that is not its row (D-10, D-11)": f"""
        select rows.id
        from ({_ROWS}) as rows
        join user_activity.outbox on outbox.aggregate_id = rows.id
        where occurred_at <> ended_at
           or (payload ->> 'durationSeconds')::numeric <> floor(extract(epoch from duration))
           or (payload ->> 'lastActivityAt')::timestamptz <> last_activity_at
           or coalesce(payload ->> 'createdAt', payload ->> 'viewedAt')::timestamptz <> created_at
           or rows.id::text <> coalesce(payload ->> 'propertyObjectViewId', payload ->> 'sessionId')""",
    "a transaction that was left open": """
        select pid from pg_stat_activity
        where datname = current_database() and application_name = 'activity-closer' and state <> 'idle'""",
}


def assert_all_is_well(scenario: Scenario, log: Iterable[str]) -> None:
    """Each closer's next tick is normal, the rows and events agree, and nothing personal came out."""
    for closer in scenario.closers:
        _assert_next_tick_is_normal(scenario, closer)
    for fault, finding in _FAULTS.items():
        assert not scenario.execute(finding), fault
    for topic, payload in scenario.execute("select topic, payload::text from user_activity.outbox"):
        assert not faults_of(topic, json.loads(payload))
    seen = [*log, *(text for closer in scenario.closers for text in _texts_of(closer))]
    for mark in PERSONAL_MARKS:
        assert not [text for text in seen if mark in text], "personal data came out (BR-08)"


def _assert_next_tick_is_normal(scenario: Scenario, closer: Closer) -> None:
    failures_before = len(closer.observation.of(ItemFailed))
    run = closer.run()
    failures = closer.observation.of(ItemFailed)[failures_before:]
    assert run.report.outcome is RunOutcome.COMPLETED, run.error
    assert {failure.id for failure in failures} <= scenario.quarantined
    backlog = run.report.backlog_remaining
    assert backlog is not None
    assert backlog.sessions + backlog.views == len(scenario.quarantined)


def _texts_of(closer: Closer) -> Iterable[str]:
    """Whatever an exporter or a log could make of what the closer said."""
    for occurrence in closer.observation.occurrences:
        yield f"{occurrence} {occurrence!r}"
    for name, attributes in closer.observation.spans:
        yield f"{name} {attributes}"
    yield from closer.observation.tracebacks


def text_of(error: BaseException) -> str:
    """All that a log could print of an error."""
    return "".join([str(error), repr(error), *traceback.format_exception(error)])

"""Reports of intervals that mean something else on their way (BR-32)."""

from datetime import UTC

import pytest

from application.ports.run_observation import JobStarted
from tests.field_reports.scenario import Scenario

LASTED = {
    "2026-02-27 09:00:00Z": ("2026-03-02 10:00:00.5Z", 262_800.5),
    "2025-01-01 00:00:00Z": ("2026-02-05 00:00:00.999Z", 34_560_000.999),
    "2026-03-29 00:30:00Z": ("2026-03-29 00:30:00Z", 0.0),  # in the hour in which Europe goes over to summer time
    "2026-03-01 00:00:00Z": ("2026-03-01 00:00:00.000001Z", 0.000001),
    "2026-02-28 23:59:59.999999Z": ("2026-03-01 00:00:00Z", 0.000001),
    "2025-10-25 12:00:00Z": ("2025-10-26 12:00:00Z", 86_400.0),  # a day of 25 hours in Berlin
}
ROLE_DEFAULTS = {
    "as installed": {},
    "iso": {"IntervalStyle": "iso_8601", "DateStyle": "SQL, DMY", "TimeZone": "Europe/Berlin"},
    "sql": {"IntervalStyle": "sql_standard", "DateStyle": "German", "TimeZone": "Asia/Kathmandu"},
    "verbose": {"IntervalStyle": "postgres_verbose", "DateStyle": "Postgres, MDY", "extra_float_digits": "-15"},
}


@pytest.mark.parametrize("role_defaults", ROLE_DEFAULTS)
def test_br_32_durations_are_exact_whatever_the_role_prefers(scenario: Scenario, role_defaults: str) -> None:
    """BR-32: days count as 24 hours; the row is exact to the microsecond, its event is the whole seconds of it (D-10).

    Interval style, date style and time zone of the role change neither.
    """
    for name, value in ROLE_DEFAULTS[role_defaults].items():
        scenario.set_role_default(name, value)
    sessions = scenario.add_sessions(len(LASTED))
    views = scenario.add_views(sessions)
    expected = {}
    for rows, table in ((sessions, "sessions"), (views, "property_object_views")):
        for row_id, (created_at, (last_activity_at, seconds)) in zip(rows, LASTED.items(), strict=True):
            expected[row_id] = (seconds, int(seconds))
            scenario.execute(
                f"update user_activity.{table} set created_at = %s, last_activity_at = %s where id = %s",
                created_at,
                last_activity_at,
                row_id,
            )
    report = scenario.closer().run(batch_size=5).report
    assert (report.closed_sessions, report.closed_views) == (len(LASTED), len(LASTED))
    stored = scenario.execute(
        """select id, extract(epoch from duration)::float8, (payload ->> 'durationSeconds')::int
           from (select id, duration from user_activity.sessions
                 union all select id, duration from user_activity.property_object_views) as rows
           join user_activity.outbox as events (event_id, aggregate_type, aggregate_id) on aggregate_id = id"""
    )
    assert {row_id: (seconds, whole) for row_id, seconds, whole in stored} == expected


def test_br_32_the_cutoff_is_reckoned_in_utc(scenario: Scenario) -> None:
    """BR-32: twelve minutes before now are twelve minutes, also in the night of a change to summer time (D-01).

    Python reckons by the clock on the wall in any other time zone: the cutoff would lie in the future there, and
    sessions that are alive would close.
    """
    scenario.set_role_default("TimeZone", "Europe/Berlin")
    closer = scenario.closer()
    assert closer.store.clock.read().tzinfo is UTC
    assert closer.store.clock.now().tzinfo is UTC
    closer.run()
    [started] = closer.observation.of(JobStarted)
    assert started.cutoff.tzinfo is UTC

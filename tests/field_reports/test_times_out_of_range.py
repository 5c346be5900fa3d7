"""BR-04 and D-05: times that PostgreSQL can hold and the client library cannot load."""

from datetime import timedelta

import pytest

from application.ports.run_observation import ItemFailed
from tests.field_reports.scenario import Scenario

OUT_OF_RANGE = ["infinity", "-infinity", "10000-01-01 00:00:00+00", "0044-03-15 12:00:00+00 BC"]


@pytest.mark.parametrize("moment", OUT_OF_RANGE)
def test_a_session_that_cannot_be_loaded_costs_only_itself(scenario: Scenario, moment: str) -> None:
    """It stays Active with its views, is reported once a run, and its neighbours close, oldest first."""
    sessions = scenario.add_sessions(3)
    scenario.execute("update user_activity.sessions set created_at = %s where id = %s", moment, sessions[1])
    scenario.quarantined.add(sessions[1])
    closer = scenario.closer()
    for closed in (2, 0):
        report = closer.run(sessions_per_transaction=2).report
        assert (report.closed_sessions, report.failed_items) == (closed, 1)
    assert [failure.id for failure in closer.observation.of(ItemFailed)] == [sessions[1]] * 2
    assert {failure.kind for failure in closer.observation.of(ItemFailed)} == {"unreadable"}


@pytest.mark.parametrize("moment", OUT_OF_RANGE)
def test_a_view_that_cannot_be_loaded_keeps_its_session_open(scenario: Scenario, moment: str) -> None:
    """The session and its other views wait for the repair with it (INV-LV-007)."""
    sessions = scenario.add_sessions(2)
    views = scenario.add_views([*sessions, sessions[0]], idle=timedelta(0))
    scenario.execute("update user_activity.property_object_views set created_at = %s where id = %s", moment, views[0])
    scenario.quarantined.add(sessions[0])
    closer = scenario.closer()
    report = closer.run().report
    assert report.closed_sessions == 1
    assert {failure.id for failure in closer.observation.of(ItemFailed)} == {sessions[0]}
    assert scenario.active("property_object_views") == {views[0], views[2]}


@pytest.mark.parametrize("moment", OUT_OF_RANGE)
def test_a_hanging_view_that_cannot_be_loaded_costs_only_itself(scenario: Scenario, moment: str) -> None:
    """The paging goes past it, whatever its place in the order: keys travel as text (D-04, D-05)."""
    [session] = scenario.add_sessions(1)
    views = scenario.add_views([session] * 7)
    scenario.execute("update user_activity.sessions set last_activity_at = now() where id = %s", session)
    scenario.execute(
        """update user_activity.property_object_views set created_at = %s,
           last_activity_at = case when %s = '-infinity' then '-infinity' else last_activity_at end where id = %s""",
        moment,
        moment,
        views[2],
    )
    scenario.quarantined.add(views[2])
    report = scenario.closer().run(batch_size=2).report
    assert (report.closed_views, report.failed_items) == (6, 1)

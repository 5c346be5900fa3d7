"""Triggers and policies that change, swallow or hide rows without an error: nothing closes then, and no event goes."""

import pytest

from application.ports.run_observation import ItemFailed, RunOutcome
from application.ports.store_errors import AccessDenied
from tests.field_reports.scenario import Scenario

MEDDLING = {
    "keeps the row": "return null;",
    "keeps it Active": "new.status := 'Active';",
    "changes its end": "new.ended_at := '2020-01-01';",
    "forgets its end": "new.ended_at := null;",
    "changes its duration": "new.duration := '1 year';",
}


@pytest.mark.parametrize("table", ["sessions", "property_object_views"])
@pytest.mark.parametrize("meddling", MEDDLING)
def test_a_row_that_is_not_as_asked_has_no_event(scenario: Scenario, table: str, meddling: str) -> None:
    """The row stays as it was and is reported, its neighbours close: row and event never disagree (D-05, D-10)."""
    rows = scenario.add_sessions(5) if table == "sessions" else scenario.add_hanging_views(5)
    scenario.set_trap(table, MEDDLING[meddling])
    scenario.mark(rows[2])
    scenario.quarantined = {rows[2]}
    closer = scenario.closer()
    report = closer.run().report
    assert report.failed_items == 1
    assert scenario.active(table) >= {rows[2]}
    assert scenario.events_of(rows) == 4
    [failure] = closer.observation.of(ItemFailed)
    assert (failure.id, failure.kind) == (rows[2], "not_changed")


@pytest.mark.parametrize(
    "swallowing",
    [
        """create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
           create trigger swallow before insert on user_activity.outbox for each row execute function swallow();""",
        "create rule swallow as on insert to user_activity.outbox do instead nothing",
    ],
    ids=["trigger", "rule"],
)
def test_no_row_closes_while_the_outbox_swallows_events(scenario: Scenario, swallowing: str) -> None:
    """A closed row without its event is what must never be (INV-SES-005)."""
    sessions = scenario.add_sessions(2)
    views = scenario.add_views(sessions)
    scenario.execute(swallowing)
    report = scenario.closer().run().report
    assert (report.closed_sessions, report.closed_views, report.failed_items) == (0, 0, 4)
    scenario.execute("drop trigger if exists swallow on user_activity.outbox")
    scenario.execute("drop rule if exists swallow on user_activity.outbox")
    assert scenario.closers[0].run().report.closed_sessions == 2
    assert scenario.events_of([*sessions, *views]) == 4


@pytest.mark.parametrize("state", ["53100", "42501", "57014", "25006", "42P01", "08006"])
def test_a_trigger_that_plays_infrastructure_costs_its_row_alone(scenario: Scenario, state: str) -> None:
    """What a trigger raises for a row says nothing of the store, whatever its SQLSTATE (D-05, D-06)."""
    views = scenario.add_hanging_views(9)
    scenario.set_trap("property_object_views", f"raise exception using errcode = '{state}';")
    scenario.mark(views[3], views[4])
    scenario.quarantined = {views[3], views[4]}
    run = scenario.closer().run()
    assert (run.report.outcome, run.error) == (RunOutcome.COMPLETED, None)
    assert (run.report.closed_views, run.report.failed_items) == (7, 2)


def test_a_policy_that_hides_views_stops_the_closer(scenario: Scenario) -> None:
    """The scan goes over all owners: with rows hidden, sessions would close over open views (specification §5.1)."""
    scenario.add_views(scenario.add_sessions(3))
    role = scenario.plain_role()
    scenario.execute("alter table user_activity.property_object_views enable row level security")
    run = scenario.closer(role=role).run()
    assert isinstance(run.error, AccessDenied)
    assert len(scenario.active("sessions")) == 3
    scenario.execute("alter table user_activity.property_object_views disable row level security")


def test_a_function_of_the_same_name_elsewhere_is_not_called(scenario: Scenario) -> None:
    """Somebody who may create functions in `public` does not come to run them with the closer's rights."""
    scenario.add_views(scenario.add_sessions(2))
    scenario.execute(
        """create function public.cardinality(uuid[]) returns int language plpgsql as
           $$ begin raise exception 'called'; end $$"""
    )
    assert scenario.closer().run().report.closed_sessions == 2


def test_views_without_a_session_do_not_end_their_phase(scenario: Scenario) -> None:
    """A page counts what it selected, so the healthy behind them close; without a session there is no user (D-14)."""
    lost = scenario.add_hanging_views(10)
    constraint = "fk_property_object_views_session_id"
    scenario.execute(f"alter table user_activity.property_object_views drop constraint {constraint}")
    scenario.execute(
        "update user_activity.property_object_views set session_id = gen_random_uuid() where id = any(%s)", lost
    )
    healthy = scenario.add_hanging_views(20)
    report = scenario.closer().run(batch_size=10).report
    assert (report.closed_views, report.failed_items) == (30, 0)
    assert scenario.events_of([*lost, *healthy]) == 30


@pytest.mark.parametrize("column", ["created_at", "anonymous_id", "view_source", "property_object_id"])
def test_a_value_that_must_be_there_and_is_not_costs_its_row_alone(scenario: Scenario, column: str) -> None:
    """Adopted tables may allow nulls: such a row is reported and stays, the run goes on (D-05)."""
    views = scenario.add_hanging_views(5)
    scenario.execute(f"alter table user_activity.property_object_views alter {column} drop not null")
    scenario.execute(f"update user_activity.property_object_views set {column} = null where id = %s", views[1])
    scenario.quarantined = {views[1]}
    closer = scenario.closer()
    assert closer.run().report.closed_views == 4
    assert [failure.kind for failure in closer.observation.of(ItemFailed)] == ["unreadable"]


def test_two_workers_do_not_make_each_other_defer(scenario: Scenario) -> None:
    """Views of a session that somebody else is closing are left alone, or that one would defer it."""
    [session] = scenario.add_sessions(1)
    scenario.add_views([session] * 3)
    first, second = scenario.closer().store, scenario.closer().store
    cutoff = first.clock.read()
    with first.begin() as winner, second.begin() as loser:
        assert winner.sessions.lock(session) is not None
        assert not loser.stale_sessions.claim([session], cutoff).rows
        claim = winner.stale_sessions.claim([session], cutoff)
        assert (len(claim.rows), claim.deferred) == (1, ())

"""Reports of session expiry jobs: orphans, backlogs, lists read too early, thresholds (BR-01, 16, 22, 49, 50, 59)."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Event
from uuid import UUID, uuid4

import psycopg
import pytest

from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.online.errors import SessionNotFound
from application.online.link_session import LinkOutcome, LinkSession
from application.online.open_view import OpenView
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.ports.run_observation import JobStarted, Phase, RunOutcome, TransactionCommitted
from tests.field_reports.scenario import MINUTE, PATIENCE_SECONDS, Closer, Scenario, wait_until

PAUSE = "perform pg_advisory_xact_lock_shared(1);"
NO_TIME = timedelta(0)


def open_view_at(closer: Closer) -> OpenView:
    return OpenView(store=closer.store, identifiers=Uuid7Identifiers())


def switch_user(scenario: Scenario, closer: Closer, session_id: UUID) -> None:
    """Another user signs in on the session's device, which ends the session (link-session, `Switched`)."""
    device = scenario.value("select anonymous_id from user_activity.sessions where id = %s", session_id)
    link = LinkSession(store=closer.store, identifiers=Uuid7Identifiers())
    assert link(anonymous_id=device, user_id=uuid4()).outcome is LinkOutcome.SWITCHED


def test_br_01_a_view_that_is_being_inserted_keeps_its_session_open(scenario: Scenario) -> None:
    """BR-01 (a): the session is skipped while the insert is uncommitted, then closed together with the view (D-03)."""
    closer = scenario.closer()
    for _ in range(30):
        [session] = scenario.add_sessions(1)
        with scenario.connection.transaction():
            [view] = scenario.add_views([session], idle=NO_TIME)
            first = closer.run().report
            assert (first.closed_sessions, first.closed_views) == (0, 0)
            assert session in scenario.active("sessions")
            assert scenario.events_of([session, view]) == 0
        second = closer.run().report
        assert (second.closed_sessions, second.closed_views) == (1, 1)
        assert scenario.events_of([session, view]) == 2


def test_br_01_open_view_waits_for_the_closer_and_is_refused(scenario: Scenario) -> None:
    """BR-01 (b): the closer holds the session; open-view waits for it, and finds no Active session (INV-LV-007)."""
    closer = scenario.closer()
    scenario.set_trap("sessions", PAUSE)
    [session] = scenario.add_sessions(1)
    scenario.mark(session)
    open_view = partial(open_view_at(closer), session_id=session, property_object_id=uuid4(), view_source="Map")
    with ThreadPoolExecutor(1) as clients:
        with scenario.paused(closer.run) as run:
            opened = clients.submit(open_view)
            wait_until(lambda: scenario.waiting() == 2)
        assert isinstance(opened.exception(PATIENCE_SECONDS), SessionNotFound)
    assert run.result().report.closed_sessions == 1
    assert scenario.events_of([session]) == 1


def test_br_01_a_view_committed_at_the_last_moment_closes_with_its_session(scenario: Scenario) -> None:
    """BR-01: the insert commits when the closer's locking statement has its snapshot, but not the lock yet.

    A closer that read the views in that statement would leave this one Active under an Inactive session (D-03).
    """
    closer = scenario.closer(role=scenario.pausing_role("sessions"))
    [session] = scenario.add_sessions(1)
    scenario.mark(session)
    with scenario.paused(closer.run) as run:
        [view] = scenario.add_views([session], idle=NO_TIME)
    assert run.result().report.closed_views == 1
    assert scenario.events_of([session, view]) == 2


def test_br_01_a_view_that_slipped_in_is_swept_once_it_is_stale(scenario: Scenario) -> None:
    """BR-01: a plain insert, which does not look at the session's status, waits for the closer, then leaves an orphan.

    Phase A closes it as soon as it has been silent for long enough itself, and it gets its one event.
    """
    closer = scenario.closer()
    scenario.set_trap("sessions", PAUSE)
    [session] = scenario.add_sessions(1)
    scenario.mark(session)
    with ThreadPoolExecutor(1) as clients:
        with scenario.paused(closer.run):
            inserted = clients.submit(_insert_view, scenario.dsn, session)
            wait_until(lambda: scenario.waiting() == 2)
        view = inserted.result(PATIENCE_SECONDS)
    assert scenario.active("property_object_views") == {view}
    scenario.execute("update user_activity.property_object_views set last_activity_at = now() - interval '13 min'")
    assert closer.run().report.closed_views == 1
    assert scenario.events_of([session, view]) == 2


def _insert_view(dsn: str, session: UUID) -> UUID:
    view = uuid4()
    with psycopg.connect(dsn) as connection:
        connection.execute(
            """insert into user_activity.property_object_views
               values (%s, gen_random_uuid(), %s, gen_random_uuid(), 'Map', null, 'Active', now() - interval '1 h',
                       now())""",
            [view, session],
        )
    return view


@pytest.mark.slow
def test_br_01_no_orphan_beside_clients_that_open_views(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    """BR-01: sessions close while clients open views in them; whoever is first, no view is left without its session."""
    closer = scenario.closer()
    ended = Event()
    rounds, sessions_per_round = 12, 100
    current: list[UUID] = []
    outcomes = {"opened": 0, "refused": 0}

    def visit(seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 (no secret)
        store = scenario.closers[seed].store
        command = OpenView(store=store, identifiers=Uuid7Identifiers())
        while not ended.is_set():
            try:
                command(session_id=dice.choice(current), property_object_id=uuid4(), view_source="Map")
                outcomes["opened"] += 1
            except SessionNotFound:
                outcomes["refused"] += 1

    for _ in range(3):
        scenario.closer()
    current[:] = scenario.add_sessions(sessions_per_round)
    with ThreadPoolExecutor(3) as clients:
        visits = [clients.submit(visit, seed) for seed in (1, 2, 3)]
        closed = 0
        try:
            for _ in range(rounds):
                closed += closer.run().report.closed_sessions
                current[:] = scenario.add_sessions(sessions_per_round)
        finally:
            ended.set()
        for one in visits:
            one.result(PATIENCE_SECONDS)
    assert closed >= rounds * sessions_per_round * 9 // 10
    record_property("closings and open-views", (closed, outcomes))
    assert min(outcomes.values()) > 0, "there was no race"


def test_br_16_a_first_backlog_drains_in_bounded_transactions(scenario: Scenario) -> None:
    """BR-16: each transaction changes at most a batch, both phases get their share, oldest first, run by run (D-14)."""
    closer = scenario.closer()
    scenario.add_hanging_views(6_000)
    scenario.add_sessions(1_200)
    backlogs: list[int] = []
    sessions_before_the_last_view = 0
    outcome = RunOutcome.STOPPED
    while outcome is RunOutcome.STOPPED:
        scenario.add_sessions(20, idle=13 * MINUTE)
        report = closer.run(batch_size=50, max_run_duration=timedelta(seconds=0.2)).report
        outcome = report.outcome
        assert report.backlog_remaining is not None
        if report.backlog_remaining.views:
            sessions_before_the_last_view += report.closed_sessions
        backlogs.append(report.backlog_remaining.views + report.backlog_remaining.sessions)
        _assert_oldest_first(scenario)
    assert outcome is RunOutcome.COMPLETED
    assert sessions_before_the_last_view > 0, "both phases get their share of a run"
    assert len(backlogs) > 1
    assert backlogs == sorted(set(backlogs), reverse=True), "the backlog falls from run to run"
    assert backlogs[-1] == 0
    for table, limit in (("property_object_views", 50), ("sessions", 1)):
        assert _largest_transaction(scenario, table) == limit
    assert {
        one.closed_sessions for one in closer.observation.of(TransactionCommitted) if one.phase is Phase.STALE_SESSIONS
    } <= {1}


def _assert_oldest_first(scenario: Scenario) -> None:
    for table in ("sessions", "property_object_views"):
        assert scenario.value(
            f"""select coalesce(
                    max(last_activity_at) filter (where status = 'Inactive')
                        < min(last_activity_at) filter (where status = 'Active'),
                    true)
                from user_activity.{table} where last_activity_at < now() - interval '12 min'"""
        )


def _largest_transaction(scenario: Scenario, table: str) -> int:
    """How many rows of a table one transaction closed at most: a closed row's `xmin` is who closed it."""
    return int(
        scenario.value(
            f"""select max(count) from (
                    select count(*) from user_activity.{table} where status = 'Inactive' group by xmin::text
                ) as transactions"""
        )
    )


def test_br_22_candidates_that_changed_meanwhile_are_passed_over(scenario: Scenario) -> None:
    """BR-22: after the page of candidates was read, one gets a heartbeat, one is ended, one is deleted (D-03)."""
    closer = scenario.closer()
    scenario.set_trap("sessions", PAUSE)
    oldest, alive, ended, deleted, *others = scenario.add_sessions(101)
    scenario.mark(oldest)
    with scenario.paused(closer.run) as run:
        device = scenario.value("select anonymous_id from user_activity.sessions where id = %s", alive)
        start_session = StartSession(store=closer.store, identifiers=Uuid7Identifiers())
        assert SessionHeartbeat(start_session=start_session)(anonymous_id=device).id == alive
        switch_user(scenario, closer, ended)
        ended_at = _ended_at(scenario, "sessions", ended)
        scenario.execute("delete from user_activity.sessions where id = %s", deleted)
    report = run.result().report
    assert report.closed_sessions == len(others) + 1
    assert (report.failed_items, report.outcome) == (0, RunOutcome.COMPLETED)
    assert scenario.events_of([oldest, *others]) == len(others) + 1
    assert alive in scenario.active("sessions")
    assert scenario.events_of([alive, deleted]) == 0
    assert scenario.events_of([ended]) == 1, "the command's own event"
    assert _ended_at(scenario, "sessions", ended) == ended_at


def test_br_22_a_batch_that_is_tried_again_tests_each_view_again(scenario: Scenario) -> None:
    """BR-22: phase A holds its page from the selection on; rows are free only while a failed batch is taken in parts.

    The batch fails for the last view; while its first half is being closed, views of the second one change (D-05).
    """
    closer = scenario.closer()
    sessions = scenario.add_sessions(40, idle=NO_TIME, lasted=60 * MINUTE)
    views = scenario.add_views(sessions)
    alive, ended, deleted, bad = views[-4:]
    scenario.set_trap("property_object_views", f"if currval('sprung') = 2 then {PAUSE} end if;")
    scenario.mark(views[0])
    scenario.execute(
        f"alter table user_activity.outbox add constraint refuses_an_event check (aggregate_id <> '{bad}')"
    )
    scenario.quarantined = {bad}
    with scenario.paused(closer.run) as run:
        assert ViewHeartbeat(store=closer.store)(view_id=alive) is True
        switch_user(scenario, closer, sessions[views.index(ended)])
        ended_at = _ended_at(scenario, "property_object_views", ended)
        scenario.execute("delete from user_activity.property_object_views where id = %s", deleted)
    report = run.result().report
    assert (report.closed_views, report.failed_items) == (36, 1)
    assert {alive, bad} <= scenario.active("property_object_views")
    assert scenario.events_of([alive, deleted, bad]) == 0
    assert scenario.events_of([ended]) == 1
    assert _ended_at(scenario, "property_object_views", ended) == ended_at


def _ended_at(scenario: Scenario, table: str, row_id: UUID) -> object:
    return scenario.value(f"select ended_at from user_activity.{table} where id = %s", row_id)


def test_br_49_the_sessions_own_last_activity_decides(scenario: Scenario) -> None:
    """BR-49: a fresh view does not keep a silent session open; it closes at its own last activity, for good."""
    closer = scenario.closer()
    [session] = scenario.add_sessions(1, idle=13 * MINUTE)
    [fresh] = scenario.add_views([session], idle=timedelta(seconds=20), lasted=5 * MINUTE)
    [hanging] = scenario.add_views([session], idle=14 * MINUTE)
    report = closer.run().report
    assert (report.closed_sessions, report.closed_views) == (1, 2)
    assert scenario.events_of([session, fresh, hanging]) == 3
    duration = "select duration from user_activity.property_object_views where id = %s"
    assert scenario.value(duration, fresh) == 5 * MINUTE
    assert ViewHeartbeat(store=closer.store)(view_id=fresh) is False
    assert not scenario.active("property_object_views")


def test_br_50_times_ahead_of_the_clock(scenario: Scenario) -> None:
    """BR-50: a last activity in the future is not silent until its time has come; `EndedAt` is when the row closed.

    A creation in the future makes the duration negative: that row is quarantined, as in BR-04.
    """
    closer = scenario.closer()
    [ahead] = scenario.add_sessions(1, idle=-120 * MINUTE, lasted=150 * MINUTE)
    [damaged] = scenario.add_sessions(1, idle=20 * MINUTE, lasted=-30 * MINUTE)
    [silent] = scenario.add_sessions(1)
    [view] = scenario.add_views([silent], idle=-120 * MINUTE, lasted=125 * MINUTE)
    scenario.quarantined = {damaged}
    before = scenario.value("select clock_timestamp()")
    report = closer.run().report
    assert (report.closed_sessions, report.closed_views, report.failed_items) == (1, 1, 1)
    assert scenario.active("sessions") == {ahead, damaged}
    [(ended_at, duration)] = scenario.execute(
        "select ended_at, duration from user_activity.property_object_views where id = %s", view
    )
    assert duration == 125 * MINUTE
    assert before <= ended_at <= scenario.value("select clock_timestamp()")
    for passed, closed in ((131, 0), (133, 1)):
        scenario.execute(
            """update user_activity.sessions
               set last_activity_at = now() + interval '120 min' - %s, created_at = now() - interval '4 h'
               where id = %s""",
            passed * MINUTE,
            ahead,
        )
        assert closer.run().report.closed_sessions == closed


def test_br_59_one_cutoff_for_the_whole_run_and_strictly_before_it(scenario: Scenario) -> None:
    """BR-59: exactly at the cutoff is not stale, and what becomes old in the middle of a run is the next run's."""
    closer = scenario.closer()
    scenario.set_trap("property_object_views", PAUSE)
    first = scenario.add_hanging_views(1)
    scenario.mark(*first)
    offsets = [timedelta(microseconds=offset) for offset in (-1, 0, 1)]
    with scenario.paused(partial(closer.run, batch_size=1)) as run:
        [started] = closer.observation.of(JobStarted)
        rows = {}
        for table, added in (
            ("sessions", scenario.add_sessions(3)),
            ("property_object_views", scenario.add_views(scenario.add_sessions(3, idle=NO_TIME, lasted=60 * MINUTE))),
        ):
            for row_id, offset in zip(added, offsets, strict=True):
                scenario.execute(
                    f"""update user_activity.{table} set last_activity_at = %s, created_at = now() - interval '1 h'
                        where id = %s""",
                    started.cutoff + offset,
                    row_id,
                )
            rows[table] = added
        assert scenario.value("select clock_timestamp() - interval '12 min'") > started.cutoff + offsets[-1]
    report = run.result().report
    assert (report.closed_sessions, report.closed_views) == (1, 2)
    for table, (before, exactly, after) in rows.items():
        assert before not in scenario.active(table)
        assert {exactly, after} <= scenario.active(table)
    following = closer.run().report
    assert (following.closed_sessions, following.closed_views) == (2, 2)


@pytest.mark.parametrize(("threshold", "idle_seconds"), [(12, 719), (15, 660), (15, 899)])
def test_br_59_younger_than_the_threshold_stays(scenario: Scenario, threshold: int, idle_seconds: int) -> None:
    """BR-59: there is no hidden grace, in neither direction."""
    closer = scenario.closer()
    idle = timedelta(seconds=idle_seconds)
    scenario.add_views(scenario.add_sessions(1, idle=idle), idle=idle)
    closer.run(inactivity_threshold=threshold * MINUTE)
    assert len(scenario.active("sessions")) == len(scenario.active("property_object_views")) == 1
    scenario.execute("update user_activity.sessions set last_activity_at = now()")
    scenario.execute("update user_activity.property_object_views set last_activity_at = now()")


@pytest.mark.parametrize(("threshold", "idle_seconds"), [(12, 721), (10, 660), (15, 901)])
def test_br_59_older_than_the_threshold_closes(scenario: Scenario, threshold: int, idle_seconds: int) -> None:
    """BR-59: the first run after the threshold closes the row."""
    closer = scenario.closer()
    idle = timedelta(seconds=idle_seconds)
    scenario.add_views(scenario.add_sessions(1, idle=idle), idle=idle)
    report = closer.run(inactivity_threshold=threshold * MINUTE).report
    assert (report.closed_sessions, report.closed_views) == (1, 1)

"""Reports of workers that lock rows: deadlocks, isolation, migrations beside them (BR-07, 25, 37, 40, 56)."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import psycopg
import pytest

from adapters.postgres.transaction import TransactionOptions
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.lanes import Lanes
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.ports.run_observation import RunOutcome, TransactionFailed
from tests.field_reports.scenario import MINUTE, PATIENCE_SECONDS, Scenario, wait_until

PAUSE = "perform pg_advisory_xact_lock_shared(1);"
NO_TIME = timedelta(0)
TOUCH_VIEW = "update user_activity.property_object_views set last_activity_at = now() where id = %s"
TOUCH_SESSION = "update user_activity.sessions set last_activity_at = now() where id = %s"


def test_br_07_a_heartbeat_that_locks_in_the_other_order_comes_first(scenario: Scenario) -> None:
    """BR-07: a client holds the view and then wants the session: the closer leaves both to it, and closes the others.

    Deferred, where the report's closer was a deadlock's victim.
    """
    closer = scenario.closer()
    for _ in range(10):
        others = scenario.add_sessions(20)
        [session] = scenario.add_sessions(1)
        [view] = scenario.add_views([session], idle=NO_TIME)
        with scenario.connection.transaction():
            scenario.execute(TOUCH_VIEW, view)
            report = closer.run().report
            assert (report.closed_sessions, report.deferred_sessions, report.failed_items) == (20, 1, 0)
            scenario.execute(TOUCH_SESSION, session)
        assert scenario.events_of(others) == 20
        assert scenario.events_of([session, view]) == 0
        assert session in scenario.active("sessions")


def test_br_07_a_heartbeat_between_the_closers_two_locks(scenario: Scenario) -> None:
    """BR-07: the closer has the session and not yet its view, the client has the view and waits for the session.

    This is the cycle of a deadlock; the closer does not wait for the view, so there is none (D-03).
    """
    closer = scenario.closer(role=scenario.pausing_role("property_object_views"))
    [session] = scenario.add_sessions(1)
    [view] = scenario.add_views([session], idle=NO_TIME)
    scenario.mark(view)
    with psycopg.connect(scenario.dsn) as client, ThreadPoolExecutor(1) as clients:
        client.execute("set deadlock_timeout = '50 ms'")
        with scenario.paused(closer.run) as run:
            client.execute(TOUCH_VIEW, [view])
            touched = clients.submit(client.execute, TOUCH_SESSION, [session])
            wait_until(lambda: scenario.waiting() == 2)
        assert touched.result(PATIENCE_SECONDS).rowcount == 1
        client.commit()
    assert run.result().report.deferred_sessions == 1
    assert scenario.active("sessions") == {session}
    assert scenario.events_of([session, view]) == 0


def test_br_07_a_heartbeat_of_the_view_alone_before_the_closer_locks_it(scenario: Scenario) -> None:
    """BR-07: the client's transaction ends before the closer locks the view: the closer goes by what the view is then.

    Its snapshot shows the view as it was; row and event must both have the last activity that was committed.
    """
    closer = scenario.closer(role=scenario.pausing_role("property_object_views"))
    [session] = scenario.add_sessions(1)
    [view] = scenario.add_views([session], idle=MINUTE)
    scenario.mark(view)
    with scenario.paused(closer.run) as run:
        scenario.execute(TOUCH_VIEW, view)
    assert run.result().report.closed_views == 1
    duration = scenario.value("select duration from user_activity.property_object_views where id = %s", view)
    assert duration > 4 * MINUTE - timedelta(seconds=1), "three minutes by then, and the one that the heartbeat added"


def test_br_07_whoever_comes_second_to_the_closer_waits_without_a_deadlock(scenario: Scenario) -> None:
    """BR-07: the closer holds session and view: the client waits for it, is not refused, and finds both closed."""
    closer = scenario.closer()
    scenario.set_trap("sessions", PAUSE)
    [session] = scenario.add_sessions(1)
    [view] = scenario.add_views([session], idle=NO_TIME)
    scenario.mark(session)
    with psycopg.connect(scenario.dsn) as client, ThreadPoolExecutor(1) as clients:
        client.execute("set deadlock_timeout = '50 ms'")
        with scenario.paused(closer.run) as run:
            touched = clients.submit(client.execute, f"{TOUCH_VIEW} and status = 'Active'", [view])
            wait_until(lambda: scenario.waiting() == 2)
        assert touched.result(PATIENCE_SECONDS).rowcount == 0
        assert client.execute(f"{TOUCH_SESSION} and status = 'Active'", [session]).rowcount == 0
    assert run.result().report.closed_sessions == 1


def test_br_25_a_new_column_is_not_noticed(scenario: Scenario) -> None:
    """BR-25: the statements name their columns, so a migration that adds some costs a running worker nothing."""
    closer = scenario.closer(prepared_statements="on")
    _run_until_prepared(scenario, closer.run)
    for table in ("sessions", "property_object_views", "outbox"):
        scenario.execute(f"alter table user_activity.{table} add column added_later text default 'x'")
    for _ in range(5):
        scenario.add_views(scenario.add_sessions(20), idle=NO_TIME)
        scenario.add_hanging_views(20)
        report = closer.run().report
        assert (report.closed_sessions, report.closed_views, report.failed_items) == (20, 40, 0)
    assert not closer.observation.tracebacks


def test_br_25_a_changed_column_costs_one_attempt(scenario: Scenario) -> None:
    """BR-25: a cached plan that must not change its result type (0A000) is tried again in place, once, and works.

    It fails once a connection, not once a statement: the connection goes, and its cached plans with it (D-06).
    """
    closer = scenario.closer(prepared_statements="on")
    for table in ("property_object_views", "sessions"):
        _run_until_prepared(scenario, closer.run)
        # Another precision is another type to a cached plan; no value changes.
        scenario.execute(f"alter table user_activity.{table} alter created_at type timestamptz(6)")
        scenario.add_views(scenario.add_sessions(20), idle=NO_TIME)
        scenario.add_hanging_views(20)
        report = closer.run().report
        assert (report.closed_sessions, report.closed_views, report.failed_items) == (20, 40, 0)
        assert report.outcome is RunOutcome.COMPLETED
    assert not closer.observation.of(TransactionFailed)
    outdated = [text for text in closer.observation.tracebacks if "0A000" in text]
    assert len(outdated) == len(closer.observation.tracebacks) >= 1
    assert len(outdated) <= 3, "claiming views, and claiming sessions with their views"


def _run_until_prepared(scenario: Scenario, run: Callable[[], object]) -> None:
    """So often that the driver has prepared every statement (at the fifth use, by default)."""
    for _ in range(6):
        scenario.add_views(scenario.add_sessions(2), idle=NO_TIME)
        scenario.add_hanging_views(2)
        run()


@pytest.mark.parametrize("sessions_per_transaction", [1, 5])
def test_br_37_no_plan_claims_more_than_the_limit(scenario: Scenario, sessions_per_transaction: int) -> None:
    """BR-37: with nested loops forced upon it, no transaction changes more rows than its batch, claimed = changed."""
    joins, scans = ("hashjoin", "mergejoin", "material", "memoize"), ("indexscan", "indexonlyscan", "bitmapscan")
    for kind in (*joins, *scans, "hashagg", "sort"):
        scenario.set_role_default(f"enable_{kind}", "off")
    scenario.set_role_default("jit", "off")  # what is off counts as very dear, and would be compiled
    closer = scenario.closer()
    scenario.add_hanging_views(300)
    sessions = scenario.add_sessions(100)
    scenario.add_views(sessions, idle=NO_TIME)
    report = closer.run(batch_size=5, sessions_per_transaction=sessions_per_transaction).report
    assert (report.closed_views, report.closed_sessions) == (400, 100)
    assert _rows_by_transaction(scenario, "sessions") == {sessions_per_transaction}
    # A batch of phase A, or the views of the sessions of one transaction of phase B.
    assert _rows_by_transaction(scenario, "property_object_views") == {5, sessions_per_transaction}


def _rows_by_transaction(scenario: Scenario, table: str) -> set[int]:
    """How many rows of a table each transaction closed: a closed row's `xmin` is who closed it."""
    rows = scenario.execute(f"select count(*) from user_activity.{table} where status = 'Inactive' group by xmin::text")
    return {count for (count,) in rows}


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("table", ["sessions", "property_object_views"])
def test_br_40_a_stricter_isolation_of_the_role_is_not_ours(scenario: Scenario, isolation: str, table: str) -> None:
    """BR-40: a heartbeat commits when the closer has its snapshot, but not the lock: it wins, and nothing fails.

    Under the role's own default this is 40001.
    """
    scenario.set_role_default("default_transaction_isolation", isolation)
    closer = scenario.closer(role=scenario.pausing_role(table))
    if table == "sessions":
        row, *_ = scenario.add_sessions(20)
    else:
        row, *_ = scenario.add_hanging_views(20)
    scenario.mark(row)
    with scenario.paused(closer.run) as run:
        scenario.execute(f"update user_activity.{table} set last_activity_at = now() where id = %s", row)
    report = run.result().report
    assert report.closed_sessions + report.closed_views == 19
    assert row in scenario.active(table)
    assert not closer.observation.of(TransactionFailed)
    assert report.failed_items == 0


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_br_40_two_closers_beside_heartbeats(scenario: Scenario, isolation: str) -> None:
    """BR-40: within two ticks of two instances all that is still stale is closed; no transaction fails."""
    scenario.set_role_default("default_transaction_isolation", isolation)
    closers = [scenario.closer(), scenario.closer(lanes=Lanes(2))]
    sessions = scenario.add_sessions(300)
    scenario.add_views(sessions)
    devices = [row[0] for row in scenario.execute("select anonymous_id from user_activity.sessions")]
    clients_store = scenario.closer().store
    ended = Event()

    def send_heartbeats() -> int:
        start_session = StartSession(store=clients_store, identifiers=Uuid7Identifiers())
        heartbeat, dice, sent = SessionHeartbeat(start_session=start_session), random.Random(1), 0  # noqa: S311
        while not ended.is_set():
            heartbeat(anonymous_id=dice.choice(devices))
            sent += 1
        return sent

    with ThreadPoolExecutor(3) as threads:
        heartbeats = threads.submit(send_heartbeats)
        try:
            for _ in range(2):
                runs = [threads.submit(closer.run, batch_size=50) for closer in closers]
                assert {run.result(PATIENCE_SECONDS).report.outcome for run in runs} == {RunOutcome.COMPLETED}
        finally:
            ended.set()
        assert heartbeats.result(PATIENCE_SECONDS) > 0
    assert not [failure for closer in closers for failure in closer.observation.of(TransactionFailed)]
    stale = (
        "select count(*) from user_activity.{} where status = 'Active' and last_activity_at < now() - interval '12m'"
    )
    assert scenario.value(stale.format("sessions")) == 0
    assert scenario.value(stale.format("property_object_views")) == 0
    assert scenario.active("sessions"), "the heartbeats kept some alive, or began new ones"


def test_br_56_a_migration_gets_its_lock_beside_the_closer(scenario: Scenario) -> None:
    """BR-56: transactions are short, so DDL with a lock timeout gets through in the middle of a backlog.

    Nor does the closer mind: every row is closed, none fails.
    """
    closer = scenario.closer()
    scenario.add_hanging_views(3_000)
    scenario.add_sessions(600)
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(closer.run, batch_size=100)
        scenario.execute("set lock_timeout = '3 s'")
        tables = ("property_object_views", "sessions", "outbox")
        for number in range(6):
            scenario.execute(f"alter table user_activity.{tables[number % 3]} add column added_{number} int")
        report = run.result(PATIENCE_SECONDS).report
    assert (report.closed_views, report.closed_sessions, report.failed_items) == (3_000, 600, 0)
    assert report.outcome is RunOutcome.COMPLETED


def test_br_56_the_closer_does_not_queue_behind_a_migration(scenario: Scenario) -> None:
    """BR-56: while DDL holds a table, the closer gives up after its lock timeout, says so, and does the rest it can."""
    closer = scenario.closer(transactions=TransactionOptions(lock_timeout=timedelta(milliseconds=100)))
    views, sessions = scenario.add_hanging_views(4), scenario.add_sessions(4)
    with scenario.connection.transaction():
        scenario.execute("lock table user_activity.outbox in access exclusive mode")
        report = closer.run().report
        assert (report.closed_views, report.closed_sessions) == (0, 0)
        assert {failure.kind for failure in closer.observation.of(TransactionFailed)} == {"55P03"}
        scenario.execute("lock table user_activity.property_object_views in access exclusive mode")
        assert closer.run().report.outcome is RunOutcome.FAILED
    assert scenario.events_of([*views, *sessions]) == 0
    report = closer.run().report
    assert (report.closed_views, report.closed_sessions) == (4, 4)

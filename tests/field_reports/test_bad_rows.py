"""Reports of rows that cannot be closed: each costs only itself and gives nothing away (BR-04, 05, 08, 13, 35, 43)."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from uuid import UUID, uuid4

import pytest

from adapters.postgres.transaction import TransactionOptions
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.ports.run_observation import ItemFailed, RunOutcome, TransactionCommitted, TransactionFailed
from application.ports.store_errors import TransactionRefused
from application.record_ended import record_ended
from tests.field_reports.aftermath import text_of
from tests.field_reports.scenario import MINUTE, PATIENCE_SECONDS, PERSONAL_MARKS, Closer, Scenario

NO_TIME = timedelta(0)


def damage(scenario: Scenario, table: str, row_id: UUID) -> None:
    """Lets the row have been active last a minute before it was created."""
    scenario.execute(
        f"update user_activity.{table} set created_at = last_activity_at + interval '1 min' where id = %s", row_id
    )


def lines(log: StringIO, event: str) -> list[dict[str, object]]:
    """The log's lines of that kind."""
    return [line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == event]


def test_br_04_a_negative_duration_is_quarantined(scenario: Scenario, log: StringIO) -> None:
    """BR-04: of 500 views and 100 sessions all close but the damaged ones, which stay Active, without an event.

    The same choice for sessions and views; a healthy session with a damaged view stays open as a whole (INV-LV-007),
    and each of them has one line a tick (D-05).
    """
    closer = scenario.closer()
    views = scenario.add_hanging_views(500)
    sessions = scenario.add_sessions(100)
    [damaged_view] = scenario.add_views([sessions[51]], idle=NO_TIME)
    damage(scenario, "property_object_views", views[250])
    damage(scenario, "sessions", sessions[50])
    damage(scenario, "property_object_views", damaged_view)
    scenario.quarantined = {views[250], sessions[50], sessions[51]}
    for closed in ((499, 98), (0, 0)):
        report = closer.run().report
        assert (report.closed_views, report.closed_sessions) == closed
        assert (report.failed_items, report.outcome) == (3, RunOutcome.COMPLETED)
    assert scenario.events_of(views) == 499
    assert scenario.events_of([*sessions, damaged_view]) == 98
    assert scenario.active("property_object_views") == {views[250], damaged_view}
    said = Counter((line["id"], line["kind"]) for line in lines(log, "item failed"))
    assert said == {(str(row), "negative_duration"): 2 for row in scenario.quarantined}


def poison(scenario: Scenario, count: int) -> list[UUID]:
    """Sessions at the head of the order that a trigger refuses to close."""
    scenario.set_trap("sessions", "raise exception 'refused';")
    sessions = scenario.add_sessions(count, idle=60 * MINUTE, step=timedelta(seconds=8))
    scenario.mark(*sessions)
    return sessions


def attempts(closer: Closer) -> Counter[UUID]:
    """How often each row was said to have failed."""
    return Counter(failure.id for failure in closer.observation.of(ItemFailed))


def test_br_05_poison_at_the_head_does_not_starve_the_healthy(scenario: Scenario, log: StringIO) -> None:
    """BR-05: 150 poison rows before 1,000 healthy ones: tick 1 closes all the healthy ones, one attempt a poison row.

    After 100 failures in a row the newest row is tried: it closes, so the store is not in doubt (D-06). With nothing
    but poison left it does not close, and the run ends as failed; the next tick tries again.
    """
    closer = scenario.closer()
    bad, healthy = poison(scenario, 150), scenario.add_sessions(1_000)
    report = closer.run(batch_size=100).report
    assert (report.closed_sessions, report.failed_items, report.outcome) == (1_000, 150, RunOutcome.COMPLETED)
    assert report.backlog_remaining is not None
    assert report.backlog_remaining.sessions == 150
    assert scenario.events_of(healthy) == 1_000
    assert attempts(closer) == dict.fromkeys(bad, 1)
    assert scenario.times_sprung() == 150
    for tick in (2, 3):
        report = closer.run(batch_size=100).report
        assert (report.closed_sessions, report.failed_items, report.outcome) == (0, 100, RunOutcome.FAILED)
        assert attempts(closer) == dict.fromkeys(bad[:100], tick) | dict.fromkeys(bad[100:], 1)
        assert scenario.times_sprung() == 150 + 101 * (tick - 1), "a hundred of them, and the newest"
    assert len(lines(log, "item failed")) == 350
    scenario.remove_trap("sessions")
    assert closer.run().report.closed_sessions == 150


def test_br_05_healthy_rows_that_come_later_are_not_starved_either(scenario: Scenario) -> None:
    """BR-05: more poison than the limit of D-06 and some new healthy rows at each tick: each tick closes them all."""
    closer = scenario.closer()
    bad = poison(scenario, 230)
    for tick in (1, 2, 3):
        scenario.add_sessions(10)
        report = closer.run(batch_size=100).report
        # The newest row is tried at the 100th and at the 200th failure; it is healthy, and closes.
        assert (report.closed_sessions, report.failed_items, report.outcome) == (10, 230, RunOutcome.COMPLETED)
        assert attempts(closer) == dict.fromkeys(bad, tick)
    scenario.remove_trap("sessions")
    assert closer.run().report.closed_sessions == 230


def test_br_05_four_instances_try_a_poison_row_at_most_four_times_a_tick(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    """BR-05: one attempt a row, tick and instance is what we promise; each healthy row is closed once."""
    bad, healthy = poison(scenario, 60), scenario.add_sessions(400)
    closers = [scenario.closer() for _ in range(4)]
    for tick in (1, 2, 3):
        with ThreadPoolExecutor(4) as threads:
            runs = [threads.submit(closer.run, batch_size=100) for closer in closers]
            closed = sum(run.result(PATIENCE_SECONDS).report.closed_sessions for run in runs)
        assert closed == (len(healthy) if tick == 1 else 0)
        total = sum((attempts(closer) for closer in closers), Counter[UUID]())
        assert set(total) == set(bad)
        assert max(total.values()) <= 4 * tick
        record_property(f"attempts after tick {tick}", (total.total(), "of rows", len(total)))
        assert scenario.times_sprung() == total.total()
    scenario.remove_trap("sessions")
    assert closers[0].run().report.closed_sessions == 60


SPEAKS = """raise exception using
    message = 'no ' || new.anonymous_id, detail = new.user_id::text, hint = new.device_ip_address, {};"""
REFUSALS = {
    "check": ("new.duration := interval '-1 s';", "", "23514", "constraint chk_sessions_duration_nonneg"),
    "own check": ("", "add constraint never check (status = 'Active')", "23514", "CheckViolation: constraint never"),
    "not null": ("new.status := null;", "", "23502", "NotNullViolation: table sessions, column status"),
    "cast": ("", "add check (status = 'Active' or device_ip_address::int > 0) not valid", "22P02", "InvalidText"),
    "trigger": (SPEAKS.format("errcode = 'P0001'"), "", "P0001", "RaiseException: function trap_sessions"),
    "trigger's own state": (SPEAKS.format("errcode = 'ZZ001'"), "", "ZZ001", "ZZ001"),
    "trigger that says 42P01": (SPEAKS.format("errcode = '42P01'"), "", "42P01", "UndefinedTable"),
    "trigger that says 40001": (SPEAKS.format("errcode = '40001'"), "", "40001", "SerializationFailure"),
    "trigger that keeps the row": (
        "return null;",
        "",
        "not_changed",
        "a trigger kept a row from being written as asked",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_br_08_what_the_server_says_of_a_row_stays_with_the_server(
    scenario: Scenario, log: StringIO, refusal: str
) -> None:
    """BR-08: the line has the row's id, the SQLSTATE and the names of what refused it, and nothing of the row.

    That no sink has more, tracebacks included, is what holds after every scenario.
    """
    action, alteration, kind, words = REFUSALS[refusal]
    closer = scenario.closer()
    [session] = scenario.add_sessions(1)
    scenario.set_trap("sessions", action)
    scenario.mark(session)
    if alteration:
        scenario.execute(f"alter table user_activity.sessions {alteration}")
    scenario.quarantined = {session}
    assert closer.run().report.failed_items == 1
    [line] = lines(log, "item failed")
    assert (line["id"], line["kind"]) == (str(session), kind)
    assert words in str(line["error"])
    assert closer.observation.tracebacks


def test_br_08_nor_does_the_error_itself_tell(scenario: Scenario) -> None:
    """BR-08: text, arguments and traceback of the error are free of the row; the driver's is not chained to it.

    A violated unique index names the values of its key, here those of an event's payload.
    """
    closer = scenario.closer()
    [session] = scenario.add_sessions(1)
    scenario.add_views([session], idle=NO_TIME)
    scenario.execute("create unique index one_event_a_device on user_activity.outbox ((payload ->> 'anonymousId'))")
    with pytest.raises(TransactionRefused, match="UniqueViolation") as raised:
        _close_by_hand(closer, session)
    assert not [mark for mark in PERSONAL_MARKS if mark in text_of(raised.value)]
    scenario.quarantined = {session}


def _close_by_hand(closer: Closer, session_id: UUID) -> None:
    now = closer.store.clock.read()
    with closer.store.begin() as unit_of_work:
        [row] = unit_of_work.stale_sessions.claim([session_id], now).rows
        record_ended(
            unit_of_work, row.close(now), identifiers=Uuid7Identifiers(), correlation_id=uuid4(), trace_parent=None
        )
        unit_of_work.commit()


def test_br_13_a_nul_that_jsonb_cannot_hold_costs_its_own_row(scenario: Scenario, log: StringIO) -> None:
    """BR-13: where the filter is `json`, one with U+0000 cannot be an event's payload: its row is quarantined.

    The other 499 views of the batch close; an escaped backslash before `u0000` is text like any other, and unchanged.
    """
    scenario.execute("alter table user_activity.property_object_views alter filter_snapshot type json")
    closer = scenario.closer()
    views = scenario.add_hanging_views(500)
    bad, literal = views[250], views[251]
    for view, text in ((bad, r'{"ua": "a\u0000b"}'), (literal, r'{"ua": "a\\u0000b"}')):
        scenario.execute(
            "update user_activity.property_object_views set filter_snapshot = %s where id = %s", text, view
        )
    scenario.quarantined = {bad}
    for closed in (499, 0):
        report = closer.run().report
        assert (report.closed_views, report.failed_items, report.outcome) == (closed, 1, RunOutcome.COMPLETED)
    assert attempts(closer) == {bad: 2}
    assert {line["kind"] for line in lines(log, "item failed")} == {"22P05"}
    assert "25P02" not in log.getvalue()
    [(filter_snapshot,)] = scenario.execute(
        "select payload -> 'filterSnapshot' from user_activity.outbox where aggregate_id = %s", literal
    )
    assert filter_snapshot == {"ua": r"a\u0000b"}


def test_br_35_a_batch_that_is_too_slow_is_closed_in_smaller_pieces(scenario: Scenario, log: StringIO) -> None:
    """BR-35: each tick makes progress under a statement timeout that no whole batch meets.

    A session that is too big for one transaction cannot be split: it is an `item failed`, and the others go on.
    """
    closer = scenario.closer(transactions=TransactionOptions(statement_timeout=timedelta(milliseconds=300)))
    scenario.set_trap("property_object_views", "perform pg_sleep(0.008);")
    views = scenario.add_hanging_views(200)
    [big] = scenario.add_sessions(1, idle=60 * MINUTE)
    others = scenario.add_sessions(5)
    in_big = scenario.add_views([big] * 80, idle=NO_TIME)
    scenario.mark(*views, *in_big)
    report = closer.run(batch_size=100).report
    assert (report.closed_views, report.closed_sessions, report.failed_items) == (200, 5, 1)
    assert scenario.events_of([*views, *others]) == 205
    assert attempts(closer) == {big: 1}
    assert {line["kind"] for line in lines(log, "item failed")} == {"57014"}
    assert {failure.kind for failure in closer.observation.of(TransactionFailed)} == {"57014"}
    assert {failure.rows for failure in closer.observation.of(TransactionFailed)} >= {100, 50}
    scenario.remove_trap("property_object_views")
    scenario.add_hanging_views(100)
    report = closer.run(batch_size=100).report
    assert (report.closed_views, report.closed_sessions, report.failed_items) == (180, 1, 0)
    sizes = {one.closed_views for one in closer.observation.of(TransactionCommitted)}
    assert {80, 100} <= sizes, "the size recovers: nothing of it is remembered"


def test_br_43_an_error_that_nobody_can_write_down(scenario: Scenario, log: StringIO) -> None:
    """BR-43: a message of 10 kB with control characters and a lone surrogate is neither stored nor printed.

    The failure is one line of JSON, short and printable; it happens in a transaction of its own, so no later
    statement of the failed one is sent (25P02). The worker lives, tick by tick.
    """
    closer = scenario.closer()
    message = r"repeat('x', 10000) || E'\x1b[31m\n\t' || '\ud800' || new.device_ip_address"
    scenario.set_trap("sessions", f"raise exception using message = {message}, errcode = 'ZZ001';")
    sessions, views = scenario.add_sessions(50), scenario.add_hanging_views(50)
    scenario.set_trap("property_object_views", "raise exception using message = '', errcode = '22021';")
    bad = {sessions[20], views[20]}
    scenario.mark(*bad)
    scenario.quarantined = bad
    for closed in ((49, 49), (0, 0), (0, 0)):
        report = closer.run().report
        assert (report.closed_sessions, report.closed_views) == closed
        assert (report.failed_items, report.outcome) == (2, RunOutcome.COMPLETED)
    said = lines(log, "item failed")
    assert Counter(line["id"] for line in said) == {str(row): 3 for row in bad}
    assert {str(line["error"]).isprintable() and len(str(line["error"])) <= 200 for line in said} == {True}
    assert {line["kind"] for line in said} == {"ZZ001", "22021"}
    assert "25P02" not in log.getvalue()

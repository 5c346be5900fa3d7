"""By force: nothing is closed twice, nothing is lost, whatever is killed, cut or suspended (§2, §9)."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final, LiteralString
from uuid import UUID

import pytest

from adapters.postgres.store import PostgresActivityStore
from application.online.link_session import LinkSession
from tests.databases import bin_directory
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Program
from tests.force.ledger import Ledger
from tests.force.rounds import Force
from tests.force.visitors import NotedIdentifiers

ROUNDS: Final = 8
"""Each misfortune comes twice."""

AMONG_CLOSED: Final[Sequence[LiteralString]] = (
    "delete from user_activity.outbox where aggregate_id = %(row_id)s",
    """
        insert into user_activity.outbox
            (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id,
             occurred_at)
        select gen_random_uuid(), aggregate_type, aggregate_id, event_type, contract_version, topic, payload,
               correlation_id, occurred_at
        from user_activity.outbox where aggregate_id = %(row_id)s""",
    """
        update user_activity.property_object_views set status = 'Active', ended_at = null, duration = null
        where id = %(row_id)s""",
    """
        update user_activity.property_object_views set duration = duration + interval '1 s' where id = %(row_id)s""",
)
"""What a meddler does to one closed view each."""

LONG_AGO: Final[Sequence[LiteralString]] = (
    "update user_activity.sessions set ended_at = ended_at - interval '1 min'",
    "update user_activity.property_object_views set ended_at = ended_at - interval '1 min'",
    "update user_activity.outbox set occurred_at = occurred_at - interval '1 min'",
)

MEDDLING: Final[Mapping[str, LiteralString]] = {
    "an event is deleted": """
        delete from user_activity.outbox where id = (select id from user_activity.outbox limit 1)""",
    "an event is there twice": """
        insert into user_activity.outbox
            (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id,
             occurred_at)
        select gen_random_uuid(), aggregate_type, aggregate_id, event_type, contract_version, topic, payload,
               correlation_id, occurred_at
        from user_activity.outbox limit 1""",
    "an event is another one": "update user_activity.outbox set id = gen_random_uuid()",
    "a closed row is opened again": """
        update user_activity.sessions set status = 'Active', ended_at = null, duration = null,
                                          last_activity_at = clock_timestamp()""",
    "a closed row is changed": """
        update user_activity.sessions set last_activity_at = last_activity_at + interval '1 s',
                                          duration = duration + interval '1 s'""",
    "a closed row is gone": "delete from user_activity.property_object_views",
}


@pytest.mark.slow
def test_no_round_breaks_a_promise() -> None:
    """After each round all that was stale is closed, with one event a row, and what was promised before still holds."""
    force = Force(seed=20261204, bin_directory=bin_directory())
    violations = [violation for one in force.play(ROUNDS) for violation in one.violations]
    assert not violations, f"seed {force.figures.seed}"
    idle = [name for name, count in force.figures.misfortunes.items() if count == 0]
    assert not idle, "a misfortune without effect proves nothing"
    assert len(force.figures.misfortunes) == ROUNDS
    assert force.figures.events == force.figures.closed > 0
    assert force.figures.calls > force.figures.failed_calls > 0


@pytest.mark.slow
def test_a_meddler_is_found_in_the_next_round() -> None:
    """A violation amid the rounds is told with its seed and its round, row by row."""
    force = Force(seed=7, bin_directory=bin_directory())
    rounds = force.play(2)
    assert not next(rounds).violations
    tables = ActivityTables(force.dsn)
    rows = tables.execute(
        "select id from user_activity.property_object_views where status = 'Inactive' limit %(count)s",
        count=len(AMONG_CLOSED),
    )
    for statement, (row_id,) in zip(AMONG_CLOSED, rows, strict=True):
        tables.execute(statement, row_id=row_id)
    [second] = rounds
    found = [[one for one in second.violations if f" {row_id}: " in one] for (row_id,) in rows]
    assert all(found)
    assert all(one.startswith("seed 7, round 2: ") for one in second.violations)
    assert force.figures.violations == len(second.violations) == sum(map(len, found)), "nothing else is found"


@pytest.mark.parametrize("statement", MEDDLING.values(), ids=MEDDLING)
def test_what_somebody_meddled_with_is_found(database: str, statement: LiteralString) -> None:
    """A look back that cannot fail proves nothing."""
    tables, ledger = ActivityTables(database), Ledger()
    tables.add_sessions(3, views=1)
    with Program("run", "--once", database_url=database) as program:
        assert program.ending().exit_code == 0
    assert not ledger.check(tables)
    tables.execute(statement)
    assert ledger.check(tables)


def test_a_heartbeat_that_was_lost_is_found(database: str) -> None:
    """What a visitor was told was recorded has to be there."""
    tables, ledger = ActivityTables(database), Ledger()
    tables.add_sessions(1)
    [(session_id, now)] = tables.execute("select id, clock_timestamp() from user_activity.sessions")
    assert not ledger.check(tables)
    ledger.acknowledge(session_id, now)
    assert ledger.check(tables)


def test_a_row_that_goes_on_after_its_end_was_told_is_found(database: str) -> None:
    """A visitor who was told that it is over has to be right, at any time."""
    tables, ledger = ActivityTables(database), Ledger()
    tables.add_sessions(1)
    [(session_id,)] = tables.execute("select id from user_activity.sessions")
    assert not ledger.look(tables)
    ledger.end(session_id)
    assert ledger.look(tables)


def test_half_a_switch_is_found(database: str) -> None:
    """A command whose answer was lost may have done all or nothing: a session that it closed has its successor."""
    tables, ledger = ActivityTables(database), Ledger()
    tables.add_sessions(4)
    rows = tables.execute("select id, anonymous_id from user_activity.sessions where user_id is not null")
    with closing(PostgresActivityStore(database)) as store:
        link = LinkSession(store=store, identifiers=NotedIdentifiers(ledger))
        torn, whole = [(row_id, link(anonymous_id=device, user_id=UUID(int=1)).session.id) for row_id, device in rows]
    tables.execute("delete from user_activity.sessions where id = %(row_id)s", row_id=torn[1])
    [violation] = ledger.check(tables)
    assert str(torn[0]) in violation
    assert str(whole[0]) not in violation


def test_what_is_settled_is_removed_and_still_watched(database: str) -> None:
    """Rows that have long been closed, and were checked, go with their events; an event that comes later is found."""
    tables, ledger = ActivityTables(database), Ledger()
    tables.add_sessions(3, views=2)
    with Program("run", "--once", database_url=database) as program:
        assert program.ending().exit_code == 0
    for statement in LONG_AGO:
        tables.execute(statement)
    ledger.settle(tables)
    assert ledger.settled_rows == 0, "nobody has looked at them yet"
    assert not ledger.check(tables)
    tables.execute("create table kept as select * from user_activity.outbox limit 1")
    ledger.settle(tables)
    assert (ledger.settled_rows, ledger.settled_events) == (9, 9)
    assert (tables.closed(), tables.counts().events) == (0, 0)
    assert not ledger.check(tables)
    tables.execute("update kept set occurred_at = clock_timestamp()")
    tables.execute("insert into user_activity.outbox overriding system value select * from kept")
    assert ledger.check(tables)

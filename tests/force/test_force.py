"""By force: nothing is closed twice, nothing is lost, whatever is killed, cut or suspended (§2, §9)."""

from collections.abc import Mapping
from typing import Final, LiteralString

import pytest

from tests.databases import bin_directory
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Program
from tests.force.ledger import Ledger
from tests.force.rounds import Force

ROUNDS: Final = 8
"""Each misfortune comes twice."""

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

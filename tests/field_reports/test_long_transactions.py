"""Reports of transactions that stay open beside the closer, and of subtransactions that slow them (BR-20, 52)."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import ClientCursor, IsolationLevel

from adapters.postgres.statements import statement
from application.ports.run_observation import BatchProcessed, Phase, TransactionCommitted
from tests.field_reports.scenario import Closer, Scenario

_BEGINNING = ("-infinity", "00000000-0000-0000-0000-000000000000")


class AfterPages:
    """Wishes the run to end when it has dealt with so many pages."""

    def __init__(self, closer: Closer, pages: int) -> None:
        self._observation = closer.observation
        self._pages = pages

    def requested(self) -> bool:
        return len(self._observation.of(BatchProcessed)) >= self._pages


def _buffers(scenario: Scenario, name: str, after: tuple[object, object], limit: int) -> int:
    """How many buffers the selection of the page after that row reads, wherever it finds them."""
    parameters = {
        "cutoff": scenario.value("select now() - interval '12 min'"),
        "after_last_activity_at": after[0],
        "after_id": after[1],
        "limit": limit,
    }
    with scenario.connection.transaction(force_rollback=True):
        explained = ClientCursor(scenario.connection).execute(
            b"explain (analyze, buffers, format json) " + statement(name).encode(), parameters
        )
        [([plan],)] = explained.fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize(
    ("table", "name"),
    [("property_object_views", "claim_hanging_views_page"), ("sessions", "find_stale_sessions")],
)
def test_br_20_the_last_page_costs_what_the_first_did_under_a_held_snapshot(
    scenario: Scenario, table: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    """BR-20: dead rows that a forgotten transaction keeps are passed once, not again with each page (D-04).

    In buffers, not in time: the last of the pages reads at most three times what the first one did, where a selection
    from the start would read them all.
    """
    limit, pages = 50, 80
    if table == "sessions":
        rows = scenario.add_sessions(limit * (pages + 1))
    else:
        rows = scenario.add_hanging_views(limit * (pages + 1))
    scenario.execute(f"analyze user_activity.{table}")
    closer = scenario.closer()
    with psycopg.connect(scenario.dsn) as forgotten:
        forgotten.isolation_level = IsolationLevel.REPEATABLE_READ
        forgotten.execute(f"select count(*) from user_activity.{table}")
        first = _buffers(scenario, name, _BEGINNING, limit)
        # The run of sessions deals with an empty page of views before its own.
        closer.run(
            batch_size=limit,
            sessions_per_transaction=limit,
            cancellation=AfterPages(closer, pages + (table == "sessions")),
        )
        assert scenario.active(table) == set(rows[-limit:]) | (scenario.active(table) - set(rows))
        [passed] = scenario.execute(
            f"select last_activity_at, id from user_activity.{table} where id = %s", rows[-limit - 1]
        )
        last = _buffers(scenario, name, passed, limit)
        from_the_start = _buffers(scenario, name, _BEGINNING, limit)
    record_property("buffers: first page, last page, last page from the start", (first, last, from_the_start))
    assert last <= 3 * first
    assert from_the_start > 2 * last, "the scenario bites"


def test_br_52_bad_rows_are_found_without_subtransactions(scenario: Scenario) -> None:
    """BR-52: the batch is taken in parts, each a transaction of its own, and no savepoint is ever set.

    A row written in a subtransaction carries its id as `xmin`, a closed row and its event the same one otherwise: there
    are as many of them as commits. Servers that can tell (from 16 on) never see a subtransaction in the batch.
    """
    closer = scenario.closer()
    views = scenario.add_hanging_views(100)
    bad = set(views[30:90:20])
    refused = ", ".join(f"'{view}'" for view in bad)
    scenario.execute(
        f"alter table user_activity.outbox add constraint refuses_events check (aggregate_id not in ({refused}))"
    )
    if scenario.connection.info.server_version >= 160_000:
        scenario.execute("create table subtransactions (count int, overflowed boolean)")
        sample = """
            perform pg_stat_clear_snapshot();
            insert into subtransactions
            select seen.* from pg_stat_get_backend_idset() as backend, pg_stat_get_backend_subxact(backend) as seen
            where pg_stat_get_backend_pid(backend) = pg_backend_pid();"""
        scenario.set_trap("property_object_views", sample)
        scenario.mark(*views)
    scenario.quarantined = bad
    with psycopg.connect(scenario.dsn) as forgotten:
        forgotten.isolation_level = IsolationLevel.REPEATABLE_READ
        forgotten.execute("select count(*) from user_activity.property_object_views")
        report = closer.run().report
    assert (report.closed_views, report.failed_items) == (97, 3)
    commits = [one for one in closer.observation.of(TransactionCommitted) if one.phase is Phase.HANGING_VIEWS]
    closings = "select distinct xmin::text from user_activity.property_object_views where status = 'Inactive'"
    events = "select distinct xmin::text from user_activity.outbox"
    assert sorted(scenario.execute(closings)) == sorted(scenario.execute(events))
    assert len(scenario.execute(events)) == sum(one.closed_views > 0 for one in commits)
    if scenario.connection.info.server_version >= 160_000:
        assert scenario.execute("select count, overflowed, count(*) from subtransactions group by 1, 2") == [
            (0, False, 97)
        ]

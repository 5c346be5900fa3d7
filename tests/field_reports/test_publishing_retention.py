"""BR-47: delivered events that pile up, or are removed in great number, are in nobody's way, and nothing else goes."""

from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.outbox_store import PostgresOutboxStore
from tests.brokers import Broker
from tests.end_to_end.program import wait_until
from tests.field_reports.publishing import publishing_scenario
from tests.postgres.outbox_rows import fill_outbox, ids_in
from tests.postgres.test_query_plans import Hot, nodes, plan_of

OLD: Final = 29_500
PENDING: Final = 1_000
STUCK: Final = 100
IS_OLD: Final = "published_at < clock_timestamp() - interval '7 days'"
STEP_MAX: Final = 5_000
STEP: Final = 2_000
BUFFERS_MAX: Final = 200
"""For a probe of all slices, or for a page of 400 events."""

_NOW: Final = datetime(2027, 1, 1, tzinfo=UTC)
_LEASE: Final = UUID(int=1)
_SEEKING: Final[dict[str, Any]] = {
    "lease": _LEASE,
    "now": _NOW,
    "starts": [UUID(int=0)] * 16,
    "held_topics": ["held"],
    "held_ids": [UUID(int=2)],
}
_POLLING: Final = (
    Hot(name="lease_slices", values=_SEEKING | {"ends": _NOW, "turn": 7, "slices_max": 4}, touched_max=0),
    Hot(name="read_due_events", values=_SEEKING | {"limit": 400}, touched_max=0),
)
_REMOVAL: Final = Hot(name="remove_published_events", values={"before": _NOW, "limit": STEP}, touched_max=0)


@pytest.fixture
def outbox(database: str) -> str:
    """A database with events that were delivered long ago, and some that have been pending for as long."""
    with psycopg.connect(database) as connection:
        connection.execute("alter table user_activity.outbox set (autovacuum_enabled = off)")
    fill_outbox(database, OLD + PENDING, published=OLD)
    return database


@pytest.mark.slow
def test_removal_goes_on_beside_delivery(outbox: str, broker: Broker) -> None:
    """BR-47: old events go in small steps, new ones are delivered meanwhile, and no other one is removed.

    Some of those that are pending just as long stay so, for want of their topic. The original has 2,000,000 old events,
    200 new ones a second, and 10 minutes.
    """
    with publishing_scenario(outbox, broker) as publishing:
        publishing.tables.execute("update user_activity.outbox set topic = %(topic)s", topic=publishing.topic)
        pending = ids_in(outbox, "published_at is null")
        stuck = set(sorted(pending)[:STUCK])
        publishing.tables.execute(
            "update user_activity.outbox set topic = topic || '.missing' where id = any(%(ids)s)", ids=list(stuck)
        )
        with publishing.publisher(publish_polling_interval="100ms", outbox_retention="7d") as program:
            program.wait_for("publisher started")
            new = publishing.append_at_a_rate(per_second=20, until=lambda: publishing.count(IS_OLD) == 0)
            wait_until(lambda: publishing.pending() == STUCK)
            [ended] = publishing.end(program)
        steps = [line["events"] for line in ended.log if line["event"] == "published events removed"]
        assert (sum(steps), max(steps) <= STEP_MAX) == (OLD, True), steps
        assert publishing.latency_seconds(new) < 2
        assert publishing.arrivals() == dict.fromkeys([*map(str, pending - stuck), *new], 1)
        assert publishing.published() == PENDING - STUCK + len(new)
        assert ids_in(outbox, "published_at is null") == stuck


def test_old_events_make_no_statement_dearer(outbox: str) -> None:
    """BR-47: polling reads pending events alone, by their index; a later step of the removal costs what the first did.

    That holds beside somebody's old snapshot, which keeps all that is removed. Nothing is judged by time.
    """
    pending = ids_in(outbox, "published_at is null")
    with (
        psycopg.connect(outbox, autocommit=True) as connection,
        psycopg.connect(outbox) as holder,
        closing(PostgresOutboxStore(outbox)) as store,
    ):
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select count(*) from user_activity.outbox")
        assert pages(connection) > 4 * BUFFERS_MAX
        first = buffers(connection, _REMOVAL)
        steps = OLD // STEP - 1
        for _ in range(steps):
            assert_polling_is_cheap(connection)
            with store.begin() as unit_of_work:
                assert unit_of_work.upkeep.remove_published(_NOW, STEP) == STEP
                unit_of_work.commit()
            assert buffers(connection, _REMOVAL) < 1.5 * first
        assert_polling_is_cheap(connection)
    assert len(ids_in(outbox, IS_OLD)) == OLD - steps * STEP
    assert ids_in(outbox, "published_at is null") == pending


def pages(connection: psycopg.Connection) -> int:
    """How large the outbox is."""
    row = connection.execute("select pg_relation_size('user_activity.outbox') / 8192").fetchone()
    assert row is not None
    return int(row[0])


def buffers(connection: psycopg.Connection, statement: Hot) -> int:
    """How many buffers a statement takes; what it does is undone."""
    plan = plan_of(connection, statement, "auto")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def assert_polling_is_cheap(connection: psycopg.Connection) -> None:
    """With a plan for the values and with one for any values."""
    with connection.transaction(force_rollback=True):
        connection.execute(
            "update user_activity.outbox_slices set lease = %s, leased_until = 'infinity' where slice < 4", [_LEASE]
        )
        for statement in _POLLING:
            for plan_cache_mode in ("force_custom_plan", "force_generic_plan"):
                plan = plan_of(connection, statement, plan_cache_mode)
                assert plan["Actual Rows"] > 0
                assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= BUFFERS_MAX, plan
                used = {node["Index Name"] for node in nodes(plan) if node.get("Relation Name") == "outbox"}
                assert used == {"ix_outbox_pending"}

"""What only PostgreSQL can show: the plans of the publisher's statements, and what a held snapshot does to them.

As with the closer's statements, what counts are the rows that a plan touches, with a plan made for the values and with
that for any values: not many more than it has to answer with, however many have been delivered before.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from adapters.postgres.connections import Connections
from adapters.postgres.deliveries import FROM_THE_BEGINNING, LEASED_MAX, SLICES, SliceProgress
from adapters.postgres.outbox_store import PostgresOutboxUnitOfWork
from adapters.postgres.transaction import Transaction, TransactionOptions
from application.ports.deliveries import Held, Lease, PendingMessage
from tests.databases import PostgresServer
from tests.postgres.outbox_rows import fill_outbox
from tests.postgres.test_query_plans import Hot, nodes, plan_of, touched_by

PUBLISHED = 200_000
PENDING = 1_000
DEAD = 100
LIMIT = 400
_NOW = datetime(2027, 1, 1, tzinfo=UTC)
_LEASE = UUID("01942000-0000-7000-8000-000000000005")
_PAST_ALL = [UUID(int=2**128 - SLICES + number) for number in range(SLICES)]
_PENDING_INDEX = ("ix_outbox_pending",)
_DEAD_INDEX = ("ix_outbox_dead",)


@pytest.fixture(scope="module")
def connection(postgres_server: PostgresServer, migrated_template: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with the seeded events, which no test changes."""
    name = postgres_server.create_database(migrated_template)
    dsn = postgres_server.dsn(name)
    fill_outbox(dsn, PUBLISHED + PENDING + DEAD, published=PUBLISHED)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(
            "update user_activity.outbox set dead_at = occurred_at, cause = 'too_large'"
            " where id in (select id from user_activity.outbox where published_at is null order by id desc limit %s)",
            [DEAD],
        )
        lease_four_slices(connection)
        connection.execute("vacuum analyze user_activity.outbox")
        yield connection
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def pending_ids(connection: psycopg.Connection) -> list[UUID]:
    """The pending events, in order."""
    rows = connection.execute(
        "select id from user_activity.outbox where published_at is null and dead_at is null order by id"
    ).fetchall()
    assert len(rows) == PENDING
    return [row[0] for row in rows]


def hot_statements(ids: Sequence[UUID]) -> dict[str, Hot]:
    """Every statement of a round and of its operator, by a name that says with which values."""
    return _of_deliveries(ids) | _of_upkeep(ids)


def _of_deliveries(ids: Sequence[UUID]) -> dict[str, Hot]:
    refusals = {"ids": ids[:10], "refusals": [1] * 10, "causes": ["too_large"] * 10, "next_attempts_at": [_NOW] * 10}
    return {
        # The slices to look at and again to lease, and the first event of each.
        "leasing slices": Hot(
            name="lease_slices", values=leasing(FROM_THE_BEGINNING), touched_max=3 * SLICES, indexes=_PENDING_INDEX
        ),
        "leasing nothing": Hot(
            name="lease_slices", values=leasing(_PAST_ALL), touched_max=2 * SLICES, indexes=_PENDING_INDEX
        ),
        "pages of events": Hot(
            name="read_due_events",
            values=reading(FROM_THE_BEGINNING),
            touched_max=LIMIT + SLICES,
            indexes=_PENDING_INDEX,
        ),
        "recording a batch": Hot(name="record_delivered", values={"ids": ids, "at": _NOW}, touched_max=PENDING),
        "recording refusals": Hot(name="record_refused", values=refusals | {"at": _NOW}, touched_max=10),
        "ending a lease": Hot(name="release_slices", values={"lease": _LEASE}, touched_max=SLICES),
        "count of due events": Hot(
            name="count_due_events", values={"now": _NOW}, touched_max=PENDING, indexes=_PENDING_INDEX
        ),
    }


def _of_upkeep(ids: Sequence[UUID]) -> dict[str, Hot]:
    some = {"ids": ids[:10]}
    return {
        "status of pending events": Hot(
            name="summarize_pending_events", values={}, touched_max=PENDING, indexes=_PENDING_INDEX
        ),
        "status of dead events": Hot(name="count_dead_events", values={}, touched_max=DEAD, indexes=_DEAD_INDEX),
        "first dead events": Hot(
            name="list_dead_events", values={"after": None, "limit": 10}, touched_max=10, indexes=_DEAD_INDEX
        ),
        "next dead events": Hot(
            name="list_dead_events", values={"after": ids[-1], "limit": 10}, touched_max=11, indexes=_DEAD_INDEX
        ),
        "a dead event": Hot(name="find_dead_event", values={"id": ids[0]}, touched_max=1),
        "another try": Hot(name="retry_dead_events", values=some, touched_max=10),
        "discarding": Hot(name="discard_dead_events", values=some, touched_max=10),
        # To find them, and to delete them.
        "removing delivered events": Hot(
            name="remove_published_events",
            values={"before": _NOW, "limit": LIMIT},
            touched_max=2 * LIMIT,
            indexes=("ix_outbox_published",),
        ),
        "removing old events": Hot(
            name="remove_occurred_events",
            values={"before": _NOW, "limit": LIMIT},
            touched_max=2 * LIMIT,
            indexes=("outbox_pkey",),
        ),
    }


def leasing(starts: Sequence[UUID]) -> dict[str, Any]:
    """Values to lease slices with."""
    return _seeking(starts) | {"ends": _NOW, "turn": 7, "slices_max": LEASED_MAX}


def reading(starts: Sequence[UUID]) -> dict[str, Any]:
    """Values to read pages with."""
    return _seeking(starts) | {"limit": LIMIT}


def _seeking(starts: Sequence[UUID]) -> dict[str, Any]:
    return {"lease": _LEASE, "now": _NOW, "starts": list(starts), "held_topics": ["held"], "held_ids": [UUID(int=1)]}


@pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", hot_statements([UUID(int=0)]))
def test_a_statement_of_the_publisher_touches_only_what_it_needs(
    connection: psycopg.Connection, pending_ids: list[UUID], name: str, plan_cache_mode: str
) -> None:
    """The 200,000 delivered events cost nothing, and of the pending ones only the page is read (BR-47)."""
    hot = hot_statements(pending_ids)[name]
    plan = plan_of(connection, hot, plan_cache_mode)
    assert not [
        node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "outbox"
    ], plan
    assert touched_by(plan) <= hot.touched_max, plan
    assert set(hot.indexes) <= {node.get("Index Name") for node in nodes(plan)}
    sorts = [node for node in nodes(plan) if node["Node Type"] == "Sort"]
    assert all(child["Actual Rows"] <= DEAD for sort in sorts for child in sort["Plans"]), plan


def test_pages_have_rows_to_touch(connection: psycopg.Connection) -> None:
    """The measure measures: a page of the seeded database has the events that it was asked for."""
    plan = plan_of(connection, hot_statements([UUID(int=0)])["pages of events"], "force_generic_plan")
    assert LIMIT * 0.5 <= plan["Actual Rows"] <= LIMIT


@pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])
def test_statistics_of_an_empty_outbox_do_no_harm(database: str, plan_cache_mode: str) -> None:
    """A backlog that grows faster than the statistics is read page by page all the same."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("alter table user_activity.outbox set (autovacuum_enabled = off)")
        connection.execute("analyze user_activity.outbox")
        lease_four_slices(connection)
        fill_outbox(database, 20_000)
        for name, values in (
            ("lease_slices", leasing(FROM_THE_BEGINNING)),
            ("read_due_events", reading(FROM_THE_BEGINNING)),
        ):
            plan = plan_of(connection, Hot(name=name, values=values, touched_max=LIMIT + 3 * SLICES), plan_cache_mode)
            assert touched_by(plan) <= LIMIT + 3 * SLICES, plan


def lease_four_slices(connection: psycopg.Connection) -> None:
    """For the reading of pages."""
    connection.execute(
        "update user_activity.outbox_slices set lease = %s, leased_until = 'infinity' where slice < %s",
        [_LEASE, LEASED_MAX],
    )


@pytest.mark.slow
def test_a_held_snapshot_makes_no_page_dearer(database: str) -> None:
    """In the middle of a drain beside an old snapshot a page costs what the first one did; a walk from the start not.

    The dead entries of what was delivered stay in the index as long as somebody holds a snapshot from before.
    """
    fill_outbox(database, 40_000)
    progress = SliceProgress()
    with (
        psycopg.connect(database, autocommit=True) as connection,
        psycopg.connect(database) as holder,
        closing(Connections(database)) as connections,
    ):
        connection.execute("vacuum analyze user_activity.outbox")
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select count(*) from user_activity.outbox")
        first = page_buffers(connection, FROM_THE_BEGINNING)
        while delivered(connection) < 20_000:
            deliver_a_batch(connections, progress)
        assert page_buffers(connection, progress.starts) <= 1.5 * first
        assert page_buffers(connection, FROM_THE_BEGINNING) > 5 * first


def page_buffers(connection: psycopg.Connection, starts: Sequence[UUID]) -> int:
    """How many buffers the pages of four slices take."""
    with connection.transaction(force_rollback=True):
        lease_four_slices(connection)
        plan = plan_of(connection, Hot(name="read_due_events", values=reading(starts), touched_max=0), "auto")
    assert plan["Actual Rows"] == LIMIT
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def delivered(connection: psycopg.Connection) -> int:
    """How many events have been delivered."""
    row = connection.execute("select count(*) from user_activity.outbox where published_at is not null").fetchone()
    assert row is not None
    return int(row[0])


def deliver_a_batch(connections: Connections, progress: SliceProgress) -> None:
    """Leases, and records as delivered."""
    with PostgresOutboxUnitOfWork(Transaction(connections, TransactionOptions()), progress) as unit_of_work:
        lease = Lease(id=uuid4(), begins=_NOW, ends=_NOW + timedelta(minutes=1))
        pending = unit_of_work.deliveries.lease(lease, limit=1_000, held=Held())
        ids = [one.message.id for one in pending if isinstance(one, PendingMessage)]
        unit_of_work.deliveries.record_delivered(ids, _NOW)
        unit_of_work.deliveries.release(lease)
        unit_of_work.commit()

"""Events that cannot be read, and triggers that keep outcomes from being recorded: they cost only themselves (D-05)."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.outbox_store import PostgresOutboxStore
from application.ports.deliveries import Refused
from application.ports.store_errors import TransactionRefused
from tests.postgres.outbox_rows import Publisher, fill_outbox, ids_in

_SWALLOWING = """
    create function user_activity.swallow() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger swallow before update on user_activity.outbox
        for each row when (old.aggregate_id = md5('2')::uuid) execute function user_activity.swallow()"""


@pytest.fixture
def publisher(database: str) -> Iterator[Publisher]:
    """A publisher."""
    with closing(PostgresOutboxStore(database)) as store:
        yield Publisher(store)


def execute(dsn: str, statement: str) -> None:
    """Run statements in one transaction."""
    with psycopg.connect(dsn) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    "spoiled",
    [
        "set occurred_at = 'infinity'",
        "set occurred_at = '20000-01-01Z'",
        "alter column topic drop not null, set topic = null",
        "alter column correlation_id drop not null, set correlation_id = null",
        "alter column payload drop not null, set payload = null",
    ],
)
def test_an_event_that_cannot_be_read_is_set_aside(database: str, publisher: Publisher, spoiled: str) -> None:
    """A value that is missing or out of range makes its event dead, as `unreadable`; all others are delivered."""
    fill_outbox(database, 20)
    for part in spoiled.split(", "):
        execute(
            database,
            f"alter table user_activity.outbox {part}"
            if part.startswith("alter")
            else f"update user_activity.outbox {part} where aggregate_id = md5('7')::uuid",
        )
    while publisher.work(limit=3):
        pass
    [spoiled_id] = ids_in(database, "aggregate_id = md5('7')::uuid")
    assert set(publisher.taken) == ids_in(database) - {spoiled_id}
    with publisher.store.begin() as unit_of_work:
        status = unit_of_work.upkeep.status()
        [dead] = unit_of_work.upkeep.dead(None, 10)
        assert unit_of_work.upkeep.find_dead(spoiled_id) == dead
        unit_of_work.commit()
    assert (status.pending, dict(status.dead)) == (0, {"unreadable": 1})
    assert (dead.message.id, dead.cause) == (spoiled_id, "unreadable")
    assert dead.message.occurred_at <= datetime.max.replace(tzinfo=UTC), "it can be shown"


def test_only_unreadable_events_leave_the_others_in_reach(database: str, publisher: Publisher) -> None:
    """A whole page of them does not look like an empty outbox."""
    fill_outbox(database, 500)
    execute(
        database,
        "update user_activity.outbox set occurred_at = '-infinity' where occurred_at < '2026-01-01 10:00:00.480Z'",
    )
    while publisher.work(limit=4):
        pass
    assert len(publisher.taken) == 21


def test_a_mark_that_a_trigger_swallows_is_an_error(database: str, publisher: Publisher) -> None:
    """Else the event would look delivered here and be sent again at once, without end; the others are recorded."""
    fill_outbox(database, 3)
    execute(database, _SWALLOWING)
    [swallowed] = ids_in(database, "aggregate_id = md5('2')::uuid")
    at = publisher.store.clock.read()

    def record(event_ids: set[UUID]) -> None:
        with publisher.store.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered(list(event_ids), at)
            unit_of_work.commit()

    with pytest.raises(TransactionRefused, match="not_changed"):
        record(ids_in(database))
    record(ids_in(database) - {swallowed})
    record(ids_in(database) - {swallowed})
    assert ids_in(database, "published_at is null") == {swallowed}


def test_a_refusal_that_a_trigger_swallows_is_an_error(database: str, publisher: Publisher) -> None:
    """Else the event would be tried again at once, without end; the others are recorded."""
    fill_outbox(database, 3)
    execute(database, _SWALLOWING)
    [swallowed] = ids_in(database, "aggregate_id = md5('2')::uuid")
    at = publisher.store.clock.read()

    def record(event_ids: set[UUID]) -> None:
        refused = [Refused(message_id=one, refusals=1, cause="too_large", next_attempt_at=None) for one in event_ids]
        with publisher.store.begin() as unit_of_work:
            unit_of_work.deliveries.record_refused(refused, at)
            unit_of_work.commit()

    with pytest.raises(TransactionRefused, match="not_changed"):
        record(ids_in(database))
    record(ids_in(database) - {swallowed})
    record(ids_in(database) - {swallowed})
    assert ids_in(database, "dead_at is null") == {swallowed}


@pytest.mark.parametrize("outcome", ["delivered", "refused"])
def test_an_outcome_that_a_trigger_takes_back_is_told(database: str, publisher: Publisher, outcome: str) -> None:
    """A trigger that writes the row as it was would let the event be sent without end: the transaction fails."""
    fill_outbox(database, 3)
    execute(
        database,
        """create function user_activity.undo() returns trigger language plpgsql as $$
           begin new.published_at := null; new.next_attempt_at := null; new.dead_at := null; return new; end $$;
           create trigger undo before update on user_activity.outbox
               for each row execute function user_activity.undo()""",
    )
    ids = list(ids_in(database))
    now = publisher.store.clock.read()
    refused = [Refused(message_id=one, refusals=1, cause="too_large", next_attempt_at=now) for one in ids]

    def record() -> None:
        with publisher.store.begin() as unit_of_work:
            if outcome == "delivered":
                unit_of_work.deliveries.record_delivered(ids, now)
            else:
                unit_of_work.deliveries.record_refused(refused, now)
            unit_of_work.commit()

    with pytest.raises(TransactionRefused, match="not_changed"):
        record()


def test_a_lease_of_a_wrong_clock_is_over(database: str, publisher: Publisher) -> None:
    """Slices that were leased until far in the future, while the database's clock was wrong, are free again."""
    fill_outbox(database, 50)
    execute(database, "update user_activity.outbox_slices set lease = gen_random_uuid(), leased_until = '2999-01-01'")
    while publisher.work():
        pass
    assert len(publisher.taken) == 50


def test_a_dead_event_of_an_impossible_time_is_shown(database: str, publisher: Publisher) -> None:
    """One row that somebody spoiled hides no other from the operator."""
    fill_outbox(database, 3)
    execute(database, "update user_activity.outbox set dead_at = 'infinity', cause = 'too_large'")
    with publisher.store.begin() as unit_of_work:
        assert len(unit_of_work.upkeep.dead(None, 10)) == 3
        unit_of_work.commit()

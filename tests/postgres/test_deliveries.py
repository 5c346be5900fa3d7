"""What only PostgreSQL can show of the deliveries: publishers side by side, and what becomes of those that fall."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from adapters.postgres.deliveries import FROM_THE_BEGINNING, LEASES_PER_PASS, SLICES, SliceProgress
from adapters.postgres.migrations import migrate
from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.statements import statement
from application.ports.deliveries import Held, Refused
from application.ports.store_errors import SchemaMissing, StoreUnavailable
from tests.postgres.outbox_rows import LEASE_LASTS, TOPIC, Publisher, fill_outbox, ids_in

_DEADLINE_SECONDS = 60
_LATER = LEASE_LASTS * 2


@pytest.fixture
def publishers(database: str) -> Iterator[Callable[[], Publisher]]:
    """Makes publishers, each with a store of its own, as processes have."""
    with ExitStack() as stores:
        yield lambda: Publisher(stores.enter_context(closing(PostgresOutboxStore(database))))


def test_two_publishers_send_each_event_once(database: str, publishers: Callable[[], Publisher]) -> None:
    """BR-38: without a fault no event is given to two publishers, and both have work."""
    fill_outbox(database, 5_000)
    both = [publishers(), publishers()]
    starting_line = threading.Barrier(2)

    def drain(publisher: Publisher) -> None:
        starting_line.wait(_DEADLINE_SECONDS)
        while publisher.work() or publisher.count_due():
            pass

    with ThreadPoolExecutor(max_workers=2) as threads:
        for ended in [threads.submit(drain, publisher) for publisher in both]:
            ended.result(_DEADLINE_SECONDS)
    assert all(publisher.taken for publisher in both)
    assert sorted(both[0].taken + both[1].taken) == sorted(ids_in(database, "published_at is not null"))
    assert len(both[0].taken + both[1].taken) == 5_000


def test_what_a_killed_connection_leaves_is_taken_over(database: str, publishers: Callable[[], Publisher]) -> None:
    """BR-38: of a publisher that falls no event is lost, and no more than its batch is sent twice."""
    fill_outbox(database, 2_000)
    falling, others = publishers(), publishers()
    lease = falling.lease()
    pending = falling.take(lease)
    with falling.store.begin() as unit_of_work:
        unit_of_work.deliveries.record_delivered([one.message.id for one in pending], lease.begins)
        assert unit_of_work.deliveries.count_due(lease.begins) == 1_900
        with psycopg.connect(database, autocommit=True) as administrator:
            administrator.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                " where application_name = 'activity-closer' and datname = current_database()"
            )
        with pytest.raises(StoreUnavailable):
            unit_of_work.commit()
    while others.work():
        pass
    assert not set(falling.taken) & set(others.taken)
    while others.work(after=_LATER):
        pass
    counts = Counter(falling.taken + others.taken)
    assert set(counts) == ids_in(database, "published_at is not null")
    assert len(counts) == 2_000
    assert {message_id for message_id, count in counts.items() if count > 1} == set(falling.taken)
    assert not falling.work(after=_LATER), "its store connects again"


def test_an_event_that_was_committed_late_is_found(database: str, publishers: Callable[[], Publisher]) -> None:
    """Appended before others, committed after they were delivered: the event is not passed over, whatever its id."""
    publisher = publishers()
    with psycopg.connect(database) as late:
        late.execute(
            "insert into user_activity.outbox (id, aggregate_type, aggregate_id, event_type, contract_version, topic,"
            " payload, correlation_id, occurred_at) select md5('late' || number)::uuid, 'Session', gen_random_uuid(),"
            " 'SessionEndedKafkaEvent', 1, 'late', '{}', gen_random_uuid(), '2026-01-01 10:00Z'"
            " from generate_series(1, 50) as number"
        )
        fill_outbox(database, 500)
        while publisher.work(limit=40):
            pass
        assert len(publisher.taken) == 500
        fill_outbox(database, 500, first=501)
        publisher.work(limit=40)
        late.commit()
    while publisher.work(limit=40):
        pass
    assert set(publisher.taken) == ids_in(database)
    assert len(publisher.taken) == 1_050


def test_events_of_a_held_topic_hide_no_others(database: str, publishers: Callable[[], Publisher]) -> None:
    """Thousands of events of a topic that takes none lie before a few of another: those come at once, and first."""
    fill_outbox(database, 3_000, topic="held")
    fill_outbox(database, 30, first=3_001)
    publisher = publishers()
    held = Held(topics=frozenset({"held"}))
    taken: set[UUID] = set()
    while pending := publisher.take(lease := publisher.lease(), 10, held):
        publisher.deliver(pending, lease)
        taken |= {one.message.id for one in pending}
    assert taken == ids_in(database, f"topic = '{TOPIC}'")
    assert publisher.count_due() == 3_000


def test_what_was_given_back_comes_up_when_nothing_else_is_due(
    database: str, publishers: Callable[[], Publisher]
) -> None:
    """A publisher reads on where it was, and looks at all from the beginning before it says that nothing is due."""
    fill_outbox(database, 1_000)
    publisher = publishers()
    lease = publisher.lease()
    given_back = {one.message.id for one in publisher.take(lease, 40)}
    with publisher.store.begin() as unit_of_work:
        unit_of_work.deliveries.release(lease)
        unit_of_work.commit()
    while publisher.work(limit=40):
        pass
    assert Counter(publisher.taken) == Counter(list(ids_in(database))) + Counter(list(given_back))
    assert not given_back & set(publisher.taken[40:900]), "it goes forward first"


def test_what_was_given_back_does_not_wait_for_the_end_of_the_backlog() -> None:
    """However long the backlog is, after a hundred leases all is looked at from the beginning."""
    progress = SliceProgress()
    event_ids = [UUID(int=number * SLICES + 3) for number in range(LEASES_PER_PASS)]
    for event_id in event_ids[:-1]:
        progress.note([3], [event_id], 1)
        assert progress.starts[3] == UUID(int=event_id.int + 1)
    progress.note([3], event_ids[-1:], 1)
    assert progress.starts == FROM_THE_BEGINNING


def test_a_look_back_does_not_lose_the_place() -> None:
    """A short page from the beginning leaves the slice's place; a full one goes on behind itself."""
    progress = SliceProgress()
    early, late = UUID(int=2 * SLICES), UUID(int=9 * SLICES)
    progress.note([0], [late], 1)
    progress.note([0], [early], 2)
    assert progress.starts[0] == UUID(int=late.int + 1)
    progress.note([0], [early], 1)
    assert progress.starts[0] == UUID(int=early.int + 1)


@pytest.mark.parametrize("event_id", [UUID(int=0), UUID(int=2**128 - 1)])
def test_no_id_is_out_of_reach(database: str, publishers: Callable[[], Publisher], event_id: UUID) -> None:
    """The first and the last id of all are leased and delivered as any other."""
    fill_outbox(database, 1)
    with psycopg.connect(database) as connection:
        connection.execute("update user_activity.outbox set id = %s", [event_id])
    publisher = publishers()
    assert publisher.work(limit=1)
    assert not publisher.work()
    assert publisher.taken == [event_id]


@pytest.mark.parametrize("next_attempt_after", [None, timedelta(0), timedelta(hours=1)])
def test_two_that_record_the_same_at_the_same_moment_both_succeed(
    database: str, publishers: Callable[[], Publisher], next_attempt_after: timedelta | None
) -> None:
    """The later one waits for the earlier one, and passes over what that has recorded as delivered.

    None: it has delivered them, too; else they were refused, to be tried again or for the last time.
    """
    fill_outbox(database, 10)
    earlier, later = publishers(), publishers()
    now = earlier.store.clock.read()
    event_ids = list(ids_in(database))

    def record() -> None:
        with later.store.begin() as unit_of_work:
            if next_attempt_after is None:
                unit_of_work.deliveries.record_delivered(event_ids, now + timedelta(seconds=1))
            else:
                next_attempt_at = now + next_attempt_after if next_attempt_after else None
                refused = [
                    Refused(message_id=one, refusals=1, cause="late", next_attempt_at=next_attempt_at)
                    for one in event_ids
                ]
                unit_of_work.deliveries.record_refused(refused, now)
            unit_of_work.commit()

    with ThreadPoolExecutor(max_workers=1) as threads, psycopg.connect(database, autocommit=True) as observer:
        with earlier.store.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered(event_ids, now)
            assert unit_of_work.deliveries.count_due(now) == 0
            recorded = threads.submit(record)
            wait_until(lambda: waits_for_a_row(observer))
            unit_of_work.commit()
        recorded.result(_DEADLINE_SECONDS)
    with psycopg.connect(database) as connection:
        marks = connection.execute("select distinct published_at, dead_at, cause from user_activity.outbox")
        assert marks.fetchall() == [(now, None, None)]


def waits_for_a_row(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Whether somebody does in this database."""
    waiting = connection.execute(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    return waiting.fetchone() is not None


def test_an_outbox_without_the_publishers_parts_is_named(empty_database: str) -> None:
    """Before its migration, or where Debezium reads the outbox, a publisher says that the schema lacks something."""
    migrate(empty_database, has_publisher=False)
    with closing(PostgresOutboxStore(empty_database)) as store, pytest.raises(SchemaMissing, match="outbox"):
        Publisher(store).work()


_GATE = 7
_GATED = f"""
    create function user_activity.pass_the_gate() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_lock_shared({_GATE});
        perform pg_advisory_unlock_shared({_GATE});
        return null;
    end $$;
    -- Before a statement's rows are locked, and after its snapshot was taken.
    create trigger gate before update on user_activity.outbox_slices
        for each statement execute function user_activity.pass_the_gate()"""


def in_two_statements(dsn: str, publisher: Publisher) -> list[UUID]:
    """What is leased as the adapter does it."""
    return [one.message.id for one in publisher.take(publisher.lease(after=_LATER))]


def in_one_statement(dsn: str, publisher: Publisher) -> list[UUID]:
    """What would be leased if one statement leased the slices and read their events."""
    lease = publisher.lease(after=_LATER)
    parameters = {
        "lease": lease.id,
        "now": lease.begins,
        "ends": lease.ends,
        "starts": FROM_THE_BEGINNING,
        "held_topics": [],
        "held_ids": [],
        "turn": 0,
        "slices_max": SLICES,
    }
    reading = f"""
        with leased as ({statement("lease_slices")})
        select id from user_activity.outbox
        where published_at is null and (get_byte(uuid_send(id), 15) & 15) in (select slice from leased)"""
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(reading.encode(), parameters)]


@pytest.mark.parametrize(("leasing", "sent_twice"), [(in_two_statements, 0), (in_one_statement, 200)])
def test_what_is_recorded_between_snapshot_and_lock_is_not_sent_twice(
    database: str,
    publishers: Callable[[], Publisher],
    leasing: Callable[[str, Publisher], list[UUID]],
    sent_twice: int,
) -> None:
    """Slices are leased in one statement, their events read in a later one: as in D-03, one alone reads the past.

    The first publisher has outlived its leases. It records its events and commits just when the second has begun to
    lease and has not locked the slices yet.
    """
    fill_outbox(database, 200)
    first, second = publishers(), publishers()
    leases = [first.lease() for _ in range(4)]
    # Every slice, so that the interleaving is about all events.
    pending = [one for lease in leases for one in first.take(lease, 1_000)]
    assert len(pending) == 200
    with ExitStack() as ends, ThreadPoolExecutor(max_workers=1) as threads:
        gate = ends.enter_context(psycopg.connect(database, autocommit=True))
        gate.execute(_GATED.encode())
        with first.store.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered(first.taken, leases[0].begins)
            for lease in leases:
                unit_of_work.deliveries.release(lease)
            assert unit_of_work.deliveries.count_due(leases[0].begins) == 0
            gate.execute("select pg_advisory_lock(%s)", [_GATE])
            leased = threads.submit(leasing, database, second)
            wait_until(lambda: waits_at_the_gate(gate))
            unit_of_work.commit()
        gate.execute("select pg_advisory_unlock(%s)", [_GATE])
        assert len(leased.result(_DEADLINE_SECONDS)) == sent_twice


def waits_at_the_gate(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Whether somebody does."""
    waiting = connection.execute(
        "select from pg_locks where locktype = 'advisory' and objid = %s and not granted", [_GATE]
    )
    return waiting.fetchone() is not None


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"

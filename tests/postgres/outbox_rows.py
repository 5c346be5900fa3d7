"""Events in an outbox of PostgreSQL, and publishers of the simplest kind."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg

from adapters.postgres.outbox_store import PostgresOutboxStore
from application.ports.deliveries import Held, Lease, PendingMessage, Refused, UnreadableMessage

LEASE_LASTS = timedelta(minutes=1)
TOPIC = "pin.user-activity.session-ended.v1"

_FILL = """
    insert into user_activity.outbox
        (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, occurred_at,
         published_at)
    -- Ids as those of version 7: in the order of time, a random end.
    select (to_char(number, 'FM000000000000') || '7' || substr(md5(number::text), 1, 3) || 'a'
            || substr(md5('end' || number), 1, 15))::uuid,
           'Session', md5(number::text)::uuid, 'SessionEndedKafkaEvent', 1, %(topic)s,
           jsonb_build_object('sessionId', md5(number::text)), md5('run')::uuid,
           '2026-01-01 10:00Z'::timestamptz + number * interval '1 ms',
           case when number <= %(published)s then '2026-01-01 11:00Z'::timestamptz + number * interval '1 ms' end
    from generate_series(%(first)s::int, %(first)s::int + %(count)s::int - 1) as number"""


def fill_outbox(dsn: str, count: int, *, first: int = 1, topic: str = TOPIC, published: int = 0) -> None:
    """Put events into the outbox; those of which the number is not above `published` have been delivered."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_FILL, {"count": count, "first": first, "topic": topic, "published": published})


def ids_in(dsn: str, condition: str = "true") -> set[UUID]:
    """The ids of the events for which an SQL condition holds."""
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute(f"select id from user_activity.outbox where {condition}".encode())}


class Publisher:
    """Leases events, takes them for delivered, and remembers them."""

    def __init__(self, store: PostgresOutboxStore) -> None:
        self.store = store
        self.taken: list[UUID] = []
        self.unreadable: list[UUID] = []

    def lease(self, *, after: timedelta = timedelta(0)) -> Lease:
        """A lease that begins so long after now."""
        begins = self.store.clock.read() + after
        return Lease(id=uuid4(), begins=begins, ends=begins + LEASE_LASTS)

    def take(self, lease: Lease, limit: int = 100, held: Held = Held()) -> Sequence[PendingMessage]:  # noqa: B008 (frozen)
        """Leases, sets aside what cannot be read, and commits that."""
        with self.store.begin() as unit_of_work:
            leased = unit_of_work.deliveries.lease(lease, limit=limit, held=held)
            unreadable = [
                Refused(message_id=one.id, refusals=1, cause="unreadable", next_attempt_at=None)
                for one in leased
                if isinstance(one, UnreadableMessage)
            ]
            unit_of_work.deliveries.record_refused(unreadable, lease.begins)
            unit_of_work.commit()
        self.unreadable += [one.message_id for one in unreadable]
        pending = [one for one in leased if isinstance(one, PendingMessage)]
        self.taken += [one.message.id for one in pending]
        return pending

    def deliver(self, pending: Sequence[PendingMessage], lease: Lease) -> None:
        """Records that they have arrived, and ends the lease."""
        with self.store.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered([one.message.id for one in pending], self.store.clock.now())
            unit_of_work.deliveries.release(lease)
            unit_of_work.commit()

    def work(self, limit: int = 100, *, after: timedelta = timedelta(0)) -> bool:
        """Delivers some events; whether there were any."""
        lease = self.lease(after=after)
        before = len(self.taken) + len(self.unreadable)
        self.deliver(self.take(lease, limit), lease)
        return len(self.taken) + len(self.unreadable) > before

    def count_due(self) -> int:
        """How many events are due, whoever has leased them."""
        with self.store.begin() as unit_of_work:
            count = unit_of_work.deliveries.count_due(self.store.clock.now())
            unit_of_work.commit()
        return count

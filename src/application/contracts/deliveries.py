"""The contract of the Deliveries port."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

from attrs import evolve

from application.contracts.subject import StoreContract, a_session
from application.event_contract import message_of
from application.ports.deliveries import Held, Lease, PendingMessage, Refused
from application.ports.outbox import OutboxMessage
from application.ports.outbox_store import OutboxStore
from domain.closing import SessionEnded

LEASE_LASTS: Final = timedelta(minutes=1)
NOTHING_HELD: Final = Held()


def a_message(now: datetime, *, topic: str | None = None) -> OutboxMessage:
    """An event that occurred now."""
    session = a_session(now)
    ended = SessionEnded(session=session.close(now), ended_at=now)
    message = message_of(ended, message_id=uuid4(), correlation_id=uuid4(), trace_parent=None)
    return message if topic is None else evolve(message, topic=topic)


class OutgoingContract(StoreContract):
    """The beginning of each suite of the publisher: events to deliver, and publishers of the simplest kind."""

    outbox: OutboxStore
    """The same store from the side of those who deliver; the adapter's tests set it."""

    def append(self, count: int = 1, *, topic: str | None = None) -> list[OutboxMessage]:
        """Commits so many events."""
        now = self.outbox.clock.read()
        messages = [a_message(now, topic=topic) for _ in range(count)]
        with self.store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()
        return messages

    def a_lease(self, *, after: timedelta = timedelta(0)) -> Lease:
        """A lease that begins so long after now."""
        begins = self.outbox.clock.read() + after
        return Lease(id=uuid4(), begins=begins, ends=begins + LEASE_LASTS)

    def take(self, lease: Lease, limit: int = 100, *, held: Held = NOTHING_HELD) -> Sequence[PendingMessage]:
        """Leases, and commits that."""
        with self.outbox.begin() as unit_of_work:
            leased = unit_of_work.deliveries.lease(lease, limit=limit, held=held)
            unit_of_work.commit()
        return [one for one in leased if isinstance(one, PendingMessage)]

    def take_all(self, lease: Lease, limit: int = 100) -> list[PendingMessage]:
        """Leases until nothing is given: a store may lease parts of the outbox, and give what else is in them later.

        So this is all that is due only if nothing was passed over before; after that it takes `drain`.
        """
        taken: list[PendingMessage] = []
        while pending := self.take(evolve(lease, id=uuid4()), limit):
            taken += pending
        return taken

    def drain(self, lease: Lease, limit: int = 100) -> list[PendingMessage]:
        """Leases, delivers and releases until nothing is left, as a publisher does."""
        drained: list[PendingMessage] = []
        while pending := self.take(lease, limit):
            drained += pending
            self.deliver(*(one.message.id for one in pending), lease=lease)
        return drained

    def deliver(self, *message_ids: UUID, lease: Lease | None = None) -> None:
        """Records that they have arrived, and ends the lease."""
        with self.outbox.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered(message_ids, self.outbox.clock.now())
            if lease:
                unit_of_work.deliveries.release(lease)
            unit_of_work.commit()

    def refuse(self, *message_ids: UUID, retry_after: timedelta | None, refusals: int = 1) -> None:
        """Records that they were refused; without a retry they are dead."""
        now = self.outbox.clock.read()
        refused = [
            Refused(
                message_id=one,
                refusals=refusals,
                cause="msg_size_too_large",
                next_attempt_at=None if retry_after is None else now + retry_after,
            )
            for one in message_ids
        ]
        with self.outbox.begin() as unit_of_work:
            unit_of_work.deliveries.record_refused(refused, now)
            unit_of_work.commit()

    def release(self, lease: Lease) -> None:
        """Ends a lease."""
        with self.outbox.begin() as unit_of_work:
            unit_of_work.deliveries.release(lease)
            unit_of_work.commit()

    def count_due(self) -> int:
        """How many events are due now."""
        with self.outbox.begin() as unit_of_work:
            count = unit_of_work.deliveries.count_due(self.outbox.clock.read())
            unit_of_work.commit()
        return count


def ids_of(messages: Sequence[OutboxMessage] | Sequence[PendingMessage]) -> set[UUID]:
    """Their ids, each of which must be there once."""
    ids = [one.message.id if isinstance(one, PendingMessage) else one.id for one in messages]
    assert len(set(ids)) == len(ids), "an event came twice"
    return set(ids)


class DeliveriesContract(OutgoingContract):
    """Each event is given to one publisher at a time, again and again until it is delivered or dead."""

    def test_what_is_leased_is_what_was_appended(self) -> None:
        """An event comes out as it went in, the text of its payload included (D-10)."""
        [message] = self.append()
        [pending] = self.take(self.a_lease())
        assert pending.refusals == 0
        [kept] = self.subject.messages()
        assert pending.message == kept
        assert evolve(kept, payload="") == evolve(message, payload="")

    def test_nothing_is_leased_of_an_empty_outbox(self) -> None:
        """An empty outbox has nothing to lease."""
        assert not self.take(self.a_lease())
        assert self.count_due() == 0

    def test_everything_comes_up(self) -> None:
        """Whatever its id, every event that is due is leased in the end, and once."""
        appended = self.append(50)
        assert ids_of(self.drain(self.a_lease(), limit=7)) == ids_of(appended)

    def test_a_lease_keeps_within_its_limit(self) -> None:
        """A publisher is given no more than it asks for: its memory is bounded."""
        self.append(50)
        assert 1 <= len(self.take(self.a_lease(), limit=5)) <= 5

    def test_nobody_else_is_given_what_is_leased(self) -> None:
        """As long as a lease lasts its events are given to nobody else (BR-38)."""
        self.append(50)
        first = self.take(self.a_lease(), limit=10)
        second = self.take_all(self.a_lease(after=LEASE_LASTS / 2))
        assert not ids_of(first) & ids_of(second)

    def test_a_lease_that_is_not_committed_never_was(self) -> None:
        """A publisher that dies while it leases takes nothing with it."""
        [message] = self.append()
        with self.outbox.begin() as unit_of_work:
            unit_of_work.deliveries.lease(self.a_lease(), limit=1, held=NOTHING_HELD)
        assert ids_of(self.take(self.a_lease())) == {message.id}

    def test_a_lease_ends_by_itself(self) -> None:
        """What a dead publisher has leased is given to others once its time is over (BR-38)."""
        appended = self.append(5)
        self.take_all(self.a_lease())
        assert not self.take(self.a_lease(after=LEASE_LASTS / 2))
        assert ids_of(self.take_all(self.a_lease(after=LEASE_LASTS + timedelta(seconds=1)))) == ids_of(appended)

    def test_what_is_given_back_is_due_at_once(self) -> None:
        """A released event that nothing was recorded of is leased again, to whoever comes first."""
        [message] = self.append()
        lease = self.a_lease()
        self.take(lease)
        self.release(lease)
        assert ids_of(self.take(self.a_lease())) == {message.id}

    def test_who_comes_too_late_releases_nothing(self) -> None:
        """A publisher that outlived its lease does not end that of its successor."""
        self.append()
        late = self.a_lease()
        self.take(late)
        successor = self.a_lease(after=LEASE_LASTS + timedelta(seconds=1))
        assert self.take(successor)
        self.release(late)
        assert not self.take(evolve(successor, id=uuid4()))

    def test_what_is_delivered_is_not_leased_again(self) -> None:
        """A delivered event has gone for good, also where its lease had run out; its neighbours have not."""
        appended = self.append(3)
        lease = self.a_lease()
        while pending := self.take(lease, limit=3):
            delivered = [one.message.id for one in pending if one.message.id != appended[0].id]
            self.deliver(*delivered, lease=lease)
            if appended[0].id in ids_of(pending):
                break
        self.deliver(*(one.id for one in appended[1:]))
        assert ids_of(self.take_all(self.a_lease(after=LEASE_LASTS * 2))) == {appended[0].id}
        assert self.count_due() == 1

    def test_delivered_twice_is_delivered(self) -> None:
        """Recording an event again, or one that is gone, is no error: two publishers may both have sent it."""
        [message] = self.append()
        self.deliver(message.id)
        self.deliver(message.id, uuid4())
        assert not self.take(self.a_lease())

    def test_a_late_commit_is_found(self) -> None:
        """An event that was appended before others and committed after them is not passed over (no high-water mark)."""
        now = self.outbox.clock.read()
        messages = sorted((a_message(now) for _ in range(40)), key=lambda message: message.id)
        for early_and_late in (messages[20:], messages[:20]):
            with self.store.begin() as unit_of_work:
                unit_of_work.outbox.append(early_and_late)
                unit_of_work.commit()
            lease = self.a_lease()
            seen: set[UUID] = set()
            while pending := self.take(lease, limit=3):
                seen |= ids_of(pending)
                self.deliver(*ids_of(pending), lease=lease)
            assert seen == ids_of(early_and_late)

    def test_events_of_a_held_topic_are_left_out(self) -> None:
        """A topic that takes no events stops only its own, however many of them there are."""
        held, others = self.append(30, topic="held"), self.append(3, topic="other")
        [taken_first] = self.take(self.a_lease(), limit=1, held=Held(topics=frozenset({"held"})))
        assert taken_first.message.id in ids_of(others)
        taken = self.drain(self.a_lease(after=LEASE_LASTS * 2))
        assert ids_of(taken) == ids_of(held) | ids_of(others)

    def test_held_events_are_left_out(self) -> None:
        """An event whose outcome could not be recorded is not given again while it is held; its neighbours are."""
        held, other = self.append(2)
        without = Held(event_ids=frozenset({held.id}))
        taken = [*self.take(self.a_lease(), held=without), *self.take(self.a_lease(), held=without)]
        assert ids_of(taken) == {other.id}
        assert ids_of(self.drain(self.a_lease(after=LEASE_LASTS * 2))) == {held.id, other.id}

    def test_a_refused_event_waits_for_its_next_attempt(self) -> None:
        """A refused event is not tried again before its time, and counts its refusals (BR-10)."""
        refused, other = self.append(2)
        self.refuse(refused.id, retry_after=timedelta(seconds=30), refusals=4)
        assert ids_of(self.take_all(self.a_lease())) == {other.id}
        assert self.count_due() == 1
        later = self.drain(self.a_lease(after=LEASE_LASTS * 2))
        assert {one.message.id: one.refusals for one in later} == {refused.id: 4, other.id: 0}

    def test_a_dead_event_is_set_aside(self) -> None:
        """An event that was refused too often is never leased again, and blocks no other (BR-10)."""
        dead, other = self.append(2)
        self.refuse(dead.id, retry_after=None)
        assert ids_of(self.take_all(self.a_lease(after=LEASE_LASTS * 100))) == {other.id}

    def test_what_has_arrived_is_not_refused_afterwards(self) -> None:
        """Of two publishers that both sent an event the one that delivered it is right."""
        [message] = self.append()
        self.deliver(message.id)
        self.refuse(message.id, retry_after=None)
        with self.outbox.begin() as unit_of_work:
            assert not unit_of_work.upkeep.dead(None, 10)
            unit_of_work.commit()

    def test_what_is_dead_is_not_refused_afterwards(self) -> None:
        """An event that was set aside stays so, whatever another publisher says of it later."""
        [message] = self.append()
        self.refuse(message.id, retry_after=None, refusals=10)
        self.refuse(message.id, retry_after=timedelta(seconds=1), refusals=3)
        assert not self.take(self.a_lease(after=LEASE_LASTS))
        assert self.count_due() == 0

    def test_what_has_arrived_is_dead_no_more(self) -> None:
        """An event that one publisher set aside, and another one's report says has arrived, is delivered."""
        [message] = self.append()
        self.refuse(message.id, retry_after=None)
        self.deliver(message.id)
        with self.outbox.begin() as unit_of_work:
            assert not unit_of_work.upkeep.dead(None, 10)
            assert not unit_of_work.upkeep.status().dead
            unit_of_work.commit()

    def test_what_is_recorded_without_a_commit_is_not(self) -> None:
        """Outcomes become durable together with the end of the lease, or not at all."""
        [message] = self.append()
        lease = self.a_lease()
        self.take(lease)
        with self.outbox.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered([message.id], lease.begins)
            unit_of_work.deliveries.release(lease)
        assert not self.take(self.a_lease())
        assert ids_of(self.take(self.a_lease(after=LEASE_LASTS * 2))) == {message.id}

    def test_due_events_are_counted_leased_or_not(self) -> None:
        """Who drains the outbox sees what is left, in whosever hands (specification §10)."""
        self.append(3)
        self.take(self.a_lease(), limit=1)
        assert self.count_due() == 3

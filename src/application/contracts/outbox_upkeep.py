"""The contract of the OutboxUpkeep port."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

from application.contracts.deliveries import OutgoingContract, ids_of
from application.ports.outbox_upkeep import OutboxUpkeep

Answer = TypeVar("Answer")


class OutboxUpkeepContract(OutgoingContract):
    """What an operator sees, and may do."""

    def ask(self, question: Callable[[OutboxUpkeep], Answer]) -> Answer:
        """Asks, or does, something in a transaction of its own."""
        with self.outbox.begin() as unit_of_work:
            answer = question(unit_of_work.upkeep)
            unit_of_work.commit()
        return answer

    def test_the_status_of_an_empty_outbox(self) -> None:
        """Nothing is pending, nothing is dead."""
        status = self.ask(lambda upkeep: upkeep.status())
        assert (status.pending, status.waiting, status.oldest_pending_at, dict(status.dead)) == (0, 0, None, {})

    def test_the_status_counts_each_kind(self) -> None:
        """Pending, waiting and dead events are counted apart; delivered ones are none of them (specification §8)."""
        pending, waiting, dead, delivered = self.append(4)
        self.refuse(waiting.id, retry_after=timedelta(hours=1))
        self.refuse(dead.id, retry_after=None)
        self.deliver(delivered.id)
        status = self.ask(lambda upkeep: upkeep.status())
        assert (status.pending, status.waiting) == (2, 1)
        assert status.oldest_pending_at == pending.occurred_at
        assert dict(status.dead) == {"msg_size_too_large": 1}

    def test_dead_events_are_listed_page_by_page(self) -> None:
        """Any number of dead events can be gone through, each once, in bounded memory."""
        appended = self.append(5)
        self.refuse(*(one.id for one in appended), retry_after=None, refusals=10)
        first = self.ask(lambda upkeep: upkeep.dead(None, 3))
        rest = self.ask(lambda upkeep: upkeep.dead(first[-1].message.id, 3))
        assert [one.message.id for one in [*first, *rest]] == sorted(ids_of(appended))
        assert {(one.cause, one.refusals) for one in [*first, *rest]} == {("msg_size_too_large", 10)}

    def test_a_dead_event_is_shown_whole(self) -> None:
        """An operator sees the event and why it was set aside."""
        dead, pending = self.append(2)
        self.refuse(dead.id, retry_after=None)
        found = self.ask(lambda upkeep: upkeep.find_dead(dead.id))
        assert found is not None
        assert found.message in self.subject.messages()
        assert found.message.id == dead.id
        assert found.dead_at <= self.outbox.clock.read()
        assert self.ask(lambda upkeep: upkeep.find_dead(pending.id)) is None
        assert self.ask(lambda upkeep: upkeep.find_dead(uuid4())) is None

    def test_a_dead_event_is_tried_again_from_the_beginning(self) -> None:
        """After a repair a dead event is pending at once, with all attempts before it; only dead ones are."""
        dead, waiting = self.append(2)
        self.refuse(dead.id, retry_after=None, refusals=10)
        self.refuse(waiting.id, retry_after=timedelta(hours=1))
        assert self.ask(lambda upkeep: upkeep.retry([dead.id, waiting.id, uuid4()])) == 1
        [pending] = self.take_all(self.a_lease())
        assert (pending.message.id, pending.refusals) == (dead.id, 0)
        assert not self.ask(lambda upkeep: upkeep.dead(None, 10))

    def test_an_event_that_is_tried_again_is_its_publishers_until_the_lease_ends(self) -> None:
        """Nobody else gets a leased event, not even where an operator has it tried again meanwhile."""
        [event] = self.append()
        lease = self.a_lease()
        assert ids_of(self.take(lease)) == {event.id}
        self.refuse(event.id, retry_after=None)
        assert self.ask(lambda upkeep: upkeep.retry([event.id])) == 1
        assert not self.take(self.a_lease())
        self.release(lease)
        assert ids_of(self.take(self.a_lease())) == {event.id}

    def test_a_discarded_event_is_gone_for_its_own_transaction(self) -> None:
        """What has been discarded cannot be tried again."""
        [event] = self.append()
        self.refuse(event.id, retry_after=None)
        assert self.ask(lambda upkeep: (upkeep.discard([event.id]), upkeep.retry([event.id]))) == (1, 0)
        assert not self.subject.messages()

    def test_only_dead_events_are_discarded(self) -> None:
        """What is pending or delivered cannot be discarded by mistake."""
        dead, pending, delivered = self.append(3)
        self.refuse(dead.id, retry_after=None)
        self.deliver(delivered.id)
        assert self.ask(lambda upkeep: upkeep.discard([dead.id, pending.id, delivered.id])) == 1
        assert ids_of(self.subject.messages()) == {pending.id, delivered.id}

    def test_delivered_events_are_removed_when_their_time_is_over(self) -> None:
        """Retention removes delivered events in small steps; pending and dead ones stay, however old (BR-47)."""
        dead, pending, *delivered = self.append(5)
        self.refuse(dead.id, retry_after=None)
        self.deliver(*(one.id for one in delivered))
        now = self.outbox.clock.read()
        assert self.ask(lambda upkeep: upkeep.remove_published(now - timedelta(hours=1), 10)) == 0
        later = now + timedelta(hours=1)
        assert [self.ask(lambda upkeep: upkeep.remove_published(later, 2)) for _ in range(3)] == [2, 1, 0]
        assert ids_of(self.subject.messages()) == {pending.id, dead.id}

    def test_an_outbox_that_others_read_is_removed_by_age(self) -> None:
        """Where nobody marks what was delivered, age alone decides, in small steps."""
        self.append(3)
        now = self.outbox.clock.read()
        assert self.ask(lambda upkeep: upkeep.remove_occurred(now - timedelta(hours=1), 10)) == 0
        later = now + timedelta(hours=1)
        assert [self.ask(lambda upkeep: upkeep.remove_occurred(later, 2)) for _ in range(3)] == [2, 1, 0]
        assert not self.subject.messages()

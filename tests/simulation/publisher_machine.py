"""The rules by which Hypothesis invents histories in which publishers take part, and a broker with its moods."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork
from tests.simulation.closer_machine import CloserMachine, statements, transactions, which
from tests.simulation.publishing import Publishing
from tests.simulation.simulation import Participant, Simulation
from tests.simulation.stepping_sender import SenderKind, SteppingSender
from tests.simulation.stepping_store import OutboxRoles

PUBLISHERS_MAX: Final = 3
MOODS: Final = ["well", "well", "down", "loses answers", "refuses an event", "lacks a topic"]


class PublisherMachine(CloserMachine):
    """Histories of the whole system and its broker; the publishers' roles may be replaced by wrong ones."""

    outbox_roles: OutboxRoles = InMemoryOutboxUnitOfWork
    sender: SenderKind = SteppingSender

    def _new_simulation(self) -> Simulation:
        kind = type(self)
        return Simulation(roles=kind.roles, outbox_roles=kind.outbox_roles, sender=kind.sender)

    def _publishers(self) -> list[Participant]:
        return [one for one in self.simulation.participants if isinstance(one.part, Publishing)]

    def _may_publish(self) -> bool:
        return len(self._publishers()) < PUBLISHERS_MAX

    def _is_publishing(self) -> bool:
        return bool(self._publishers())

    @precondition(_may_publish)
    @rule(batch_size=st.sampled_from([1, 2, 500]), statements=statements)
    def start_publisher(self, batch_size: int, statements: int) -> None:
        """A publisher begins a round, and stops in the middle of something."""
        self.simulation.advance(self.simulation.publish(batch_size), statements)

    @precondition(_is_publishing)
    @rule(which=which, transactions=transactions, statements=statements)
    def publisher_goes_on(self, which: int, transactions: int, statements: int) -> None:
        """A publisher comes some way further."""
        publishers = self._publishers()
        publisher = publishers[-1 - which % len(publishers)]
        self.simulation.step(publisher)
        self.simulation.begin_transactions(publisher, transactions)
        self.simulation.advance(publisher, statements)

    @rule(mood=st.sampled_from(MOODS), which=which)
    def broker_changes(self, mood: str, which: int) -> None:
        """The broker fails in one way or another, or is well again."""
        broker, messages = self.simulation.broker, self.simulation.present.messages
        broker.is_down = mood == "down"
        broker.loses_answers = mood == "loses answers"
        broker.refuses = lambda _: False
        broker.missing_topics.clear()
        if messages:
            one = messages[-1 - which % len(messages)]
            if mood == "refuses an event":
                broker.refuses = lambda message: message.id == one.id
            elif mood == "lacks a topic":
                broker.missing_topics.add(one.topic)

    @rule(now=which)
    def settle_outbox(self, now: int) -> None:
        """Quiet, now and then: a round with nobody beside it and a broker that is well leaves nothing behind."""
        if now < 2:
            self.simulation.settle_outbox()

"""The rules by which Hypothesis invents histories in which publishers take part, and a broker with its moods."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.simulation.closer_machine import CloserMachine, pick, statements, transactions, which
from tests.simulation.participant import Participant
from tests.simulation.publishing import Mood, Publishing

PUBLISHERS_MAX: Final = 3
MOODS: Final = [Mood.WELL, *Mood]


class PublisherMachine(CloserMachine):
    """Histories of the whole system and its broker."""

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
        self._set_out(self.simulation.publish(batch_size), statements)

    @precondition(_is_publishing)
    @rule(which=which, transactions=transactions, statements=statements)
    def publisher_goes_on(self, which: int, transactions: int, statements: int) -> None:
        """A publisher comes some way further."""
        publisher = pick(self._publishers(), which)
        self.simulation.step(publisher)
        self.simulation.begin_transactions(publisher, transactions)
        self.simulation.advance(publisher, statements)

    @rule(mood=st.sampled_from(MOODS), which=which)
    def broker_changes(self, mood: Mood, which: int) -> None:
        """The broker fails in one way or another, or is well again."""
        pending = self.simulation.present.pending
        self.simulation.change_mood(mood, pick(pending, which) if pending else None)

    @rule(now=which)
    def settle_outbox(self, now: int) -> None:
        """Quiet, now and then: a round with nobody beside it and a broker that is well leaves nothing behind."""
        if now < 2:
            self.simulation.settle_outbox()

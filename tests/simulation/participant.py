"""Who takes part in a simulation, and what is remembered of them."""

from datetime import datetime, timedelta

from attrs import define, field, frozen

from tests.simulation.audit import Change
from tests.simulation.history import words
from tests.simulation.parts import Part
from tests.simulation.turns import Abandoned, Actor, Call, Place


@define(eq=False, kw_only=True)
class Participant:
    """An actor in its part."""

    name: str
    part: Part
    actor: Actor
    joined: int
    """Where in the history of states it began."""
    came_at: datetime
    """The store's time when it began."""
    earliest: datetime
    """The earliest time of the store since then, whose clock may have been set back."""
    changes: list[Change] = field(factory=list)
    interruptions: int = 0
    corrections_before: timedelta
    """By how much the store's clock had been set when it came."""
    transaction_began: int = 0
    """Where in the history of states its latest transaction began."""
    transaction_began_at: datetime

    @property
    def is_idle(self) -> bool:
        """Whether it cannot go on by itself: it is over, or has to wait for somebody."""
        return self.actor.is_over or self.actor.is_waiting

    @property
    def intention(self) -> Call | str:
        """What it is about to do."""
        match self.actor.place:
            case Place.BEGINNING:
                about = self.part.about
                return f"begins for {words(about)}" if about else "begins"
            case Place.COMMIT:
                return "commit"
            case Place.ANSWER:
                return "hears that it is committed"
            case _:
                return self.actor.call or "goes on"


@frozen
class Step:
    """What was before it."""

    what: Call | str
    error: BaseException | None
    """What goes wrong in its place."""
    begun: int
    committed: int


def kind_of(error: BaseException, place: Place) -> str:
    """What a count of misfortunes calls it."""
    if isinstance(error, Abandoned):
        return "crashes"
    if place is Place.ANSWER:
        return "lost answers"
    return "refused commits" if place is Place.COMMIT else "failed calls"

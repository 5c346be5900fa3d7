"""Histories by seed: chance decides who goes on, what goes wrong, and when time passes; the seed decides chance.

The same seed gives the same history, byte for byte, on any machine. The state machines beside it ask the same of the
same simulation in another way: Hypothesis invents short histories and shrinks one that fails to its essence; here they
are long, cheap and many, and one that fails is repeated by its seed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from application.options import CloserOptions
from tests.simulation.hosts import Host
from tests.simulation.misfortunes import INTERRUPTIONS_AT, a_cancelled_connecting, a_crash, a_lost_connection
from tests.simulation.participant import Participant
from tests.simulation.parts import Run
from tests.simulation.publishing import Mood, Publishing
from tests.simulation.simulation import DEVICES, USERS, Simulation
from tests.simulation.system import System
from tests.simulation.turns import Place

TICK: Final = timedelta(microseconds=1)
THRESHOLD: Final = CloserOptions().inactivity_threshold
TIMES: Final = (TICK, timedelta(seconds=1), timedelta(minutes=1), timedelta(minutes=5), THRESHOLD)
SILENCES: Final = (THRESHOLD, THRESHOLD + TICK, THRESHOLD + timedelta(minutes=1))
"""Exactly at the cutoff is not stale."""
CORRECTIONS: Final = (TICK, timedelta(seconds=2), timedelta(minutes=3), timedelta(hours=1))
SKEWS: Final = (timedelta(0), timedelta(seconds=1), timedelta(minutes=5), timedelta(hours=3))
UPTIMES: Final = (timedelta(0), timedelta(minutes=7), timedelta(days=40))
HASTE: Final = (1, 1, 1, 2, 3, 5, 30)
TURNS: Final = (1, 1, 2, 2, 3, 5, 8)
"""How many steps somebody takes at once; thirty is to the end of a command, and far in a run."""
DELAYS: Final = (5, 20, 60)
"""For how many steps somebody is not heard of."""
COMMANDS_MAX: Final = 4
RECENT: Final = 4
"""Sessions and views that visitors still return to."""

Element = TypeVar("Element")


class Chance:
    """Random choices, by the one source that Python promises to be the same in each of its versions."""

    def __init__(self, seed: int) -> None:
        self._next = Random(seed).random  # noqa: S311 (no secret)

    def below(self, limit: int) -> int:
        """A number from 0 on."""
        return int(self._next() * limit)

    def happens(self, probability: float) -> bool:
        """Whether something happens."""
        return self._next() < probability

    def of(self, elements: Sequence[Element]) -> Element:
        """One of them."""
        return elements[int(self._next() * len(elements))]

    def weighted(self, elements: Sequence[Element], weights: Sequence[float]) -> Element:
        """One of them; the weights are summed up already."""
        point = self._next() * weights[-1]
        return next(element for element, weight in zip(elements, weights, strict=True) if point < weight)


class Scheduler:
    """One history. What goes wrong in it, how many take part, and how often what happens is by chance as well."""

    def __init__(self, seed: int, system: System | None = None) -> None:
        self._chance = Chance(seed)
        self.simulation = Simulation(system, hosts=self._hosts())
        self._devices = DEVICES[: 1 + self._chance.below(len(DEVICES))]
        self._bursts = self._chance.of((HASTE, TURNS))
        self._workers_max = 1 + self._chance.below(4)
        self._publishers_max = self._chance.below(4)
        self._publishers: list[Publishing] = []
        """Those that are alive, between two rounds or in one."""
        self._asleep: dict[Participant, int] = {}
        """Until which step somebody is not heard of."""
        calm: dict[Callable[[], None], float] = {
            self._go_on: 50,
            self._heartbeat: 5,
            self._open_view: 7,
            self._view_heartbeat: 3,
            self._link: 3,
            self._run: 4,
            self._publish: 5,
            self._pass_time: 4,
            self._fall_silent: 3,
            self._delay: 2,
        }
        faults: dict[Callable[[], None], float] = {
            self._interrupt: 6,
            self._restart_server: 0.3,
            self._correct_clock: 0.5,
            self._change_mood: 5,
            self._spoil_or_repair: 2,
            self._cancel: 0.3,
        }
        share = self._chance.of((0, 0.5, 0.5, 1))
        chosen = {fault: weight for fault, weight in faults.items() if self._chance.happens(share)}
        weights: Mapping[Callable[[], None], float] = calm | chosen
        self._events = tuple(weights)
        self._weights = tuple(accumulate(weights.values()))

    def _hosts(self) -> Iterator[Host]:
        while True:
            sign = self._chance.of((1, -1))
            yield Host(uptime=self._chance.of(UPTIMES), skew=sign * self._chance.of(SKEWS))

    def run(self, steps: int) -> None:
        """So many steps, then quiet: everybody ends, a run leaves nothing stale, and a round delivers the rest.

        Raises Violation, or whatever an actor raised that it must not raise.
        """
        simulation = self.simulation
        try:
            for device in self._devices:
                simulation.finish(simulation.heartbeat(device))
            while len(simulation.history) < steps:
                self._chance.weighted(self._events, self._weights)()
            simulation.settle()
            simulation.settle_outbox()
        finally:
            simulation.abandon()

    # Who goes on

    def _awake(self) -> list[Participant]:
        now = len(self.simulation.history)
        return [one for one in self.simulation.participants if self._asleep.get(one, 0) <= now]

    def _go_on(self) -> None:
        awake = self._awake()
        if not awake:
            return
        one = self._chance.of(awake)
        if one.actor.is_waiting and self._chance.happens(0.7):
            one = self._chance.of(awake)  # whoever waits needs somebody else to go on
        self.simulation.step(one)
        self.simulation.advance(one, self._chance.of(self._bursts) - 1)

    def _delay(self) -> None:
        if awake := self._awake():
            self._asleep[self._chance.of(awake)] = len(self.simulation.history) + self._chance.of(DELAYS)

    # Who comes

    def _count(self, kind: type) -> int:
        return sum(isinstance(one.part, kind) for one in self.simulation.participants)

    def _may_call(self) -> bool:
        others = self._count(Run) + self._count(Publishing)
        return len(self.simulation.participants) - others < COMMANDS_MAX

    def _set_out(self, one: Participant) -> None:
        self.simulation.advance(one, self._chance.of(self._bursts))

    def _heartbeat(self) -> None:
        if self._may_call():
            self._set_out(self.simulation.heartbeat(self._chance.of(self._devices)))

    def _open_view(self) -> None:
        sessions = list(self.simulation.present.sessions)[-RECENT:]
        if sessions and self._may_call():
            self._set_out(self.simulation.open_view(self._chance.of(sessions)))

    def _view_heartbeat(self) -> None:
        views = list(self.simulation.present.views)[-RECENT:]
        if views and self._may_call():
            self._set_out(self.simulation.view_heartbeat(self._chance.of(views)))

    def _link(self) -> None:
        if self._may_call():
            self._set_out(self.simulation.link(self._chance.of(self._devices), self._chance.of(USERS)))

    def _run(self) -> None:
        if self._count(Run) < self._workers_max:
            batch_size = self._chance.of((1, 2, 500))
            group = min(batch_size, self._chance.of((1, 1, 2)))
            self._set_out(self.simulation.run(CloserOptions(batch_size=batch_size, sessions_per_transaction=group)))

    def _publish(self) -> None:
        """A publisher that lives begins its next round, or a new one comes."""
        busy = [one.part for one in self.simulation.participants]
        self._publishers = [one for one in self._publishers if not one.is_cancelled or one in busy]
        idle = [one for one in self._publishers if one not in busy]
        if idle and self._chance.happens(0.8):
            self.simulation.publish_again(self._chance.of(idle))
        elif len(self._publishers) < self._publishers_max:
            part = self.simulation.publish(self._chance.of((1, 2, 500))).part
            assert isinstance(part, Publishing)
            self._publishers.append(part)

    # What happens to them

    def _pass_time(self) -> None:
        self.simulation.pass_time(self._chance.of(TIMES))

    def _fall_silent(self) -> None:
        """Everything that is there goes stale, and a worker comes for it."""
        self.simulation.pass_time(self._chance.of(SILENCES))
        self._run()

    def _interrupt(self) -> None:
        if not self.simulation.participants:
            return
        one = self._chance.of(self.simulation.participants)
        interruption = self._chance.of(INTERRUPTIONS_AT[one.actor.place])
        is_cancelled = isinstance(one.part, Run | Publishing) and one.part.is_cancelled
        if is_cancelled and one.actor.place is Place.CLOCK:
            interruption = a_cancelled_connecting
        if interruption is a_crash and one.part in self._publishers:
            self._publishers.remove(one.part)
        self.simulation.step(one, interruption)

    def _restart_server(self) -> None:
        """Everybody who has to do with the store loses the connection at once."""
        for one in list(self.simulation.participants):
            if a_lost_connection in INTERRUPTIONS_AT[one.actor.place] and one.actor.place is not Place.BROKER:
                self.simulation.step(one, a_lost_connection)

    def _correct_clock(self) -> None:
        self.simulation.correct_clock(self._chance.of((1, -1)) * self._chance.of(CORRECTIONS))

    def _change_mood(self) -> None:
        mood = self._chance.of((Mood.WELL, *Mood))
        pending = self.simulation.present.pending
        self.simulation.change_mood(mood, self._chance.of(pending) if pending else None)

    def _spoil_or_repair(self) -> None:
        present = self.simulation.present
        rows: list[UUID] = [*list(present.sessions)[-RECENT:], *list(present.views)[-RECENT:]]
        if rows:
            self.simulation.spoil_or_repair(self._chance.of(rows))

    def _cancel(self) -> None:
        self.simulation.cancel()

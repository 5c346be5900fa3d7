"""The rules by which Hypothesis invents histories of visitors, workers, time and misfortune."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from application.options import CloserOptions
from tests.simulation.misfortunes import INTERRUPTIONS, Interruption
from tests.simulation.participant import Participant
from tests.simulation.parts import Run
from tests.simulation.simulation import DEVICES, USERS, Simulation
from tests.simulation.system import System

THRESHOLD: Final = timedelta(minutes=12)
SILENCES: Final = [THRESHOLD, THRESHOLD + timedelta(microseconds=1), THRESHOLD + timedelta(minutes=1)]
"""Exactly at the cutoff is not stale."""
TIMES: Final = [timedelta(seconds=1), timedelta(minutes=5), *SILENCES]
WORKERS_MAX: Final = 3
CLIENTS_MAX: Final = 4

Element = TypeVar("Element")

transactions = st.integers(0, 3)
statements = st.integers(0, 4)
"""How far a worker comes at once: to the beginning of its next transaction but so many, then so many statements."""
way = st.sampled_from([0, 1, 2, 3, 30, 30, 30])
"""How far a command comes at once, in statements; thirty is to its end."""
which = st.integers(0, 5)
"""One of several, counted from the newest."""


def pick(elements: Sequence[Element], number: int) -> Element:
    """One of them, counted from the newest."""
    return elements[-1 - number % len(elements)]


class CloserMachine(RuleBasedStateMachine):
    """Histories of the whole system, or of a wrong one."""

    system = System()

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(type(self).system)

    @initialize(devices=st.integers(1, len(DEVICES)))
    def visitors_arrive(self, devices: int) -> None:
        """Every device starts a session and opens a view; the fewer there are, the more they meet."""
        self.devices = DEVICES[:devices]
        self._visit()

    def _visit(self) -> None:
        for anonymous_id in self.devices:
            self.simulation.finish(self.simulation.heartbeat(anonymous_id))
            if session := self.simulation.present.active_of(anonymous_id):
                self.simulation.finish(self.simulation.open_view(session.id))

    def _set_out(self, participant: Participant, way: int) -> None:
        self.simulation.begin_transactions(participant, 1)  # it has read the time by then
        self.simulation.advance(participant, way)

    def teardown(self) -> None:
        self.simulation.abandon()

    def _runs(self) -> list[Participant]:
        return [one for one in self.simulation.participants if isinstance(one.part, Run)]

    def _may_call(self) -> bool:
        return len(self.simulation.participants) - len(self._runs()) < CLIENTS_MAX

    def _may_run(self) -> bool:
        return len(self._runs()) < WORKERS_MAX

    def _is_running(self) -> bool:
        return bool(self._runs())

    def _is_busy(self) -> bool:
        return bool(self.simulation.participants)

    @precondition(_may_call)
    @rule(which=which, way=way)
    def session_heartbeat(self, which: int, way: int) -> None:
        """A device is there, or there again."""
        self._set_out(self.simulation.heartbeat(pick(self.devices, which)), way)

    @precondition(_may_call)
    @rule(which=which, way=way)
    def open_view(self, which: int, way: int) -> None:
        """A visitor opens an object, under a session that may have been closed meanwhile."""
        session = pick(list(self.simulation.present.sessions.values()), which)
        self._set_out(self.simulation.open_view(session.id), way)

    @precondition(_may_call)
    @rule(which=which, way=way)
    def view_heartbeat(self, which: int, way: int) -> None:
        """A visitor still looks."""
        if views := list(self.simulation.present.views.values()):
            self._set_out(self.simulation.view_heartbeat(pick(views, which).id), way)

    @precondition(_may_call)
    @rule(which=which, user=st.sampled_from(USERS), way=way)
    def link_session(self, which: int, user: UUID, way: int) -> None:
        """Somebody signs in; if somebody else was signed in, the device's session switches."""
        self._set_out(self.simulation.link(pick(self.devices, which), user), way)

    @precondition(_may_run)
    @rule(batch_size=st.sampled_from([1, 2, 500]), group=st.sampled_from([1, 2]))
    def start_run(self, batch_size: int, group: int) -> None:
        """A worker ticks."""
        options = CloserOptions(batch_size=batch_size, sessions_per_transaction=min(batch_size, group))
        self._set_out(self.simulation.run(options), 0)

    @precondition(_is_running)
    @rule(which=which, transactions=transactions, statements=statements)
    def worker_goes_on(self, which: int, transactions: int, statements: int) -> None:
        """A worker comes some way further, and stops in the middle of something."""
        worker = pick(self._runs(), which)
        self.simulation.step(worker)
        self.simulation.begin_transactions(worker, transactions)
        self.simulation.advance(worker, statements)

    @precondition(_is_busy)
    @rule(which=which, way=way)
    def somebody_goes_on(self, which: int, way: int) -> None:
        """One of those who are under way comes some way further."""
        participant = pick(self.simulation.participants, which)
        self.simulation.step(participant)
        self.simulation.advance(participant, way)

    @precondition(_is_busy)
    @rule(which=which, misfortune=st.sampled_from([*INTERRUPTIONS, "cancellation", "bad session", "bad view"]))
    def misfortune(self, which: int, misfortune: Interruption | str) -> None:
        """Something goes wrong where somebody stands, between any two statements or after a commit."""
        present = self.simulation.present
        if not isinstance(misfortune, str):
            self.simulation.step(pick(self.simulation.participants, which), misfortune)
        elif misfortune == "cancellation":
            self.simulation.cancel()
        elif rows := list(present.sessions if misfortune == "bad session" else present.views):
            self.simulation.spoil_or_repair(pick(rows, which))

    @precondition(_may_run)
    @rule(
        by=st.sampled_from(SILENCES),
        batch_size=st.sampled_from([500, 500, 1]),
        transactions=transactions,
        statements=statements,
    )
    def visitors_leave(self, by: timedelta, batch_size: int, transactions: int, statements: int) -> None:
        """Every device has been there once more, then is silent for long, and a worker has some of it in hand."""
        self._visit()
        self.simulation.pass_time(by)
        worker = self.simulation.run(CloserOptions(batch_size=batch_size))
        self.simulation.begin_transactions(worker, 1 + transactions)
        self.simulation.advance(worker, statements)

    @rule(by=st.sampled_from(TIMES))
    def pass_time(self, by: timedelta) -> None:
        """Time goes on."""
        self.simulation.pass_time(by)

    @rule(now=which)
    def settle(self, now: int) -> None:
        """Quiet, now and then: everybody ends, and a run with nobody beside it leaves nothing stale."""
        if now < 2:
            self.simulation.settle()

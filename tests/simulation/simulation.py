"""Visitors and workers on one store, moved on step by step, each step audited."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import define, field

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.message_sending import InMemoryBroker
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork, InMemoryUnitOfWork
from application.online.errors import SessionNotFound
from application.online.link_session import LinkSession
from application.online.open_view import OpenView
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.options import CloserOptions
from application.ports.store_errors import StoreError, StoreUnavailable, TransactionRefused
from domain.activity import CannotClose, is_stale
from tests.simulation.audit import Change, Snapshot, check_change, check_state, require
from tests.simulation.parts import Ending, Heartbeat, Linking, Part, Run, ViewBeat, ViewOpening
from tests.simulation.publishing import LEASES_ARE_OVER_AFTER, Publishing
from tests.simulation.stepping_sender import SenderKind, SteppingSender
from tests.simulation.stepping_store import OutboxRoles, Roles, SteppingOutboxStore, SteppingStore
from tests.simulation.turns import Abandoned, Actor, Turns

STEPS_MAX: Final = 5_000
"""More than any run takes on the few rows of a simulation; whoever takes more goes round in circles."""


def a_lost_connection() -> BaseException:
    """The server, or the way to it, is gone; whether a commit went through stays unknown."""
    return StoreUnavailable(kind="connection", reason="the connection was lost")


def a_refusal() -> BaseException:
    """The statement took too long."""
    return TransactionRefused(kind="57014", reason="statement timeout")


def a_crash() -> BaseException:
    """The process dies; its transaction is rolled back."""
    return Abandoned()


Interruption = Callable[[], BaseException]
INTERRUPTIONS: Final[tuple[Interruption, ...]] = (a_lost_connection, a_refusal, a_crash)
REFUSED_KINDS: Final = frozenset({"connection", "57014", "P0001"})
"""Of the errors above, and of a trigger that refuses a row."""


@define(eq=False, kw_only=True)
class Participant:
    """An actor in its part."""

    part: Part
    actor: Actor
    changes: list[Change] = field(factory=list)
    joined: int
    """Where in the history it began."""
    interruptions: int = 0
    transaction_began: int = 0
    """Where in the history its latest transaction began."""


class Simulation:
    """The whole system in memory: nothing in it happens by itself."""

    def __init__(
        self,
        *,
        roles: Roles = InMemoryUnitOfWork,
        outbox_roles: OutboxRoles = InMemoryOutboxUnitOfWork,
        sender: SenderKind = SteppingSender,
    ) -> None:
        self.clock = SettableClock()
        self.identifiers = CountingIdentifiers()
        self.refused: set[UUID] = set()
        """Rows that a trigger refuses to close."""
        self.turns = Turns()
        self.store = SteppingStore(
            self.turns, clock=self.clock, refuses=lambda row: row.id in self.refused, roles=roles
        )
        self.outbox_store = SteppingOutboxStore(self.store, roles=outbox_roles)
        self.broker = InMemoryBroker()
        self.sender = sender(self.turns, self.broker, self.clock)
        self.may_repeat = False
        """Whether something has happened for which an event may arrive twice."""
        self.history = [Snapshot.of(self.store)]
        """Every committed state, in order."""
        self.participants: list[Participant] = []
        """Those who are not over."""

    @property
    def present(self) -> Snapshot:
        """What is committed now."""
        return self.history[-1]

    # Who takes part

    def run(self, options: CloserOptions | None = None) -> Participant:
        """A worker begins a run."""
        return self._join(
            Run(
                store=self.store,
                identifiers=self.identifiers,
                options=options or CloserOptions(),
                refused_kinds=REFUSED_KINDS,
            )
        )

    def heartbeat(self, anonymous_id: UUID) -> Participant:
        """A device calls start-session or session-heartbeat."""
        command = StartSession(store=self.store, identifiers=self.identifiers)
        return self._join(Heartbeat(command=command, anonymous_id=anonymous_id))

    def open_view(self, session_id: UUID) -> Participant:
        """A visitor opens an object."""
        command = OpenView(store=self.store, identifiers=self.identifiers)
        object_id = UUID(int=len(self.present.views))
        return self._join(ViewOpening(command=command, session_id=session_id, property_object_id=object_id))

    def view_heartbeat(self, view_id: UUID) -> Participant:
        """A visitor still looks at it."""
        return self._join(ViewBeat(command=ViewHeartbeat(store=self.store), view_id=view_id))

    def link(self, anonymous_id: UUID, user_id: UUID) -> Participant:
        """Somebody signs in on a device."""
        command = LinkSession(store=self.store, identifiers=self.identifiers)
        return self._join(Linking(command=command, anonymous_id=anonymous_id, user_id=user_id))

    def publish(self, batch_size: int = 500) -> Participant:
        """A publisher begins a round."""
        return self._join(
            Publishing(
                store=self.outbox_store,
                sender=self.sender,
                identifiers=self.identifiers,
                broker=self.broker,
                batch_size=batch_size,
            )
        )

    def _join(self, part: Part) -> Participant:
        participant = Participant(part=part, actor=Actor(self.turns, part.act), joined=len(self.history) - 1)
        self.participants.append(participant)
        self.step(participant)  # to its first statement: it has read the time by then
        return participant

    # What happens

    def step(self, participant: Participant, interruption: Interruption | None = None) -> None:
        """One statement of one of them, or an interruption in its place; then everything is checked."""
        actor = participant.actor
        begun, committed = actor.begun, actor.committed
        participant.interruptions += interruption is not None
        if isinstance(participant.part, Publishing) and (interruption or not self.is_well):
            self.may_repeat = True
        actor.step(interruption() if interruption else None)
        before, after = self.present, Snapshot.of(self.store)
        if after != before:
            self.history.append(after)
            check_state(after)
        if actor.begun > begun:
            participant.transaction_began = len(self.history) - 1
        if actor.committed > committed:
            self._check_commit(participant, Change(before=before, after=after, at=self.clock.now()))
        require(actor.committed > committed or after == before, "INV-SES-005: nothing changes but by a commit")
        waits = isinstance(participant.part, Run) and actor.is_waiting
        require(not waits, "D-03: the closer never waits for a row lock")
        arrivals = Counter(message.id for message in self.broker.arrived)
        once = max(arrivals.values(), default=0) <= 1
        require(once or self.may_repeat, "BR-38: without a fault each event arrives once")
        if actor.is_over:
            self.participants.remove(participant)
            self._check_ending(participant)

    def advance(self, participant: Participant, steps: int) -> None:
        """Up to so many steps; fewer if it is over, or has to wait for somebody."""
        for _ in range(steps):
            if participant.actor.is_over or participant.actor.is_waiting:
                return
            self.step(participant)

    def begin_transactions(self, participant: Participant, count: int) -> None:
        """All steps to where it has begun so many more transactions; fewer if it is over, or has to wait."""
        begun = participant.actor.begun + count
        while participant.actor.begun < begun and not participant.actor.is_over and not participant.actor.is_waiting:
            self.step(participant)

    def finish(self, participant: Participant) -> None:
        """All of its steps, as long as it need not wait for somebody."""
        self.advance(participant, STEPS_MAX)
        ended = participant.actor.is_over or participant.actor.is_waiting
        require(ended, "D-04: a run moves forward and ends")

    def finish_all(self) -> None:
        """Everybody comes to an end; who waits goes on once the others are over, or gives up."""
        while self.participants:
            for participant in list(self.participants):
                self.step(participant)
                self.finish(participant)

    def settle(self) -> None:
        """Everybody comes to an end, bad rows are repaired, and one run with nobody beside it leaves nothing stale."""
        self.finish_all()
        self.refused.clear()
        run = self.run(CloserOptions(batch_size=2, sessions_per_transaction=2))
        self.finish(run)
        cutoff = self.clock.now() - CloserOptions().inactivity_threshold
        require(not any(is_stale(row, cutoff) for row in self.present.rows), "§5: after a run nothing stale remains")
        settled = self.present
        self.finish(self.run())
        require(self.present == settled, "§9: a second run closes nothing and writes no event")

    def settle_outbox(self) -> None:
        """Everybody comes to an end, the broker is well, all leases are over: then one round delivers the rest."""
        self.finish_all()
        self.broker.is_down = self.broker.loses_answers = False
        self.broker.missing_topics.clear()
        self.broker.refuses = lambda _: False
        self.pass_time(LEASES_ARE_OVER_AFTER)
        self.finish(self.publish(batch_size=2))
        left = {message.id for message in self.present.messages} - self.present.published - self.present.dead
        require(not left, "§9: at least once, every event is delivered")
        arrived = len(self.broker.arrived)
        self.finish(self.publish())
        require(len(self.broker.arrived) == arrived, "what is delivered or dead is not sent again")

    @property
    def is_well(self) -> bool:
        """Whether the broker answers."""
        return not (self.broker.is_down or self.broker.loses_answers)

    def cancel(self) -> None:
        """The operator wants all runs to end, and all publishing."""
        for participant in self.participants:
            if isinstance(participant.part, Run | Publishing):
                participant.part.is_cancelled = True

    def abandon(self) -> None:
        """Ends all threads."""
        while self.participants:
            self.participants.pop().actor.abandon()

    def pass_time(self, by: timedelta) -> None:
        """Time goes on, for everybody at once; leases of publishers that are under way may run out."""
        self.may_repeat |= any(isinstance(one.part, Publishing) for one in self.participants)
        self.clock.move(by)

    # What is checked

    def _check_commit(self, participant: Participant, change: Change) -> None:
        check_change(change)
        since = participant.transaction_began

        def users_seen(session_id: UUID) -> set[UUID | None]:
            states = self.history[since:]
            return {state.sessions[session_id].user_id for state in states if session_id in state.sessions}

        participant.part.check_change(change, users_seen)
        participant.changes.append(change)

    def _check_ending(self, participant: Participant) -> None:
        error = participant.actor.error
        if isinstance(error, Abandoned):
            return
        if isinstance(error, StoreError) and not isinstance(participant.part, Run):
            unknown = participant.interruptions > 0
            require(unknown or not participant.changes, "INV-SES-005: a command that failed changed nothing")
            return
        require(not isinstance(error, CannotClose), "D-03: what is Active under its lock can be closed")
        known = error is None or isinstance(error, SessionNotFound)
        if not known:
            assert error is not None
            raise error
        participant.part.check_ending(
            Ending(
                answer=participant.actor.answer,
                error=error,
                changes=participant.changes,
                past=self.history[participant.joined :],
                undisturbed=participant.interruptions == 0,
            )
        )

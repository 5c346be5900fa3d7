"""Visitors and workers on one store, moved on step by step, each step audited."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import cycle
from typing import Final
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.message_sending import InMemoryBroker
from application.online.errors import SessionNotFound
from application.online.link_session import LinkSession
from application.online.open_view import OpenView
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.options import CloserOptions
from application.ports.outbox import OutboxMessage
from application.ports.store_errors import StoreError
from domain.activity import CannotClose, is_stale
from tests.simulation.audit import Change, Snapshot, check_change, check_state, require
from tests.simulation.history import End, History
from tests.simulation.hosts import HOSTS, ClockKind, Host, HostClock
from tests.simulation.misfortunes import REFUSED_KINDS, Interruption
from tests.simulation.participant import Participant, Step, kind_of
from tests.simulation.parts import Ending, Heartbeat, Linking, Part, Run, ViewBeat, ViewOpening
from tests.simulation.publishing import LEASE_LASTS, Mood, Publishing
from tests.simulation.stepping_store import HostedOutboxStore, HostedStore, SteppingStore
from tests.simulation.system import System
from tests.simulation.turns import Abandoned, Actor, Turns

STEPS_MAX: Final = 5_000
"""More than any run takes on the few rows of a simulation; whoever takes more goes round in circles."""
DEVICES: Final = [UUID(int=0xD0 + number) for number in range(3)]
USERS: Final = [UUID(int=0xA0 + number) for number in range(2)]


class Simulation:
    """The whole system in memory: nothing in it happens by itself."""

    def __init__(self, system: System | None = None, *, hosts: Iterable[Host] | None = None) -> None:
        self._system = system or System()
        self._hosts: Iterator[Host] = iter(hosts or cycle(HOSTS))
        """Where those who come are, one after the other."""
        self.clock = SettableClock()
        self.corrections = timedelta(0)
        """By how much the store's clock has been set so far, forward or back."""
        self.identifiers = CountingIdentifiers()
        self.refused: set[UUID] = set()
        """Rows that a trigger refuses to close."""
        self.turns = Turns()
        self.store = SteppingStore(self.turns, clock=self.clock, refuses=lambda row: row.id in self.refused)
        self.broker = InMemoryBroker()
        self.sender = self._system.sender(self.turns, self.broker, self.clock)
        self.may_repeat = False
        """Whether something has happened for which an event may arrive twice."""
        self.states = [Snapshot.of(self.store.tables)]
        """Every committed state, in order."""
        self.history = History(self.clock.read())
        """Every step, in order."""
        self.participants: list[Participant] = []
        """Those who are not over."""
        self.tally = Counter[str]()
        """How often what has happened."""
        self._names = Counter[str]()
        self._arrived = 0

    @property
    def present(self) -> Snapshot:
        """What is committed now."""
        return self.states[-1]

    # Who takes part

    def run(self, options: CloserOptions | None = None) -> Participant:
        """A worker begins a run."""
        return self._join(
            Run(
                store=self._hosted_store(self._system.workers_clock),
                identifiers=self.identifiers,
                options=options or CloserOptions(),
                refused_kinds=REFUSED_KINDS,
            )
        )

    def heartbeat(self, anonymous_id: UUID) -> Participant:
        """A device calls start-session or session-heartbeat."""
        command = StartSession(store=self._hosted_store(), identifiers=self.identifiers)
        return self._join(Heartbeat(command=command, anonymous_id=anonymous_id))

    def open_view(self, session_id: UUID) -> Participant:
        """A visitor opens an object."""
        command = OpenView(store=self._hosted_store(), identifiers=self.identifiers)
        object_id = UUID(int=len(self.present.views))
        return self._join(ViewOpening(command=command, session_id=session_id, property_object_id=object_id))

    def view_heartbeat(self, view_id: UUID) -> Participant:
        """A visitor still looks at it."""
        return self._join(ViewBeat(command=ViewHeartbeat(store=self._hosted_store()), view_id=view_id))

    def link(self, anonymous_id: UUID, user_id: UUID) -> Participant:
        """Somebody signs in on a device."""
        command = LinkSession(store=self._hosted_store(), identifiers=self.identifiers)
        return self._join(Linking(command=command, anonymous_id=anonymous_id, user_id=user_id))

    def publish(self, batch_size: int = 500) -> Participant:
        """A new publisher begins its first round."""
        clock, roles = self._new_clock(), self._system.outbox_roles
        return self.publish_again(
            Publishing(
                name=self._new_name(Publishing.title),
                store=HostedOutboxStore(self.store, self.turns, clock=clock, roles=roles),
                sender=self.sender,
                identifiers=self.identifiers,
                broker=self.broker,
                batch_size=batch_size,
            )
        )

    def publish_again(self, publisher: Publishing) -> Participant:
        """A publisher whose last round is over begins another."""
        return self._join(publisher, publisher.name)

    def _hosted_store(self, kind: ClockKind = HostClock) -> HostedStore:
        return HostedStore(self.store, self.turns, clock=self._new_clock(kind), roles=self._system.roles)

    def _new_clock(self, kind: ClockKind = HostClock) -> HostClock:
        return kind(self.turns, self.clock, next(self._hosts))

    def _new_name(self, title: str) -> str:
        self._names[title] += 1
        return f"{title} {self._names[title]}"

    def _join(self, part: Part, name: str | None = None) -> Participant:
        now = self.clock.read()
        participant = Participant(
            name=name or self._new_name(part.title),
            part=part,
            actor=Actor(self.turns, part.act),
            joined=len(self.states) - 1,
            came_at=now,
            earliest=now,
            corrections_before=self.corrections,
            transaction_began_at=now,
        )
        self.participants.append(participant)
        self.step(participant)  # to where it asks for the time
        return participant

    # What happens

    def step(self, participant: Participant, interruption: Interruption | None = None) -> None:
        """One call of a port, or an interruption in its place; then everything is checked."""
        self._take_steps(participant, lambda: False, interruption)

    def _take_steps(
        self, participant: Participant, goes_on: Callable[[], bool], interruption: Interruption | None = None
    ) -> None:
        """One step, and more as long as it goes on; fewer if it is over, or has to wait for somebody."""
        actor, error = participant.actor, interruption() if interruption else None
        step = self._before_step(participant, error)

        def is_next() -> bool:
            nonlocal step
            self._after_step(participant, step)
            if actor.is_waiting or not goes_on():
                return False
            step = self._before_step(participant)
            return True

        actor.step(error, goes_on=is_next)
        if actor.is_over:
            self._after_step(participant, step)

    def _before_step(self, participant: Participant, error: BaseException | None = None) -> Step:
        actor = participant.actor
        if error is not None:
            participant.interruptions += 1
            self.tally[kind_of(error, actor.place)] += 1
        if isinstance(participant.part, Publishing) and (error or not self.is_well):
            self.may_repeat = True
        return Step(participant.intention, error, actor.begun, actor.committed)

    def _after_step(self, participant: Participant, step: Step) -> None:
        actor = participant.actor
        self.tally["steps"] += 1
        change = self._commit(participant) if actor.committed > step.committed else None
        if actor.begun > step.begun:
            participant.transaction_began = len(self.states) - 1
            participant.transaction_began_at = self.clock.read()
        self._tell(participant, step, change)
        if change is not None:
            self._check_commit(participant, change)
        self._check_step(participant)
        if actor.is_over:
            self.participants.remove(participant)
            self._check_ending(participant)

    def _commit(self, participant: Participant) -> Change:
        before = self.present
        after = before if before.is_of(self.store.tables) else Snapshot.of(self.store.tables)
        if after is not before:
            self.states.append(after)
        self.tally["commits"] += 1
        return Change(
            before=before,
            after=after,
            came_at=participant.came_at,
            began_at=participant.transaction_began_at,
            at=self.clock.read(),
            corrections=self.corrections - participant.corrections_before,
        )

    def _tell(self, participant: Participant, step: Step, change: Change | None) -> None:
        actor = participant.actor
        outcomes: list[object] = [step.error] if step.error else list(actor.outcomes)
        if change is not None:
            outcomes.append(change)
        if actor.is_over:
            outcomes.append(End(actor.answer, actor.error))
        elif actor.is_waiting:
            outcomes.append("waits for a lock")
        self.history.tell(self.clock.read(), participant.name, step.what, *outcomes)

    def advance(self, participant: Participant, steps: int) -> None:
        """Up to so many steps; fewer if it is over, or has to wait for somebody."""
        if steps > 0 and not participant.is_idle:
            left = iter(range(steps - 1))
            self._take_steps(participant, lambda: next(left, None) is not None)

    def begin_transactions(self, participant: Participant, count: int) -> None:
        """All steps to where it has begun so many more transactions; fewer if it is over, or has to wait."""
        begun = participant.actor.begun + count
        if count > 0 and not participant.is_idle:
            self._take_steps(participant, lambda: participant.actor.begun < begun)

    def finish(self, participant: Participant) -> None:
        """All of its steps, as long as it need not wait for somebody."""
        self.advance(participant, STEPS_MAX)
        require(participant.is_idle, "D-04: whoever runs moves forward and ends")

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
        cutoff = self.clock.read() - CloserOptions().inactivity_threshold
        require(not any(is_stale(row, cutoff) for row in self.present.rows), "§5: after a run nothing stale remains")
        settled = self.present
        self.finish(self.run())
        require(self.present == settled, "§9: a second run closes nothing and writes no event")

    def settle_outbox(self) -> None:
        """Everybody comes to an end, the broker is well, all leases are over: then one round delivers the rest."""
        self.finish_all()
        self.change_mood(Mood.WELL)
        self.pass_time(LEASE_LASTS + self.corrections)
        self.finish(self.publish(batch_size=2))
        require(not self.present.pending, "§9: at least once, every event is delivered")
        arrived = len(self.broker.arrived)
        self.finish(self.publish())
        require(len(self.broker.arrived) == arrived, "what is delivered or dead is not sent again")

    def abandon(self) -> None:
        """Ends all threads."""
        while self.participants:
            self.participants.pop().actor.abandon()

    # What the world does

    @property
    def is_well(self) -> bool:
        """Whether the broker answers."""
        return not (self.broker.is_down or self.broker.loses_answers)

    def change_mood(self, mood: Mood, message: OutboxMessage | None = None) -> None:
        """The broker fails in one way or another, for one of the messages, say, or is well again."""
        broker = self.broker
        broker.is_down = mood is Mood.DOWN
        broker.loses_answers = mood is Mood.LOSES_ANSWERS
        broker.refuses = lambda _: False
        broker.missing_topics.clear()
        if message is not None and mood is Mood.REFUSES_AN_EVENT:
            broker.refuses = lambda one: one.id == message.id
        elif message is not None and mood is Mood.LACKS_A_TOPIC:
            broker.missing_topics.add(message.topic)
        self.history.tell(self.clock.read(), "broker", mood, message)

    def spoil_or_repair(self, row_id: UUID) -> None:
        """A trigger refuses to close the row from now on, or no longer."""
        self.refused ^= {row_id}
        what = "refuses from now on" if row_id in self.refused else "refuses no longer"
        self.history.tell(self.clock.read(), "trigger", what, row_id)

    def cancel(self) -> None:
        """The operator wants all runs to end, and all publishing."""
        for participant in self.participants:
            if isinstance(participant.part, Run | Publishing):
                participant.part.is_cancelled = True
        self.history.tell(self.clock.read(), "operator", "wants all runs and publishers to end")

    def pass_time(self, by: timedelta) -> None:
        """Time goes on, for everybody at once."""
        self.clock.move(by)
        self._let_leases_run_out()
        self.history.tell(self.clock.read(), "time", f"goes on by {by}")

    def correct_clock(self, by: timedelta) -> None:
        """Somebody sets the store's clock, forward or back."""
        self.clock.step(by)
        self.corrections += abs(by)
        self._let_leases_run_out()
        direction = "back" if by < timedelta(0) else "forward"
        self.history.tell(self.clock.read(), "store's clock", f"is set {direction} by {abs(by)}")

    def _let_leases_run_out(self) -> None:
        """A publisher that is under way may have no right any more to what it sends."""
        now = self.clock.read()
        for one in self.participants:
            one.earliest = min(one.earliest, now)
            self.may_repeat |= isinstance(one.part, Publishing) and now - one.earliest >= LEASE_LASTS

    # What is checked

    def _check_commit(self, participant: Participant, change: Change) -> None:
        if change.after is not change.before:
            check_state(change.after)
        check_change(change)
        since = participant.transaction_began

        def users_seen(session_id: UUID) -> set[UUID | None]:
            states = self.states[since:]
            return {state.sessions[session_id].user_id for state in states if session_id in state.sessions}

        participant.part.check_change(change, users_seen)
        participant.changes.append(change)

    def _check_step(self, participant: Participant) -> None:
        require(self.present.is_of(self.store.tables), "INV-SES-005: nothing changes but by a commit")
        waits = isinstance(participant.part, Run) and participant.actor.is_waiting
        require(not waits, "D-03: the closer never waits for a row lock")
        if len(self.broker.arrived) > self._arrived and not self.may_repeat:
            arrivals = Counter(message.id for message in self.broker.arrived)
            require(max(arrivals.values()) <= 1, "BR-38: without a fault each event arrives once")
        self._arrived = len(self.broker.arrived)

    def _check_ending(self, participant: Participant) -> None:
        error = participant.actor.error
        if isinstance(error, Abandoned):
            return
        if isinstance(error, StoreError) and not isinstance(participant.part, Run):
            unknown = participant.interruptions > 0
            require(unknown or not participant.changes, "INV-SES-005: a command that failed changed nothing")
            return
        require(not isinstance(error, CannotClose), "D-03: what is Active under its lock can be closed")
        known = error is None or isinstance(error, SessionNotFound | StoreError)
        if not known:
            assert error is not None
            raise error
        participant.part.check_ending(
            Ending(
                answer=participant.actor.answer,
                error=error,
                changes=participant.changes,
                past=self.states[participant.joined :],
                undisturbed=participant.interruptions == 0,
            )
        )

"""Where histories are played: two stores, the rows that are known, and who has which of them in hand."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import ClassVar, Final, TypeVar
from uuid import UUID

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from adapters.postgres.deliveries import SLICES
from application.contracts.subject import put
from application.event_contract import message_of
from application.ports.deliveries import Lease
from application.ports.outbox import OutboxMessage
from application.ports.outbox_store import OutboxUnitOfWork
from application.ports.unit_of_work import UnitOfWork
from domain.activity import ActivityStatus
from domain.closing import HangingView, OpenSession, SessionEnded
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.agreement import calls
from tests.agreement.calls import Claimed, Row
from tests.agreement.hand import Action
from tests.agreement.sides import CLIENTS, NOW, PUBLISHERS, InMemoryPlace, PostgresPlace
from tests.agreement.together import Together
from tests.simulation.closer_machine import pick

DEVICES: Final = [UUID(int=0xD0 + number) for number in range(3)]
USERS: Final = [UUID(int=0xE0 + number) for number in range(2)]
OBJECT: Final = UUID(int=0x0B)
SESSION_IDS: Final = 0x5E
VIEW_IDS: Final = 0x1F
MINUTE: Final = timedelta(minutes=1)
BEGINNING: Final = NOW - timedelta(hours=1)
SILENCES: Final = [30 * MINUTE, 12 * MINUTE, timedelta(0)]
"""Exactly at the cutoff is not stale."""
EVENTS_MAX: Final = SLICES
"""One in each slice of the outbox, where a lease of slices is one of events."""

Touches = Collection[Hashable]
RowKind = TypeVar("RowKind", Session, PropertyObjectView)

client = st.sampled_from(CLIENTS)
anybody = st.sampled_from([*CLIENTS, *PUBLISHERS])
publisher = st.sampled_from(PUBLISHERS)
which = st.integers(0, 4)
"""One of several, counted from the newest."""
silence = st.sampled_from([SILENCES[0], *SILENCES])
user = st.sampled_from([None, *USERS])


def device_key(anonymous_id: UUID) -> Hashable:
    """What two Active sessions of a device would share."""
    return ("device", anonymous_id)


class Stage(RuleBasedStateMachine):
    """Two stores at the beginning of a history, and what its rules have in common."""

    postgres: ClassVar[PostgresPlace]
    in_memory: ClassVar[Callable[[], InMemoryPlace]] = InMemoryPlace

    def __init__(self) -> None:
        super().__init__()
        self.postgres.clear()
        self.together = Together(type(self).in_memory(), self.postgres)
        self.ids = 0
        self.events: list[UUID] = []
        self.given_to_links: set[UUID] = set()
        """Ids of events, one of which may be a session's."""
        self.leases: list[tuple[Lease, int]] = []
        """With how many events they may be for."""

    def teardown(self) -> None:
        self.together.leave()

    @initialize(
        sessions=st.lists(st.tuples(silence, user, st.lists(silence, min_size=1, max_size=2)), min_size=1, max_size=3),
        events=st.integers(0, 3),
    )
    def begin(self, sessions: list[tuple[timedelta, UUID | None, list[timedelta]]], events: int) -> None:
        """Each device has a session, silent for so long, with views."""
        rows: list[Row] = []
        for anonymous_id, (idle, user_id, views) in zip(DEVICES, sessions, strict=False):
            rows.append(session := self.new_session(anonymous_id, idle, user_id))
            rows.extend(self.new_view(session.id, idle) for idle in views)
        for side in self.together.sides:
            put(side.place.store, *rows)
        messages = [a_message(event_id) for event_id in self.new_events(events)]
        for side in self.together.sides:
            with side.place.store.begin() as work:
                work.outbox.append(messages)
                work.commit()

    def lock(self, name: str, what: str, row_id: UUID, lock: Callable[[UnitOfWork], object], touches: Touches) -> None:
        def learn(locked: object) -> None:
            self.learn(name, locked if isinstance(locked, list) else [locked])

        told = f"locks {what} {row_id.int:x}"
        self.together.do(name, told, lambda work, _: lock(work), touches=touches, learn=learn)

    def claim_sessions_by_id(self, name: str, ids: Sequence[UUID]) -> None:
        """But for those that are known to be alive: PostgreSQL alone keeps them locked, though they are not claimed."""
        ids = [one for one in ids if not self.is_fresh(name, one)]
        touches = {*ids, *(view for view, session_id in self.together.views.items() if session_id in ids)}

        def learn(claim: Claimed) -> None:
            self.learn(name, claim.rows)
            self.together.standing[name].touched |= touches

        self.together.do(name, f"claims sessions {in_short(ids)}", calls.claim_sessions(ids), learn=learn)

    def change(
        self, name: str, told: str, make: Callable[[UnitOfWork], None], touches: Touches, row: Row | None = None
    ) -> None:
        def learn(_: object) -> None:
            if row:
                self.changed(name, [row])

        self.together.do(name, told, calls.change(make), touches=touches, learn=learn)

    def close(self, name: str, closed: OpenSession | HangingView, touches: Touches) -> None:
        ended = closed.close(NOW)
        if not self.together.may(name, touches) or len(self.events) + len(ended) > EVENTS_MAX:
            return
        event_ids = self.new_events(len(ended))

        def learn(_: object) -> None:
            self.changed(name, [one.session if isinstance(one, SessionEnded) else one.view for one in ended])

        told = f"closes {closed.id.int:x}"
        self.together.do(name, told, calls.close(ended, event_ids), touches=[*touches, *event_ids], learn=learn)

    def record(self, name: str, told: str, which: int, call: Callable[[UUID], Action]) -> None:
        if self.events:
            event_id = pick(self.events, which)
            self.change_outbox(name, f"records {event_id.int:x} as {told}", call(event_id), [event_id])

    def remove(self, name: str, told: str, remove: Callable[[OutboxUnitOfWork], int]) -> None:
        # Others may have to wait for what it takes.
        self.change_outbox(name, f"removes what {told}", calls.record(remove), [], touched=self.events)

    def change_outbox(self, name: str, told: str, call: Action, touches: Touches, *, touched: Touches = ()) -> None:
        if any(self.together.standing[other].leases for other in self.together.standing if other != name):
            return
        if self.together.may(name, touches):
            self.together.standing[name].records = True
            self.together.standing[name].touched |= set(touched)
            self.together.do(name, told, call, touches=touches)

    def may_change(self, name: str, view: PropertyObjectView) -> bool:
        """Not a second time without its session: only PostgreSQL looks then whether the session is still there."""
        standing = self.together.standing[name]
        return view.id not in standing.changed or view.session_id in standing.held

    def changed(self, name: str, rows: Sequence[Row]) -> None:
        self.learn(name, rows)
        self.together.standing[name].changed.update(row.id for row in rows)

    def learn(self, name: str, rows: Iterable[object]) -> None:
        """Somebody has rows in hand, with all that belongs to them."""
        for row in rows:
            match row:
                case OpenSession(session=session, open_views=views):
                    self.learn(name, [session, *views])
                case HangingView(view=view):
                    self.learn(name, [view])
                case Session() | PropertyObjectView():
                    self.together.standing[name].held[row.id] = row
                    self.together.standing[name].touched.add(row.id)

    def appeared(self, row: Row) -> None:
        if isinstance(row, Session):
            self.together.sessions[row.id] = row.anonymous_id
        else:
            self.together.views[row.id] = row.session_id

    def place(self, name: str, after: int | None) -> UUID | None:
        """A row that somebody has seen in a page of their unit of work."""
        seen = list(self.together.in_memory.hands[name].references)
        return None if after is None or not seen else pick(seen, after)

    def at_work(self, name: str) -> str:
        """Somebody who is free, with a unit of work under way: the one who is named, if that one has."""
        able = [one for one, standing in self.together.standing.items() if standing.is_open and self.together.may(one)]
        return name if name in able or not able else able[0]

    def holder(self, name: str, *kinds: type) -> str:
        """Somebody who is free and has such rows in hand: the one who is named, if that one has."""
        able = [
            one
            for one in CLIENTS
            if self.together.may(one)
            and any(isinstance(row, kinds) for row in self.together.standing[one].held.values())
        ]
        return name if name in able or not able else able[0]

    def held(self, name: str, kind: type[RowKind]) -> list[RowKind]:
        return [row for row in self.together.standing[name].held.values() if isinstance(row, kind)]

    def sessions_of(self, device: UUID) -> list[UUID]:
        return [session_id for session_id, of in self.together.sessions.items() if of == device]

    def is_fresh(self, name: str, session_id: UUID) -> bool:
        """Whether a session that a claim would find was active after the cutoff."""
        own = self.together.standing[name].held.get(session_id)
        session = own or self.together.in_memory.place.session(session_id)
        return isinstance(session, Session) and session.last_activity_at >= calls.CUTOFF

    def may_switch(self, name: str, sessions: Sequence[UUID]) -> bool:
        """Whether a session may have a user, or have got one by the time that it is locked."""
        others = [standing for other, standing in self.together.standing.items() if other != name]
        stored = [session for one in sessions if (session := self.together.in_memory.place.session(one))]
        return any(standing.touched & set(sessions) for standing in others) or any(one.user_id for one in stored)

    def new_id(self, kind: int) -> UUID:
        self.ids += 1
        return UUID(int=kind << 8 | self.ids)

    def new_events(self, count: int) -> list[UUID]:
        """Ids of events, each of a slice of its own, in the order of slices; none if there are not so many left."""
        begin = len(self.events)
        if begin + count > EVENTS_MAX:
            return []
        self.events += [UUID(int=number << 12 | number) for number in range(begin, begin + count)]
        return self.events[begin:]

    def new_session(self, anonymous_id: UUID, idle: timedelta, user_id: UUID | None = None) -> Session:
        session = Session(
            id=self.new_id(SESSION_IDS),
            anonymous_id=anonymous_id,
            user_id=user_id,
            status=ActivityStatus.ACTIVE,
            created_at=BEGINNING,
            last_activity_at=NOW - idle,
        )
        self.appeared(session)
        return session

    def new_view(self, session_id: UUID, idle: timedelta) -> PropertyObjectView:
        view = PropertyObjectView(
            id=self.new_id(VIEW_IDS),
            property_object_id=OBJECT,
            session_id=session_id,
            anonymous_id=self.together.sessions[session_id],
            view_source="catalog",
            filter_snapshot='{"rooms": [1, 2]}',
            status=ActivityStatus.ACTIVE,
            created_at=BEGINNING,
            last_activity_at=NOW - idle,
        )
        self.appeared(view)
        return view


def alive(row: RowKind) -> RowKind:
    """The row as it was before somebody closed it."""
    return evolve(row, status=ActivityStatus.ACTIVE, ended_at=None, duration=None)


def a_message(event_id: UUID) -> OutboxMessage:
    """An event of a session that nobody has at hand."""
    session = Session.start(session_id=UUID(int=0xA0), anonymous_id=UUID(int=0xDF), user_id=None, now=NOW)
    ended = SessionEnded(session=session.close(NOW), ended_at=NOW)
    return message_of(ended, message_id=event_id, correlation_id=calls.CORRELATION_ID, trace_parent=None)


def in_short(ids: Sequence[UUID]) -> str:
    return ", ".join(f"{one.int:x}" for one in ids)

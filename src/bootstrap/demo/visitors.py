"""Visitors, as the part of the service that serves them sees them: they look at flats, and they never say goodbye."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from attrs import frozen

from application.online.errors import SessionNotFound
from application.online.link_session import LinkOutcome, LinkSession
from application.online.open_view import OpenView
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Waiting
from application.ports.identifiers import Identifiers
from application.ports.store_errors import StoreError
from domain.property_object_view import PropertyObjectView
from domain.session import Session

Answer = TypeVar("Answer")

VISITORS_AT_ONCE: Final = 40
_VIEW_SOURCES: Final = ("catalog", "map", "favorites", "search", "recommendations")
_MINUTE: Final = 60.0


class Deed(StrEnum):
    """What visitors do that is worth counting."""

    ARRIVED = "arrived"
    CAME_BACK = "came back"
    SIGNED_IN = "signed in"
    SWITCHED = "switched user"
    REOPENED = "views reopened"
    STARTED_ANEW = "new sessions"


Tally = Counter[Deed]


@frozen(kw_only=True)
class OnlineService:
    """The commands that a visitor's browser sends."""

    start_session: StartSession
    session_heartbeat: SessionHeartbeat
    open_view: OpenView
    view_heartbeat: ViewHeartbeat
    link_session: LinkSession

    @classmethod
    def over(cls, store: ActivityStore, identifiers: Identifiers) -> "OnlineService":
        """The commands over a store."""
        start_session = StartSession(store=store, identifiers=identifiers)
        return cls(
            start_session=start_session,
            session_heartbeat=SessionHeartbeat(start_session=start_session),
            open_view=OpenView(store=store, identifiers=identifiers),
            view_heartbeat=ViewHeartbeat(store=store),
            link_session=LinkSession(store=store, identifiers=identifiers),
        )


class Visitor:
    """A browser and who sits before it. It answers refusals as a client should (specification §3)."""

    def __init__(self, service: OnlineService, chance: Random, tally: Tally) -> None:
        self._service = service
        self._chance = chance
        self._tally = tally
        self._anonymous_id = _any_id(chance)
        self._session_id: UUID | None = None
        self._view_id: UUID | None = None

    def life(self) -> Iterator[float]:
        """Does one thing after the other, and yields the seconds in between; it ends in silence."""
        self._tally[Deed.ARRIVED] += 1
        self._start_session()
        yield from self._browse()
        while self._chance.random() < 0.4:
            yield self._chance.uniform(3 * _MINUTE, 25 * _MINUTE)
            self._tally[Deed.CAME_BACK] += 1
            # The page is still open in the browser, so its heartbeats go on, whatever has been closed meanwhile.
            yield from self._look(heartbeats=self._chance.randint(2, 6))
            yield from self._browse()

    def _browse(self) -> Iterator[float]:
        for _ in range(self._chance.randint(1, 5)):
            self._open_view()  # the view before it is left hanging
            if self._chance.random() < 0.15:
                self._sign_in()
            if self._chance.random() < 0.06:
                yield from self._forget_in_the_background()
            else:
                yield from self._look(heartbeats=self._chance.randint(3, 14))

    def _look(self, *, heartbeats: int) -> Iterator[float]:
        for _ in range(heartbeats):
            yield self._chance.uniform(20, 30)
            self._send_session_heartbeat()
            self._send_view_heartbeat()

    def _forget_in_the_background(self) -> Iterator[float]:
        """Only the view's heartbeat goes on, so the session is closed under a live view (INV-SES-005)."""
        for _ in range(40):
            yield self._chance.uniform(20, 30)
            self._send_view_heartbeat()

    def _start_session(self) -> UUID:
        self._session_id = self._service.start_session(anonymous_id=self._anonymous_id).id
        return self._session_id

    def _send_session_heartbeat(self) -> None:
        session = self._service.session_heartbeat(anonymous_id=self._anonymous_id)
        if session.id != self._session_id:
            self._tally[Deed.STARTED_ANEW] += 1
            self._session_id = session.id

    def _open_view(self) -> None:
        source = self._chance.choice(_VIEW_SOURCES)
        snapshot = f'{{"rooms":{self._chance.randint(1, 4)},"priceMax":1.20e7}}' if source == "search" else None
        property_object_id = _any_id(self._chance)
        self._view_id = self._in_session(
            lambda session_id: self._service.open_view(
                session_id=session_id,
                property_object_id=property_object_id,
                view_source=source,
                filter_snapshot=snapshot,
            )
        ).id

    def _send_view_heartbeat(self) -> None:
        if self._view_id is not None and not self._service.view_heartbeat(view_id=self._view_id):
            self._tally[Deed.REOPENED] += 1
            self._open_view()

    def _sign_in(self) -> None:
        """Whoever it was before: now and then it is somebody else on the same device."""
        user_id = _any_id(self._chance)
        linked = self._in_session(
            lambda _: self._service.link_session(anonymous_id=self._anonymous_id, user_id=user_id)
        )
        self._session_id = linked.session.id
        self._tally[Deed.SWITCHED if linked.outcome is LinkOutcome.SWITCHED else Deed.SIGNED_IN] += 1

    def _in_session(self, command: Callable[[UUID], Answer]) -> Answer:
        """A command that was refused for want of an Active session is sent again in a new one."""
        try:
            assert self._session_id is not None, "a visit begins with start-session"
            return command(self._session_id)
        except SessionNotFound:
            self._tally[Deed.STARTED_ANEW] += 1
            return command(self._start_session())


class Audience:
    """All visitors, played in one loop; the same seed gives the same visitors."""

    def __init__(self, store: ActivityStore, identifiers: Identifiers, *, seed: int) -> None:
        self._store = store
        self._identifiers = identifiers
        self._service = OnlineService.over(store, identifiers)
        self._chance = Random(seed)  # noqa: S311 (no secret)
        self.tally: Final = Tally(dict.fromkeys(Deed, 0))

    def leave_backlog(self) -> None:
        """Sessions and views of visitors who left before anybody was there to close them. Raises StoreError."""
        now = self._store.clock.read()
        with self._store.begin() as unit_of_work:
            for _ in range(VISITORS_AT_ONCE):
                last_seen = now - timedelta(minutes=self._chance.uniform(2, 18))
                session, view = self._left_behind(last_seen)
                unit_of_work.sessions.add(session)
                unit_of_work.views.add(view)
            unit_of_work.commit()

    def play(self, waiting: Waiting) -> None:
        """Lets visitors come and go until the end is asked for."""
        monotonic = self._store.clock.monotonic
        order = count()  # two visitors are never due in the same place of the queue
        queue: list[tuple[float, int, Iterator[float]]] = []
        for _ in range(VISITORS_AT_ONCE):
            heapq.heappush(queue, (monotonic() + self._chance.uniform(0, 2 * _MINUTE), next(order), self._arrival()))
        while not waiting.wait(queue[0][0] - monotonic()):
            due, _, life = heapq.heappop(queue)
            try:
                pause = next(life, None)
            except (SessionNotFound, StoreError):
                pause = None  # an error page: this visitor gives up
            if pause is None:
                life, pause = self._arrival(), self._chance.uniform(0, _MINUTE)
            heapq.heappush(queue, (due + pause, next(order), life))

    def _arrival(self) -> Iterator[float]:
        # A source of chance each: what one visitor meets does not change the others.
        chance = Random(self._chance.getrandbits(64))  # noqa: S311 (no secret)
        return Visitor(self._service, chance, self.tally).life()

    def _left_behind(self, last_seen: datetime) -> tuple[Session, PropertyObjectView]:
        arrived = last_seen - timedelta(minutes=self._chance.uniform(1, 20))
        session = Session.start(
            session_id=self._identifiers.new(arrived), anonymous_id=_any_id(self._chance), user_id=None, now=arrived
        )
        view = PropertyObjectView.open(
            view_id=self._identifiers.new(arrived),
            property_object_id=_any_id(self._chance),
            session_id=session.id,
            anonymous_id=session.anonymous_id,
            view_source=self._chance.choice(_VIEW_SOURCES),
            filter_snapshot=None,
            now=arrived,
        )
        return session.touch(last_seen), view.touch(last_seen)


def _any_id(chance: Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)

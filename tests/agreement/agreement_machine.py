"""The rules by which Hypothesis invents histories of several hands at work on two stores."""

from datetime import timedelta
from uuid import UUID

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import rule

from adapters.postgres.deliveries import LEASED_MAX
from application.online.link_session import LinkedSession, LinkSession
from application.online.open_view import OpenView
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.ports.activity_store import ActivityStore
from application.ports.deliveries import Held, Lease
from domain.activity import ActivityStatus
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.agreement import calls
from tests.agreement.calls import Given
from tests.agreement.sides import NOW, PUBLISHERS
from tests.agreement.stage import (
    DEVICES,
    MINUTE,
    OBJECT,
    SESSION_IDS,
    USERS,
    VIEW_IDS,
    Stage,
    a_message,
    alive,
    anybody,
    client,
    device_key,
    in_short,
    publisher,
    silence,
    user,
    which,
)
from tests.simulation.closer_machine import pick


class AgreementMachine(Stage):
    """Histories of two stores."""

    # Those who change sessions and views.

    @rule(name=client, which=which)
    def lock_session(self, name: str, which: int) -> None:
        """A session is locked by its id."""
        session_id = pick(list(self.together.sessions), which)
        self.lock(name, "session", session_id, lambda work: work.sessions.lock(session_id), [session_id])

    @rule(name=client, device=st.sampled_from(DEVICES))
    def lock_active_of(self, name: str, device: UUID) -> None:
        """A session is locked by its device."""
        touches = self.sessions_of(device)
        self.lock(name, "the session of device", device, lambda work: work.sessions.lock_active_of(device), touches)

    @rule(name=client, which=which)
    def lock_view(self, name: str, which: int) -> None:
        """A view is locked, after its session."""
        if self.together.views:
            view_id = pick(list(self.together.views), which)
            touches = [self.together.views[view_id], view_id]
            self.lock(name, "view", view_id, lambda work: work.views.lock(view_id), touches)

    @rule(name=client, which=which)
    def lock_open_views(self, name: str, which: int) -> None:
        """The Active views of a locked session are locked."""
        name = self.holder(name, Session)
        if sessions := self.held(name, Session):
            session_id = pick(sessions, which).id
            touches = [view for view, of in self.together.views.items() if of == session_id]
            self.lock(
                name, "open views of", session_id, lambda work: list(work.views.lock_open_of(session_id)), touches
            )

    @rule(name=client, device=st.sampled_from(DEVICES), idle=silence)
    def add_session(self, name: str, device: UUID, idle: timedelta) -> None:
        """A device gets a session."""
        if self.together.may(name, [device_key(device), *self.sessions_of(device)]):
            session = self.new_session(device, idle)
            told = f"adds session {session.id.int:x} of {device.int:x}"
            self.change(name, told, lambda work: work.sessions.add(session), [device_key(device)], session)

    @rule(name=client, which=which, idle=silence)
    def add_view(self, name: str, which: int, idle: timedelta) -> None:
        """A session gets a view."""
        session_id = pick(list(self.together.sessions), which)
        if self.together.may(name, [session_id]):
            view = self.new_view(session_id, idle)
            told = f"adds view {view.id.int:x} to {session_id.int:x}"
            self.change(name, told, lambda work: work.views.add(view), [session_id], view)

    @rule(name=client, which=which, idle=silence, user=user)
    def save(self, name: str, which: int, idle: timedelta, user: UUID | None) -> None:
        """A heartbeat, or a link, of a locked row, Active or not."""
        name = self.holder(name, Session, PropertyObjectView)
        if not (rows := list(self.together.standing[name].held.values())):
            return
        row = pick(rows, which)
        active_at = max(row.created_at, NOW - idle)
        if isinstance(row, Session):
            session = evolve(row, last_activity_at=active_at, user_id=user)
            touches = [device_key(row.anonymous_id)]
            told = f"saves session {session.id.int:x}, active at {active_at:%H:%M}"
            self.change(name, told, lambda work: work.sessions.save(session), touches, session)
        elif self.may_change(name, row):
            view = evolve(row, last_activity_at=active_at)
            told = f"saves view {view.id.int:x}, active at {active_at:%H:%M}"
            self.change(name, told, lambda work: work.views.save(view), [], view)

    @rule(name=client, which=which)
    def close_session(self, name: str, which: int) -> None:
        """A locked session is closed, with those of its views that are locked."""
        name = self.holder(name, Session)
        if sessions := self.held(name, Session):
            session = alive(pick(sessions, which))
            views = tuple(view for view in self.held(name, PropertyObjectView) if view.session_id == session.id)
            open_views = tuple(view for view in views if view.status is ActivityStatus.ACTIVE)
            self.close(name, OpenSession(session=session, open_views=open_views), [device_key(session.anonymous_id)])

    @rule(name=client, which=which)
    def close_view(self, name: str, which: int) -> None:
        """A locked view is closed; one that is closed already, too."""
        name = self.holder(name, PropertyObjectView)
        if views := [view for view in self.held(name, PropertyObjectView) if self.may_change(name, view)]:
            self.close(name, HangingView(view=alive(pick(views, which)), user_id=None), [])

    @rule(name=client, limit=st.integers(1, 3), after=st.none() | which)
    def claim_page(self, name: str, limit: int, after: int | None) -> None:
        """A worker claims a page of hanging views, the first or one after a view that it has seen."""
        place = self.place(name, after)
        told = f"claims {limit} views{_after(place)}"
        self.together.do(name, told, calls.claim_page(place, limit), learn=lambda page: self.learn(name, page[1]))

    @rule(name=client, every=st.booleans(), which=which)
    def claim_views(self, name: str, every: bool, which: int) -> None:
        """A worker claims hanging views by their ids."""
        if views := list(self.together.views):
            ids = views if every else [pick(views, which)]
            self.together.do(
                name,
                f"claims views {in_short(ids)}",
                calls.claim_views(ids),
                learn=lambda claim: self.learn(name, claim.rows),
            )

    @rule(name=client, every=st.booleans(), which=which)
    def claim_sessions(self, name: str, every: bool, which: int) -> None:
        """A worker claims sessions."""
        sessions = list(self.together.sessions)
        self.claim_sessions_by_id(name, sessions if every else [pick(sessions, which)])

    @rule(name=client, which=which)
    def claim_session_of_held_view(self, name: str, which: int) -> None:
        """A worker claims a session of which somebody else has a view in hand, and perhaps not the session."""
        others = [standing.held for one, standing in self.together.standing.items() if one != name]
        held = [row for rows in others for row in rows.values() if isinstance(row, PropertyObjectView)]
        if held:
            self.claim_sessions_by_id(name, [pick(held, which).session_id])

    @rule(name=client, after=st.none() | which)
    def look(self, name: str, after: int | None) -> None:
        """What is seen without a lock: one's own changes, and what others have committed."""
        place = self.place(name, after)
        self.together.do(name, "looks" + _after(place), calls.look(place))

    @rule(name=client, which=which)
    def append_again(self, name: str, which: int) -> None:
        """An id of an event is given twice, while no publisher has events in hand."""
        events = [event_id for event_id in self.events if event_id not in self.given_to_links]
        if not events or any(self.together.standing[one].is_open for one in PUBLISHERS):
            return
        event_id = pick(events, which)
        message = a_message(event_id)
        told = f"appends event {event_id.int:x} again"
        self.change(name, told, lambda work: work.outbox.append([message]), [event_id])

    @rule(name=anybody)
    def commit(self, name: str) -> None:
        """Somebody's changes are there for everybody."""
        self.together.end(self.at_work(name), commits=True)

    @rule(name=anybody)
    def roll_back(self, name: str) -> None:
        """Somebody's changes have never been."""
        self.together.end(self.at_work(name), commits=False)

    @rule(which=which, refuses=st.booleans())
    def refuse(self, which: int, refuses: bool) -> None:
        """A trigger refuses a row, or no row any more."""
        rows = [*self.together.sessions, *self.together.views]
        for side in self.together.sides:
            side.place.refuse([pick(rows, which)] if refuses else [])

    # Commands, each from its beginning to its end.

    @rule(name=client, device=st.sampled_from(DEVICES))
    def start_session(self, name: str, device: UUID) -> None:
        """A device is there, or there again."""
        new_id = self.new_id(SESSION_IDS)

        def start(store: ActivityStore) -> Session:
            return StartSession(store=store, identifiers=Given([new_id, new_id]))(anonymous_id=device)

        touches = [device_key(device), *self.sessions_of(device)]
        self.together.run(name, f"starts a session of {device.int:x}", start, touches=touches, learn=self.appeared)

    @rule(name=client, which=which)
    def open_view(self, name: str, which: int) -> None:
        """A visitor opens an object."""
        session_id, new_id = pick(list(self.together.sessions), which), self.new_id(VIEW_IDS)

        def open_it(store: ActivityStore) -> PropertyObjectView:
            command = OpenView(store=store, identifiers=Given([new_id]))
            return command(session_id=session_id, property_object_id=OBJECT, view_source="map")

        told = f"opens a view in {session_id.int:x}"
        self.together.run(name, told, open_it, touches=[session_id], learn=self.appeared)

    @rule(name=client, which=which)
    def view_heartbeat(self, name: str, which: int) -> None:
        """A visitor still looks."""
        if self.together.views:
            view_id = pick(list(self.together.views), which)
            self.together.run(
                name,
                f"beats for view {view_id.int:x}",
                lambda store: ViewHeartbeat(store=store)(view_id=view_id),
                touches=[self.together.views[view_id], view_id],
                learn=lambda _: None,
            )

    @rule(name=client, device=st.sampled_from(DEVICES), user=st.sampled_from(USERS))
    def link_session(self, name: str, device: UUID, user: UUID) -> None:
        """Somebody signs in; the session of somebody else is closed, with all its views."""
        sessions = self.sessions_of(device)
        views = [view for view, session_id in self.together.views.items() if session_id in sessions]
        touches = [device_key(device), *sessions, *views]
        if not self.together.may(name, touches):
            return
        ids: list[UUID] = [self.new_id(SESSION_IDS)]
        if self.may_switch(name, sessions):
            # The command's own, one for each row that it closes, and the new session's.
            ids = [calls.CORRELATION_ID, *self.new_events(2 + len(views))]
            if len(ids) == 1:
                return
            self.given_to_links.update(ids)

        def link(store: ActivityStore) -> LinkedSession:
            return LinkSession(store=store, identifiers=Given(ids))(anonymous_id=device, user_id=user)

        self.together.run(
            name,
            f"links {device.int:x} to user {user.int:x}",
            link,
            touches=touches,
            learn=lambda linked: self.appeared(linked.session),
        )

    # Publishers.

    @rule(name=publisher, limit=st.integers(1, LEASED_MAX), after=st.integers(0, 2), holds=st.none() | which)
    def lease(self, name: str, limit: int, after: int, holds: int | None) -> None:
        """A publisher leases events, after so many minutes, but for one that it does not want."""
        if any(self.together.standing[other].records for other in self.together.standing if other != name):
            return
        if self.together.standing[name].leases:
            return  # where its reading has come to is the publisher's, and the next lease's of the same unit of work
        begins = NOW + after * MINUTE
        # A lease's last four bits decide with which slice the search begins.
        lease = Lease(id=UUID(int=(len(self.leases) + 1) << 8), begins=begins, ends=begins + MINUTE)
        held = Held(event_ids=frozenset([pick(self.events, holds)] if self.events and holds is not None else []))
        if self.together.may(name):
            self.leases.append((lease, limit))
            self.together.standing[name].leases = True
            told = f"leases {limit} in minute {after}"
            self.together.do(name, told, calls.lease(lease, limit=limit, held=held))

    @rule(name=publisher, which=which)
    def release(self, name: str, which: int) -> None:
        """A publisher gives back what it, or another, has leased."""
        if any(self.together.standing[other].records for other in self.together.standing if other != name):
            return
        if not self.leases:
            return
        lease, limit = pick(self.leases, which)
        # In which order it takes what it has to wait for is not agreed.
        if limit > 1 and any(self.together.standing[other].leases for other in self.together.standing if other != name):
            return
        if self.together.may(name):
            self.together.standing[name].leases = True
            told = f"releases lease {lease.id.int:x}"
            self.together.do(name, told, calls.record(lambda work: work.deliveries.release(lease)))

    @rule(name=publisher, which=which)
    def record_delivered(self, name: str, which: int) -> None:
        """An event has arrived."""
        self.record(
            name,
            "delivered",
            which,
            lambda one: calls.record(lambda work: work.deliveries.record_delivered([one], NOW)),
        )

    @rule(name=publisher, which=which, refusals=st.integers(1, 2), retries=st.booleans())
    def record_refused(self, name: str, which: int, refusals: int, retries: bool) -> None:
        """An event was refused, and is tried again or dead."""
        attempt = NOW + MINUTE if retries else None
        told = "refused" if retries else "dead"
        self.record(name, told, which, lambda one: calls.refused(one, refusals=refusals, next_attempt_at=attempt))

    @rule(name=publisher, which=which)
    def retry(self, name: str, which: int) -> None:
        """An operator has a dead event tried again."""
        self.record(name, "retried", which, lambda one: calls.record(lambda work: work.upkeep.retry([one])))

    @rule(name=publisher, which=which)
    def discard(self, name: str, which: int) -> None:
        """An operator gives up a dead event."""
        self.record(name, "discarded", which, lambda one: calls.record(lambda work: work.upkeep.discard([one])))

    @rule(name=publisher)
    def remove_published(self, name: str) -> None:
        """Retention removes what was delivered."""
        self.remove(name, "published", lambda work: work.upkeep.remove_published(NOW + MINUTE, 100))

    @rule(name=publisher, limit=st.integers(1, 2))
    def remove_occurred(self, name: str, limit: int) -> None:
        """Retention by age removes events, delivered or not."""
        self.remove(name, "occurred", lambda work: work.upkeep.remove_occurred(NOW + MINUTE, limit))


def _after(place: UUID | None) -> str:
    return f" after {place.int:x}" if place else ""

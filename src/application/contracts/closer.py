"""What the use cases do on a store: the tests that the source of the specification names (§11), and the races of §3."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from attrs import evolve

from application.close_idle_activity import CloserRun, CloserUseCase
from application.contracts.subject import StoreContract, a_session, a_view
from application.online.errors import SessionNotFound
from application.online.link_session import LinkOutcome, LinkSession
from application.online.open_view import OpenView
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.options import CloserOptions
from application.ports.identifiers import Identifiers
from application.ports.outbox import OutboxMessage
from application.ports.run_observation import Backlog, RunObservation, RunOutcome
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session

MINUTE = timedelta(minutes=1)


class StopAfter:
    """Wishes the run to end once it has looked a number of times."""

    def __init__(self, looks: int | None) -> None:
        self._looks_left = looks

    def requested(self) -> bool:
        """Whether the looks are used up."""
        if self._looks_left is None:
            return False
        self._looks_left -= 1
        return self._looks_left < 0


class UseCasesContract(StoreContract):
    """The beginning of the suites on use cases: what they need beside the store."""

    identifiers: Identifiers
    """The adapter's tests set it."""
    observation: RunObservation
    """The adapter's tests set it."""

    def run(self, *, stop_after: int | None = None, **options: object) -> CloserRun:
        """One run of the closer."""
        return CloserUseCase(
            store=self.store,
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=StopAfter(stop_after),
            options=CloserOptions(**options),  # type: ignore[arg-type] # a test names any option
        ).run()

    def assert_consistent(self, rows: Sequence[Session | PropertyObjectView]) -> None:
        """The invariants of specification §2 over the rows of a test, and one event for each row that was closed."""
        closed = []
        for before in rows:
            row: Session | PropertyObjectView
            row = self.session_of(before.id) if isinstance(before, Session) else self.view_of(before.id)
            if row.status is ActivityStatus.INACTIVE:
                closed.append(row.id)
                assert row.ended_at is not None
                assert row.duration == row.last_activity_at - row.created_at
            if isinstance(row, PropertyObjectView) and self.session_of(row.session_id).status is not row.status:
                assert row.status is ActivityStatus.INACTIVE, "an Inactive session has no Active view (INV-LV-007)"
        assert self.aggregates() == sorted(closed), "each closed row has one event, and no other has any"


class CloserContract(UseCasesContract):
    """The closer's own work (specification §11)."""

    def test_an_empty_run_is_a_success(self) -> None:
        """Nothing stale: nothing closed, no event, completed."""
        now = self.store.clock.read()
        session = a_session(now, idle=timedelta(0))
        view = a_view(session, now, idle=timedelta(0))
        self.put(session, view)
        report = self.run().report
        assert report.outcome is RunOutcome.COMPLETED
        assert (report.closed_sessions, report.closed_views, report.failed_items) == (0, 0, 0)
        assert report.backlog_remaining == Backlog(sessions=0, views=0)
        self.assert_consistent([session, view])
        assert not self.subject.messages()

    def test_a_stale_session_closes_with_its_open_views(self) -> None:
        """All of it is Inactive, with one `EndedAt`, exact durations, an event each (INV-SES-005, INV-LV-007, D-02)."""
        now = self.store.clock.read()
        session = a_session(now)
        views = [a_view(session, now, idle=timedelta(seconds=20)), a_view(session, now, idle=timedelta(0))]
        self.put(session, *views)
        report = self.run().report
        assert (report.closed_sessions, report.closed_views) == (1, 2)
        self.assert_consistent([session, *views])
        closed: list[Session | PropertyObjectView]
        closed = [self.session_of(session.id), *(self.view_of(view.id) for view in views)]
        assert {row.status for row in closed} == {ActivityStatus.INACTIVE}
        assert len({row.ended_at for row in closed}) == 1
        assert closed[0].ended_at is not None
        assert now <= closed[0].ended_at
        assert {message.correlation_id for message in self.subject.messages()} == {report.job_run_id}

    def test_a_hanging_view_closes_alone(self) -> None:
        """Its session is alive and is not touched (INV-LV-004)."""
        now = self.store.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=40 * MINUTE)
        hanging, fresh = a_view(session, now), a_view(session, now, idle=MINUTE)
        self.put(session, hanging, fresh)
        report = self.run().report
        assert (report.closed_sessions, report.closed_views) == (0, 1)
        assert self.subject.session(session.id) == session
        assert self.subject.view(fresh.id) == fresh
        assert self.view_of(hanging.id).status is ActivityStatus.INACTIVE
        self.assert_consistent([session, hanging, fresh])

    def test_a_second_run_closes_nothing(self) -> None:
        """Idempotence: after a restart no row is closed again and no event is written twice."""
        now = self.store.clock.read()
        sessions = [a_session(now) for _ in range(3)]
        views = [a_view(session, now, idle=idle * MINUTE) for session in sessions for idle in (1, 20)]
        self.put(*sessions, *views)
        first = self.run().report
        assert (first.closed_sessions, first.closed_views) == (3, 6)
        events = self.subject.messages()
        second = self.run().report
        assert (second.closed_sessions, second.closed_views) == (0, 0)
        assert self.subject.messages() == events
        self.assert_consistent([*sessions, *views])

    def test_the_event_names_the_current_user(self) -> None:
        """`UserId` is the session's at closing time, linked after the view was opened, in both phases."""
        now = self.store.clock.read()
        user_id = uuid4()
        alive, silent = a_session(now, idle=timedelta(0), lasted=40 * MINUTE), a_session(now)
        views = [a_view(alive, now), a_view(silent, now, idle=timedelta(0))]
        self.put(alive, silent, *views)
        link = LinkSession(store=self.store, identifiers=self.identifiers)
        for session in (alive, silent):
            assert link(anonymous_id=session.anonymous_id, user_id=user_id).outcome is LinkOutcome.LINKED
        self.run()
        payloads = [json.loads(message.payload) for message in self.subject.messages()]
        assert [payload["userId"] for payload in payloads] == [str(user_id)] * 3

    def test_cancellation_between_records_keeps_what_was_committed(self) -> None:
        """The run ends in order after each possible record, nothing is torn, and the next run does the rest."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(30 - number) * MINUTE) for number in range(3)]
        views = [a_view(session, now, idle=timedelta(0)) for session in sessions]
        self.put(*sessions, *views)
        closed = 0
        for _ in range(20):
            report = self.run(stop_after=3).report
            self.assert_consistent([*sessions, *views])
            closed += report.closed_sessions
            if report.outcome is RunOutcome.COMPLETED:
                break
            assert report.outcome is RunOutcome.STOPPED
            assert report.closed_sessions == 1, "one record between two looks"
        assert closed == 3
        immediately = self.run(stop_after=0).report
        assert immediately.outcome is RunOutcome.STOPPED

    def test_a_failure_of_one_session_costs_no_other(self) -> None:
        """The failed one stays Active with its views, its neighbours close, and it closes once it can (D-05)."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(30 - number) * MINUTE) for number in range(5)]
        views = [a_view(session, now, idle=timedelta(0)) for session in sessions]
        self.put(*sessions, *views)
        self.subject.refuse([sessions[1].id, views[3].id])
        for sessions_per_transaction in (1, 5):
            report = self.run(sessions_per_transaction=sessions_per_transaction).report
            assert report.outcome is RunOutcome.COMPLETED
            assert report.failed_items == 2
            assert report.backlog_remaining == Backlog(sessions=2, views=0)
            self.assert_consistent([*sessions, *views])
        assert len(self.subject.messages()) == 6
        self.subject.refuse([])
        assert self.run().report.closed_sessions == 2
        self.assert_consistent([*sessions, *views])

    def test_a_bad_view_costs_only_itself(self) -> None:
        """Of a batch of phase A all rows close but the bad ones, wherever these stand in it (D-05)."""
        now = self.store.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=40 * MINUTE)
        views = [a_view(session, now, idle=(60 - number) * MINUTE) for number in range(13)]
        self.put(session, *views)
        bad = [views[0].id, views[5].id, views[12].id]
        self.subject.refuse(bad)
        report = self.run(batch_size=5).report
        assert (report.closed_views, report.failed_items) == (10, 3)
        assert {view.id for view in views if self.view_of(view.id).status is ActivityStatus.ACTIVE} == set(bad)
        self.assert_consistent([session, *views])

    def test_last_active_before_created_is_left_alone(self) -> None:
        """A duration below zero is never recorded: the row stays Active, its session with it (BR-04, D-05)."""
        now = self.store.clock.read()
        healthy, damaged, alive = a_session(now), a_session(now, lasted=-MINUTE), a_session(now, idle=timedelta(0))
        innocent = a_session(now)
        views = [
            a_view(innocent, now, idle=timedelta(0), lasted=-MINUTE),
            a_view(innocent, now, idle=timedelta(0)),
            a_view(alive, now, lasted=-MINUTE),
            a_view(alive, now),
        ]
        self.put(healthy, damaged, alive, innocent, *views)
        report = self.run().report
        assert (report.closed_sessions, report.closed_views, report.failed_items) == (1, 1, 3)
        assert self.session_of(innocent.id).status is ActivityStatus.ACTIVE
        assert self.view_of(views[1].id).status is ActivityStatus.ACTIVE
        self.assert_consistent([healthy, damaged, alive, innocent, *views])

    def test_a_future_last_activity_is_not_idle(self) -> None:
        """A time ahead of the clock is not silent; under a stale session it closes with its own duration (BR-50)."""
        now = self.store.clock.read()
        ahead, silent = a_session(now, idle=-120 * MINUTE, lasted=150 * MINUTE), a_session(now)
        view = a_view(silent, now, idle=-120 * MINUTE, lasted=130 * MINUTE)
        self.put(ahead, silent, view)
        self.run()
        assert self.session_of(ahead.id).status is ActivityStatus.ACTIVE
        closed = self.view_of(view.id)
        assert closed.duration == 130 * MINUTE
        assert closed.ended_at == self.session_of(silent.id).ended_at
        self.assert_consistent([ahead, silent, view])

    def test_the_sessions_own_last_activity_decides(self) -> None:
        """A fresh view does not keep a silent session open; the view closes at its own last activity (BR-49)."""
        now = self.store.clock.read()
        session = a_session(now, idle=13 * MINUTE)
        fresh, hanging = a_view(session, now, idle=timedelta(seconds=20)), a_view(session, now, idle=14 * MINUTE)
        self.put(session, fresh, hanging)
        report = self.run().report
        assert (report.closed_sessions, report.closed_views) == (1, 2)
        assert self.view_of(fresh.id).duration == fresh.last_activity_at - fresh.created_at
        assert ViewHeartbeat(store=self.store)(view_id=fresh.id) is False
        assert self.view_of(fresh.id).status is ActivityStatus.INACTIVE
        self.assert_consistent([session, fresh, hanging])

    def test_pages_of_any_size_close_everything(self) -> None:
        """A backlog of several pages is closed in one run, each row once (D-04)."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(60 - number // 4) * MINUTE) for number in range(11)]
        views = [a_view(session, now, idle=idle * MINUTE) for session in sessions for idle in (0, 30)]
        self.put(*sessions, *views)
        report = self.run(batch_size=3, sessions_per_transaction=2).report
        assert (report.closed_sessions, report.closed_views) == (11, 22)
        assert report.backlog_remaining == Backlog(sessions=0, views=0)
        self.assert_consistent([*sessions, *views])

    def test_the_event_is_the_contract(self) -> None:
        """Names, times, seconds and the raw filter are as specification §7 and D-10 say."""
        now = self.store.clock.read()
        session = evolve(
            a_session(now, user_id=uuid4()),
            created_at=datetime(2026, 2, 27, 9, tzinfo=UTC),
            last_activity_at=datetime(2026, 3, 2, 10, 0, 0, 500_000, tzinfo=UTC),
        )
        view = evolve(
            a_view(session, now, filter_snapshot='{"price": 123456789012345678901234567890}'),
            created_at=datetime(2026, 2, 27, 9, tzinfo=UTC),
            last_activity_at=datetime(2026, 2, 27, 9, 0, 0, 999_999, tzinfo=UTC),
        )
        self.put(session, view)
        self.run()
        of_view, of_session = sorted(self.subject.messages(), key=lambda message: message.aggregate_type)
        self._assert_session_ended(of_session, session)
        self._assert_view_ended(of_view, view, session.user_id)

    def _assert_session_ended(self, message: OutboxMessage, session: Session) -> None:
        assert (message.aggregate_type, message.event_type) == ("Session", "SessionEndedKafkaEvent")
        assert (message.topic, message.contract_version) == ("pin.user-activity.session-ended.v1", 1)
        assert message.aggregate_id == session.id
        assert message.occurred_at == self.session_of(session.id).ended_at
        assert message.id.version == 7
        assert message.id.int >> 80 == int(message.occurred_at.timestamp() * 1000), "made of the store's time (D-12)"
        assert json.loads(message.payload) == {
            "sessionId": str(session.id),
            "anonymousId": str(session.anonymous_id),
            "userId": str(session.user_id),
            "createdAt": "2026-02-27T09:00:00.000000Z",
            "lastActivityAt": "2026-03-02T10:00:00.500000Z",
            "durationSeconds": 262_800,
        }

    def _assert_view_ended(self, message: OutboxMessage, view: PropertyObjectView, user_id: UUID | None) -> None:
        expected = ("PropertyObjectView", "PropertyObjectViewEndedKafkaEvent")
        assert (message.aggregate_type, message.event_type) == expected
        assert (message.topic, message.contract_version) == ("pin.user-activity.property-object-view-ended.v1", 1)
        assert message.aggregate_id == view.id
        assert message.occurred_at == self.view_of(view.id).ended_at
        assert json.loads(message.payload) == {
            "propertyObjectViewId": str(view.id),
            "propertyObjectId": str(view.property_object_id),
            "sessionId": str(view.session_id),
            "anonymousId": str(view.anonymous_id),
            "userId": str(user_id),
            "viewSource": view.view_source,
            "viewedAt": "2026-02-27T09:00:00.000000Z",
            "lastActivityAt": "2026-02-27T09:00:00.999999Z",
            "durationSeconds": 0,
            "filterSnapshot": {"price": 123456789012345678901234567890},
        }


class OnlineCommandsContract(UseCasesContract):
    """The commands of visitors, and who wins where they meet the closer (specification §3)."""

    @property
    def start_session(self) -> StartSession:
        """The command."""
        return StartSession(store=self.store, identifiers=self.identifiers)

    @property
    def session_heartbeat(self) -> SessionHeartbeat:
        """The command."""
        return SessionHeartbeat(start_session=self.start_session)

    @property
    def open_view(self) -> OpenView:
        """The command."""
        return OpenView(store=self.store, identifiers=self.identifiers)

    @property
    def view_heartbeat(self) -> ViewHeartbeat:
        """The command."""
        return ViewHeartbeat(store=self.store)

    @property
    def link_session(self) -> LinkSession:
        """The command."""
        return LinkSession(store=self.store, identifiers=self.identifiers)

    def test_a_visit(self) -> None:
        """start-session, heartbeats, open-view, view-heartbeat: all go to the one Active session of the device."""
        device = uuid4()
        session = self.start_session(anonymous_id=device)
        assert self.start_session(anonymous_id=device).id == session.id
        assert self.session_heartbeat(anonymous_id=device).id == session.id
        view = self.open_view(session_id=session.id, property_object_id=uuid4(), view_source="map")
        assert self.view_heartbeat(view_id=view.id) is True
        assert self.session_of(session.id).status is self.view_of(view.id).status is ActivityStatus.ACTIVE
        assert self.run().report.closed_sessions == 0

    def test_a_heartbeat_before_the_closer_keeps_the_session(self) -> None:
        """The last activity is past the cutoff, so the session is not picked."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        assert self.session_heartbeat(anonymous_id=session.anonymous_id).id == session.id
        assert self.run().report.closed_sessions == 0
        assert self.session_of(session.id).last_activity_at >= now

    def test_a_heartbeat_after_the_closer_starts_a_new_session(self) -> None:
        """It finds no Active session (INV-SES-003)."""
        session = a_session(self.store.clock.read())
        self.put(session)
        self.run()
        new = self.session_heartbeat(anonymous_id=session.anonymous_id)
        assert new.id != session.id
        assert self.session_of(new.id).status is ActivityStatus.ACTIVE
        self.assert_consistent([session, new])

    def test_a_view_heartbeat_before_the_closer_keeps_the_view(self) -> None:
        """The view is not picked."""
        now = self.store.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=40 * MINUTE)
        view = a_view(session, now)
        self.put(session, view)
        assert self.view_heartbeat(view_id=view.id) is True
        assert self.run().report.closed_views == 0

    def test_a_view_heartbeat_after_the_closer_is_not_accepted(self) -> None:
        """The client is told to reopen the view (INV-LV-003); so it is where there is no such view."""
        now = self.store.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=40 * MINUTE)
        view = a_view(session, now)
        self.put(session, view)
        self.run()
        assert self.view_heartbeat(view_id=view.id) is False
        assert self.view_heartbeat(view_id=uuid4()) is False
        self.assert_consistent([session, view])

    def test_opening_a_view_after_the_closer_is_refused(self) -> None:
        """No Active view appears under an Inactive session (INV-LV-007)."""
        session = a_session(self.store.clock.read())
        self.put(session)
        self.run()
        for session_id in (session.id, uuid4()):
            try:
                self.open_view(session_id=session_id, property_object_id=uuid4(), view_source="map")
            except SessionNotFound as error:
                assert error.code == str(error) == "USER_ACTIVITY_SESSION_NOT_FOUND"
            else:
                raise AssertionError("a view was opened under no Active session")
        self.assert_consistent([session])

    def test_a_view_opened_before_the_closer_closes_with_its_session(self) -> None:
        """Opening a view does not keep the session alive: that is its own heartbeat's."""
        session = a_session(self.store.clock.read())
        self.put(session)
        view = self.open_view(session_id=session.id, property_object_id=uuid4(), view_source="map")
        assert self.run().report.closed_views == 1
        self.assert_consistent([session, view])

    def test_linking_the_same_user_again_changes_nothing(self) -> None:
        """No event, no new session."""
        session = a_session(self.store.clock.read(), user_id=uuid4())
        self.put(session)
        assert session.user_id is not None
        linked = self.link_session(anonymous_id=session.anonymous_id, user_id=session.user_id)
        assert linked.outcome is LinkOutcome.SAME_USER
        assert self.subject.session(session.id) == session

    def test_linking_after_the_closer_finds_no_session(self) -> None:
        """The client calls start-session; for a device that was never seen the answer is the same."""
        session = a_session(self.store.clock.read())
        self.put(session)
        self.run()
        for anonymous_id in (session.anonymous_id, uuid4()):
            try:
                self.link_session(anonymous_id=anonymous_id, user_id=uuid4())
            except SessionNotFound as error:
                assert error.code == "USER_ACTIVITY_SESSION_NOT_FOUND"
            else:
                raise AssertionError("a closed session was linked")

    def test_another_user_switches_the_session(self) -> None:
        """The old session closes by the closer's rule, views and events included; a new one begins (D-11)."""
        now = self.store.clock.read()
        session = a_session(now, user_id=uuid4())
        views = [a_view(session, now), a_view(session, now, idle=timedelta(0))]
        self.put(session, *views)
        user_id = uuid4()
        linked = self.link_session(anonymous_id=session.anonymous_id, user_id=user_id)
        assert linked.outcome is LinkOutcome.SWITCHED
        assert self.session_of(linked.session.id) == linked.session
        assert (linked.session.user_id, linked.session.anonymous_id) == (user_id, session.anonymous_id)
        messages = self.subject.messages()
        [correlation_id] = {message.correlation_id for message in messages}
        assert correlation_id.version == 7
        assert correlation_id not in {session.id, linked.session.id}
        payloads = [json.loads(message.payload) for message in messages]
        assert [payload["userId"] for payload in payloads] == [str(session.user_id)] * 3
        report = self.run().report
        assert (report.closed_sessions, report.closed_views) == (0, 0), "the worker sees Inactive and does nothing"
        self.assert_consistent([session, linked.session, *views])

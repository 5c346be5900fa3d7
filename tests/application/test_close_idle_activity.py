"""What a run does when things go wrong, or take long (specification §2, D-04 to D-09, D-14; §5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.observation import RecordingObservation
from adapters.in_memory.store import InMemoryActivityStore
from application.close_idle_activity import CloserRun, CloserUseCase
from application.contracts.closer import StopAfter
from application.contracts.subject import a_session, a_view
from application.lanes import Lanes
from application.options import CloserOptions
from application.ports.run_observation import (
    Backlog,
    BatchProcessed,
    ItemFailed,
    JobCompleted,
    JobStarted,
    Phase,
    RunOutcome,
    TransactionCommitted,
    TransactionFailed,
)
from application.ports.store_errors import (
    AccessDenied,
    ConnectingCancelled,
    OutdatedPlan,
    SingleInstanceHeld,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.application.hooked_store import Hook, HookedStore

MINUTE = timedelta(minutes=1)
LOST = StoreUnavailable(kind="connection", reason="the connection was lost")


class Scene:
    """A store in memory, a closer over it, and what was seen of its runs."""

    def __init__(self, hook: Hook = lambda _: None) -> None:
        self.refused: set[UUID] = set()
        self.clock = SettableClock()
        self.store = InMemoryActivityStore(clock=self.clock, refuses=lambda row: row.id in self.refused)
        self.hooked = HookedStore(self.store, self._at)
        self.hook = hook
        self.observation = RecordingObservation()
        self.identifiers = CountingIdentifiers()

    def _at(self, step: str) -> None:
        self.hook(step)

    def put(self, *rows: Session | PropertyObjectView) -> None:
        with self.store.begin() as unit_of_work:
            for row in rows:
                if isinstance(row, Session):
                    unit_of_work.sessions.add(row)
                else:
                    unit_of_work.views.add(row)
            unit_of_work.commit()

    def put_stale_sessions(self, count: int) -> list[Session]:
        """Stale sessions with a fresh view each, oldest first."""
        now = self.clock.read()
        sessions = [a_session(now, idle=timedelta(hours=2) - timedelta(seconds=number)) for number in range(count)]
        self.put(*sessions, *(a_view(session, now, idle=timedelta(0)) for session in sessions))
        return sessions

    def put_hanging_views(self, count: int) -> list[PropertyObjectView]:
        """Hanging views of one live session, oldest first."""
        now = self.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=timedelta(hours=3))
        views = [a_view(session, now, idle=timedelta(hours=2) - timedelta(seconds=number)) for number in range(count)]
        self.put(session, *views)
        return views

    def run(self, *, lanes: Lanes | None = None, looks: int | None = None, **options: object) -> CloserRun:
        return CloserUseCase(
            store=self.hooked,
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=StopAfter(looks),
            options=CloserOptions(**options),  # type: ignore[arg-type] # a test names any option
            lanes=lanes,
        ).run()

    def active(self, rows: Sequence[Session] | Sequence[PropertyObjectView]) -> list[UUID]:
        """Those of the rows that are Active still, in their order."""
        return [row.id for row in rows if row.id not in self.closed()]

    def closed(self) -> set[UUID]:
        """The rows that are Inactive."""
        stored: list[Session | PropertyObjectView] = [*self.store.sessions(), *self.store.views()]
        return {row.id for row in stored if row.status is ActivityStatus.INACTIVE}

    def assert_one_event_a_closed_row(self) -> None:
        assert Counter(message.aggregate_id for message in self.store.messages()) == Counter(self.closed())


def failing(step: str, error: Callable[[], Exception], *times: int) -> Hook:
    """Fails a step at its given occurrences, counted from 1."""
    seen = Counter[str]()

    def hook(at: str) -> None:
        seen[at] += 1
        if at == step and seen[at] in times:
            raise error()

    return hook


def lost() -> StoreError:
    return StoreUnavailable(kind="connection", reason="the connection was lost")


def refused() -> StoreError:
    return TransactionRefused(kind="57014", reason="statement timeout")


class TestLostConnections:
    """A lost connection fails the item in hand, once (D-06)."""

    @pytest.mark.parametrize("step", ["begin", "claim_sessions", "commit"])
    def test_it_costs_the_session_in_hand_and_no_other(self, step: str) -> None:
        """The worker goes on with the next session, and the next run closes what was left."""
        scene = Scene()
        sessions = scene.put_stale_sessions(5)
        # Steps of phase A and of the page come before those of the sessions.
        offset = {"begin": 2, "commit": 2, "claim_sessions": 0}[step]
        scene.hook = failing(step, lost, offset + 2)
        ended = scene.run()
        assert ended.report.outcome is RunOutcome.COMPLETED
        assert ended.error is None
        assert (ended.report.closed_sessions, ended.report.failed_items) == (4, 1)
        assert scene.active(sessions) == [sessions[1].id]
        [failure] = scene.observation.of(ItemFailed)
        assert (failure.id, failure.kind, failure.phase) == (sessions[1].id, "connection", Phase.STALE_SESSIONS)
        assert scene.run().report.closed_sessions == 1
        scene.assert_one_event_a_closed_row()

    def test_a_second_one_in_a_row_ends_the_run(self) -> None:
        """It is `failed`; what was committed stays, and the next run does the rest."""
        scene = Scene()
        sessions = scene.put_stale_sessions(5)
        scene.hook = failing("claim_sessions", lost, 2, 3)
        ended = scene.run()
        assert ended.report.outcome is RunOutcome.FAILED
        assert ended.error is not None
        assert ended.report.closed_sessions == 1
        assert ended.report.backlog_remaining is None, "a store that is away is not asked"
        assert len(scene.active(sessions)) == 4
        assert scene.run().report.outcome is RunOutcome.COMPLETED
        scene.assert_one_event_a_closed_row()

    def test_a_success_in_between_starts_the_count_anew(self) -> None:
        """Connections lost now and then do not end the run."""
        scene = Scene()
        scene.put_stale_sessions(9)
        scene.hook = failing("claim_sessions", lost, 2, 4, 6, 8)
        ended = scene.run()
        assert ended.report.outcome is RunOutcome.COMPLETED
        assert (ended.report.closed_sessions, ended.report.failed_items) == (5, 4)

    def test_each_lane_may_lose_its_own(self) -> None:
        """A restart of the server cuts all connections at once: as many losses as lanes do not end the run."""
        scene = Scene()
        scene.put_stale_sessions(30)
        scene.hook = failing("claim_sessions", lost, 1, 2, 3, 4)
        ended = scene.run(lanes=Lanes(4))
        assert ended.report.outcome is RunOutcome.COMPLETED
        assert (ended.report.closed_sessions, ended.report.failed_items) == (26, 4)

    def test_a_batch_of_views_is_taken_again_by_id(self) -> None:
        """Phase A loses nothing to one lost connection: its rows are known."""
        scene = Scene()
        views = scene.put_hanging_views(7)
        scene.hook = failing("commit", lost, 1)
        report = scene.run().report
        assert (report.outcome, report.closed_views, report.failed_items) == (RunOutcome.COMPLETED, 7, 0)
        assert not scene.active(views)
        scene.assert_one_event_a_closed_row()

    @pytest.mark.parametrize("step", ["claim_views_page", "sessions_page"])
    def test_a_selection_is_made_again(self, step: str) -> None:
        """Losing the connection there costs no row; twice in a row ends the run."""
        scene = Scene()
        scene.put_hanging_views(3)
        scene.put_stale_sessions(3)
        scene.hook = failing(step, lost, 1)
        assert scene.run().report.outcome is RunOutcome.COMPLETED
        scene.hook = failing(step, lost, 1, 2)
        assert scene.run().report.outcome is RunOutcome.FAILED

    def test_an_unknown_outcome_closes_nothing_twice(self) -> None:
        """The commit went through, its answer did not: the row is found Inactive, with its one event."""
        for times in ((1,), (3,), (4,)):
            scene = Scene()
            scene.put_hanging_views(4)
            scene.put_stale_sessions(4)
            scene.hook = failing("committed", lost, *times)
            assert scene.run().report.outcome is RunOutcome.COMPLETED
            scene.assert_one_event_a_closed_row()
            assert scene.run().report.closed_sessions == 0
            scene.assert_one_event_a_closed_row()

    def test_a_store_that_is_away_from_the_start_is_an_error(self) -> None:
        """The run cannot even begin: there is no cutoff, so there is no report (specification §10)."""

        class AwayClock(SettableClock):
            def read(self) -> object:  # type: ignore[override] # it never returns
                raise LOST

        scene = Scene()
        scene.store.clock = AwayClock()
        with pytest.raises(StoreUnavailable):
            scene.run()
        assert not scene.observation.occurrences

    def test_a_missing_right_is_told_from_a_lost_connection(self) -> None:
        """The error that ended the run is in the answer, for the exit code."""
        scene = Scene(failing("begin", lambda: AccessDenied(kind="42501", reason="permission denied"), 1, 2))
        assert isinstance(scene.run().error, AccessDenied)


class TestBadRows:
    """A bad row costs only itself (D-05)."""

    def test_each_is_attempted_and_reported_once_a_run(self) -> None:
        """However a batch is divided, a run has one failure a bad row and never comes back to it (D-04)."""
        scene = Scene()
        views = scene.put_hanging_views(64)
        sessions = scene.put_stale_sessions(20)
        scene.refused = {view.id for view in views[::9]} | {session.id for session in sessions[::7]}
        for _ in range(2):
            scene.observation.occurrences.clear()
            report = scene.run(batch_size=50, sessions_per_transaction=6).report
            assert Counter(failure.id for failure in scene.observation.of(ItemFailed)) == Counter(scene.refused)
            assert report.failed_items == len(scene.refused)
            assert report.outcome is RunOutcome.COMPLETED
        assert set(scene.active(views) + scene.active(sessions)) == scene.refused
        scene.assert_one_event_a_closed_row()

    def test_a_group_that_fails_is_done_again_one_by_one(self) -> None:
        """Several sessions of one transaction do not share their luck (D-07)."""
        scene = Scene()
        sessions = scene.put_stale_sessions(10)
        scene.refused = {sessions[4].id}
        report = scene.run(sessions_per_transaction=10).report
        assert (report.closed_sessions, report.failed_items) == (9, 1)
        commits = [one.closed_sessions for one in scene.observation.of(TransactionCommitted) if one.closed_sessions]
        assert commits == [1] * 9
        [divided] = scene.observation.of(TransactionFailed)
        assert (divided.rows, divided.kind) == (10, "P0001")

    def test_many_bad_rows_at_the_head_do_not_starve_the_healthy(self) -> None:
        """After 100 failures in a row the newest row tells that it is the rows, not the store (BR-05, D-06)."""
        scene = Scene()
        sessions = scene.put_stale_sessions(350)
        scene.refused = {session.id for session in sessions[:250]}
        report = scene.run(batch_size=100).report
        assert (report.outcome, report.closed_sessions, report.failed_items) == (RunOutcome.COMPLETED, 100, 250)
        assert report.backlog_remaining == Backlog(sessions=250, views=0)

    def test_a_hundred_bad_views_do_not_keep_sessions_open(self) -> None:
        """Phase A is given up, phase B has its turn, and no row is reported twice (D-04, D-06)."""
        for damaged in (False, True):
            scene = Scene()
            views = scene.put_hanging_views(150)
            if damaged:
                now = scene.clock.read()
                session = a_session(now, idle=timedelta(0), lasted=timedelta(hours=3))
                scene.put(session, *(a_view(session, now, lasted=-MINUTE) for _ in range(150)))
            scene.refused = {view.id for view in views}
            scene.put_stale_sessions(10)
            report = scene.run(batch_size=60).report
            assert (report.outcome, report.closed_sessions) == (RunOutcome.FAILED, 10)
            failures = Counter(failure.id for failure in scene.observation.of(ItemFailed))
            assert set(failures.values()) == {1}
            assert report.failed_items == len(failures)

    def test_a_batch_that_also_closed_rows_raises_no_doubt(self) -> None:
        """100 bad rows beside healthy ones in one transaction are bad rows, whatever the newest row is (D-06)."""
        scene = Scene()
        now = scene.clock.read()
        session = a_session(now, idle=timedelta(0), lasted=timedelta(hours=3))
        scene.put(session)
        scene.put(*(a_view(session, now, idle=timedelta(hours=1)) for _ in range(300)))
        scene.put(*(a_view(session, now, lasted=-MINUTE) for _ in range(120)))
        report = scene.run().report
        assert (report.outcome, report.closed_views, report.failed_items) == (RunOutcome.COMPLETED, 300, 120)

    def test_a_success_in_between_starts_the_count_of_failures_anew(self) -> None:
        """60 bad, one good, 60 bad are no 100 in a row (D-06)."""
        scene = Scene()
        sessions = scene.put_stale_sessions(121)
        scene.refused = {session.id for session in sessions} - {sessions[60].id}
        report = scene.run().report
        assert (report.outcome, report.closed_sessions, report.failed_items) == (RunOutcome.COMPLETED, 1, 120)

    def test_a_connection_lost_while_in_doubt_says_nothing_of_the_rows(self) -> None:
        """The run reconnects once and goes on, as ever (D-06)."""
        scene = Scene()
        sessions = scene.put_stale_sessions(200)
        scene.refused = {session.id for session in sessions[:150]}
        scene.hook = failing("newest", lost, 1)
        report = scene.run().report
        assert (report.outcome, report.closed_sessions, report.failed_items) == (RunOutcome.COMPLETED, 50, 150)

    @pytest.mark.parametrize("phase", list(Phase))
    def test_a_hundred_failures_and_no_success_end_the_run(self, phase: Phase) -> None:
        """If the newest row fails as well, nothing can be closed: the run is `failed` (D-06)."""
        scene = Scene()
        rows: Sequence[Session] | Sequence[PropertyObjectView]
        rows = scene.put_hanging_views(150) if phase is Phase.HANGING_VIEWS else scene.put_stale_sessions(150)
        scene.refused = {row.id for row in rows}
        report = scene.run(batch_size=60).report
        assert (report.outcome, report.failed_items) == (RunOutcome.FAILED, 100)
        assert len(scene.active(rows)) == 150

    def test_a_hundred_damaged_rows_and_no_success_end_the_run(self) -> None:
        """What the domain refuses counts as what the store refuses (D-06)."""
        scene = Scene()
        now = scene.clock.read()
        sessions = [a_session(now, idle=timedelta(hours=1), lasted=-MINUTE) for _ in range(150)]
        scene.put(*sessions)
        report = scene.run().report
        assert (report.outcome, report.failed_items) == (RunOutcome.FAILED, 100)

    def test_an_outdated_plan_is_tried_again_in_place_once(self) -> None:
        """A table that was changed under the worker costs nothing; if it happens again, the item fails (D-06)."""

        def outdated() -> StoreError:
            return OutdatedPlan(kind="0A000", reason="cached plan must not change result type")

        for times, closed in (((2,), 3), ((2, 3), 2)):
            scene = Scene()
            scene.put_stale_sessions(3)
            scene.hook = failing("claim_sessions", outdated, *times)
            assert scene.run().report.closed_sessions == closed

    def test_a_selection_that_fails_leaves_the_other_phase_its_turn(self) -> None:
        """Phase A timing out does not keep phase B from closing; the run has failed all the same."""
        scene = Scene()
        scene.put_hanging_views(3)
        sessions = scene.put_stale_sessions(3)
        scene.hook = failing("claim_views_page", refused, 1)
        ended = scene.run()
        assert (ended.report.outcome, ended.report.closed_sessions) == (RunOutcome.FAILED, 3)
        assert not scene.active(sessions)


class TestEnds:
    """When a run ends before the backlog does."""

    @pytest.mark.parametrize("occurrence", [1, 2, 3, 4])
    def test_another_instance_at_work_is_a_skipped_run(self, occurrence: int) -> None:
        """Wherever the single-instance lock is refused, the tick ends as `skipped` (D-09)."""
        scene = Scene()
        scene.put_hanging_views(2)
        scene.put_stale_sessions(3)
        scene.hook = failing("begin", SingleInstanceHeld, *range(occurrence, 100))
        ended = scene.run()
        assert (ended.report.outcome, ended.error) == (RunOutcome.SKIPPED, None)
        assert ended.report.closed_sessions == max(0, occurrence - 3)

    def test_phase_a_leaves_half_of_the_time_to_phase_b(self) -> None:
        """A backlog of views does not keep sessions waiting, and the end by the limit is in order (D-14, BR-16)."""
        scene = Scene()
        scene.put_hanging_views(100)
        scene.put_stale_sessions(100)

        def slow(step: str) -> None:
            if step == "committed":
                scene.clock.move(timedelta(seconds=1))

        scene.hook = slow
        report = scene.run(batch_size=1, max_run_duration=timedelta(seconds=20)).report
        assert report.outcome is RunOutcome.STOPPED
        assert report.closed_views == 10 + 5
        assert report.closed_sessions == 5
        assert report.duration <= timedelta(seconds=22)
        scene.assert_one_event_a_closed_row()

    def test_the_cutoff_is_taken_once(self) -> None:
        """A row that becomes stale during a run is the next run's (BR-59)."""
        scene = Scene()
        sessions = scene.put_stale_sessions(3)
        young = a_session(scene.clock.read(), idle=12 * MINUTE - timedelta(seconds=1))
        scene.put(young)

        def slow(step: str) -> None:
            if step == "committed":
                scene.clock.move(timedelta(seconds=20))

        scene.hook = slow
        assert scene.run().report.closed_sessions == 3
        assert scene.active([*sessions, young]) == [young.id]
        scene.hook = lambda _: None
        assert scene.run().report.closed_sessions == 1

    @pytest.mark.parametrize("phase", list(Phase))
    def test_the_stores_time_is_read_again_with_each_page(self, phase: Phase) -> None:
        """A clock that is corrected during a run holds from the next page on (D-01)."""
        scene = Scene()
        is_a = phase is Phase.HANGING_VIEWS
        rows = scene.put_hanging_views(3) if is_a else scene.put_stale_sessions(3)
        start = scene.clock.read()

        def corrected(step: str) -> None:
            if step == ("claim_views_page" if is_a else "claim_sessions"):
                scene.clock.step(timedelta(seconds=7))

        scene.hook = corrected
        scene.run(batch_size=1)
        closed = [scene.store.view(row.id) if is_a else scene.store.session(row.id) for row in rows]
        ends = [row.ended_at - start for row in closed if row is not None and row.ended_at is not None]
        assert ends == [timedelta(0), timedelta(seconds=7), timedelta(seconds=14)]

    @pytest.mark.parametrize("step", ["claim_sessions", "sessions_page", "claim_views_page"])
    def test_a_stop_while_reconnecting_is_a_stop_in_order(self, step: str) -> None:
        """Giving up a connection for SIGTERM is no failure of an item, nor of the run (specification §10)."""
        scene = Scene()
        scene.put_hanging_views(2)
        scene.put_stale_sessions(3)

        def cancelled() -> StoreError:
            return ConnectingCancelled(kind="cancelled", reason="connecting was given up")

        scene.hook = failing(step, cancelled, 1)
        ended = scene.run()
        assert (ended.report.outcome, ended.report.failed_items) == (RunOutcome.STOPPED, 0)
        assert ended.error is None

    def test_a_backlog_that_cannot_be_counted_is_unknown(self) -> None:
        """The run has done its work all the same."""
        scene = Scene()
        scene.put_stale_sessions(3)
        scene.hook = failing("count", refused, 1)
        report = scene.run().report
        assert (report.outcome, report.closed_sessions) == (RunOutcome.COMPLETED, 3)
        assert report.backlog_remaining is None

    def test_a_selection_that_was_refused_is_told(self) -> None:
        """The error is in the answer, for the exit code."""
        scene = Scene()
        scene.hook = failing("sessions_page", refused, 1)
        ended = scene.run()
        assert (ended.report.outcome, ended.error and ended.error.kind) == (RunOutcome.FAILED, "57014")


class TestObservation:
    """What a run lets be seen."""

    def test_a_run_tells_its_story_in_order(self) -> None:
        """Started first, completed last, and what was committed adds up to the report."""
        scene = Scene()
        scene.put_hanging_views(5)
        scene.put_stale_sessions(3)
        report = scene.run(batch_size=2).report
        occurrences = scene.observation.occurrences
        assert isinstance(occurrences[0], JobStarted)
        assert occurrences[0].cutoff == scene.clock.read() - 12 * MINUTE
        assert occurrences[-1] == JobCompleted(report=report)
        committed = scene.observation.of(TransactionCommitted)
        assert sum(one.closed_sessions for one in committed) == report.closed_sessions == 3
        assert sum(one.closed_views for one in committed) == report.closed_views == 8
        batches = scene.observation.of(BatchProcessed)
        assert [(batch.phase, batch.rows, batch.closed) for batch in batches] == [
            (Phase.HANGING_VIEWS, 2, 2),
            (Phase.HANGING_VIEWS, 2, 2),
            (Phase.HANGING_VIEWS, 1, 1),
            (Phase.STALE_SESSIONS, 2, 2),
            (Phase.STALE_SESSIONS, 1, 1),
        ]

    def test_the_close_lag_is_closing_time_less_last_activity(self) -> None:
        """The figure of the accuracy target, for each closed row (specification §9)."""
        scene = Scene()
        now = scene.clock.read()
        session = a_session(now, idle=20 * MINUTE)
        scene.put(session, a_view(session, now, idle=3 * MINUTE))
        scene.run()
        lags = [lag for one in scene.observation.of(TransactionCommitted) for lag in one.close_lags]
        assert sorted(lags) == [3 * MINUTE, 20 * MINUTE]

    def test_spans_nest_and_events_carry_their_trace(self) -> None:
        """A span a run, a phase and a transaction; the context goes into the outbox (specification §8)."""
        scene = Scene()
        scene.put_stale_sessions(2)
        report = scene.run().report
        names = [name for name, _ in scene.observation.spans]
        assert names == ["run", "phase", "transaction", "phase", "transaction", "transaction"]
        assert scene.observation.spans[0][1] == {"jobRunId": str(report.job_run_id)}
        assert scene.observation.spans[1][1] == {"phase": "A", "batchSize": 500}
        assert [attributes for name, attributes in scene.observation.spans if name == "transaction"] == [
            {"phase": "A"},
            {"phase": "B"},
            {"phase": "B"},
        ]
        trace_parents = {message.trace_parent for message in scene.store.messages()}
        assert trace_parents == {scene.observation.trace_parent()}

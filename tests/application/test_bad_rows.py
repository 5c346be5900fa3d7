"""What bad rows cost a run (D-04 to D-07)."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from application.contracts.subject import a_session, a_view
from application.ports.run_observation import (
    Backlog,
    ItemFailed,
    Phase,
    RunOutcome,
    TransactionCommitted,
    TransactionFailed,
)
from application.ports.store_errors import (
    LockTimeout,
    OutdatedPlan,
    StoreError,
)
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.application.scene import MINUTE, Scene, failing, lost, refused


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

    def test_a_page_that_cannot_be_claimed_whole_is_claimed_in_parts(self) -> None:
        """One value that the server cannot give out costs its row, and no other (D-05)."""
        scene = Scene()
        views = scene.put_hanging_views(9)
        scene.hook = failing("claim_views_page", refused, 1, 2)
        report = scene.run(batch_size=5).report
        assert (report.outcome, report.closed_views, report.failed_items) == (RunOutcome.COMPLETED, 9, 0)
        assert not scene.active(views)

    def test_a_table_that_is_locked_is_not_waited_for_row_by_row(self) -> None:
        """A claim that ran into the lock timeout gives its phase up: its rows would each wait as long (BR-31)."""
        scene = Scene()
        scene.put_hanging_views(9)
        scene.hook = failing("claim_views_page", lambda: LockTimeout(kind="55P03", reason="locked"), 1)
        ended = scene.run()
        assert (ended.report.outcome, ended.report.closed_views) == (RunOutcome.FAILED, 0)
        assert isinstance(ended.error, LockTimeout)

    def test_a_selection_that_fails_leaves_the_other_phase_its_turn(self) -> None:
        """Phase A timing out does not keep phase B from closing; the run has failed all the same."""
        scene = Scene()
        scene.put_hanging_views(3)
        sessions = scene.put_stale_sessions(3)

        def refuses_both(step: str) -> None:
            if step in {"claim_views_page", "views_page"}:
                raise refused()

        scene.hook = refuses_both
        ended = scene.run()
        assert (ended.report.outcome, ended.report.closed_sessions) == (RunOutcome.FAILED, 3)
        assert not scene.active(sessions)

"""When a run ends, and what it lets be seen (D-01, D-09, D-14; specification §5, §8)."""

from datetime import timedelta

import pytest

from application.contracts.subject import a_session, a_view
from application.ports.run_observation import (
    BatchProcessed,
    JobCompleted,
    JobStarted,
    Phase,
    RunOutcome,
    TransactionCommitted,
)
from application.ports.store_errors import (
    ConnectingCancelled,
    SingleInstanceHeld,
    StoreError,
)
from tests.application.scene import MINUTE, Scene, failing, refused


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

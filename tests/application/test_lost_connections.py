"""What lost connections cost a run (D-06)."""

import pytest

from adapters.in_memory.clock import SettableClock
from application.lanes import Lanes
from application.ports.run_observation import (
    ItemFailed,
    Phase,
    RunOutcome,
)
from application.ports.store_errors import (
    AccessDenied,
    SchemaMissing,
    StoreUnavailable,
)
from tests.application.scene import Scene, failing, lost


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
                raise lost()

        scene = Scene()
        scene.store.clock = AwayClock()
        with pytest.raises(StoreUnavailable):
            scene.run()
        assert not scene.observation.occurrences

    @pytest.mark.parametrize("kind", [AccessDenied, SchemaMissing])
    def test_a_missing_right_or_table_ends_the_run_at_once(self, kind: type[StoreUnavailable]) -> None:
        """However little is stale; and the error is in the answer, for the exit code (specification §10)."""
        scene = Scene()
        scene.put_stale_sessions(1)
        scene.hook = failing("commit", lambda: kind(kind="42501", reason="permission denied"), 3)
        ended = scene.run()
        assert isinstance(ended.error, kind)
        assert (ended.report.outcome, ended.report.failed_items) == (RunOutcome.FAILED, 1)

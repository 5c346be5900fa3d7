"""What a run has done so far, and whether it goes on."""

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from attrs import frozen

from application.options import CloserOptions
from application.ports.cancellation import Cancellation
from application.ports.clock import Clock
from application.ports.run_observation import (
    Backlog,
    ItemFailed,
    JobStarted,
    Phase,
    RunObservation,
    RunOutcome,
    RunReport,
    TransactionCommitted,
)
from application.ports.store_errors import AccessDenied, SchemaMissing, StoreError, StoreUnavailable
from domain.closing import Ended, SessionEnded

CONSECUTIVE_FAILURES_MAX: Final = 100
"""Failed items without one success between them that put the whole store in doubt (D-06)."""


@frozen(kw_only=True)
class Committed:
    """What one transaction changed; nothing of it counts before its commit was answered."""

    ended: Sequence[Ended] = ()
    deferred: Sequence[UUID] = ()
    failures: Sequence[ItemFailed] = ()


class RunProgress:
    """Counts what was committed and knows when to end. Safe to use from several threads."""

    def __init__(
        self,
        started: JobStarted,
        *,
        options: CloserOptions,
        clock: Clock,
        cancellation: Cancellation,
        observation: RunObservation,
        lanes: int,
    ) -> None:
        self.job_run_id: Final = started.job_run_id
        self.cutoff: Final = started.cutoff
        self.error: StoreError | None = None
        """What the run failed on, if it was not its rows."""
        self._clock = clock
        self._cancellation = cancellation
        self._observation = observation
        self._losses_max = lanes
        self._began = clock.monotonic()
        limit = options.max_run_duration.total_seconds()
        # Phase A leaves half of the time to phase B (D-14).
        self._deadlines = {Phase.HANGING_VIEWS: self._began + limit / 2, Phase.STALE_SESSIONS: self._began + limit}
        self._mutex = Lock()
        self._ending: RunOutcome | None = None
        self._incomplete = False
        self._given_up: set[Phase] = set()
        self._failures_in_a_row = 0
        self._losses_in_a_row = 0
        self._closed_sessions = self._closed_views = self._deferred_sessions = self._failed_items = 0

    def goes_on(self, phase: Phase) -> bool:
        """Whether another record may be taken in hand (specification §5.4)."""
        with self._mutex:
            if self._ending is None and self._cancellation.requested():
                self._ending = RunOutcome.STOPPED
            if self._ending is None and self._clock.monotonic() >= self._deadlines[phase]:
                self._incomplete = True
                return False
            return self._ending is None and phase not in self._given_up

    def commit(self, phase: Phase, committed: Committed) -> int:
        """Counts what a transaction changed; answers how many rows of the phase were closed."""
        sessions = sum(isinstance(one, SessionEnded) for one in committed.ended)
        views = len(committed.ended) - sessions
        with self._mutex:
            self._closed_sessions += sessions
            self._closed_views += views
            self._deferred_sessions += len(committed.deferred)
            self._losses_in_a_row = 0
        self._observation.record(
            TransactionCommitted(
                phase=phase,
                closed_sessions=sessions,
                closed_views=views,
                deferred_sessions=len(committed.deferred),
                close_lags=tuple(one.close_lag for one in committed.ended),
            )
        )
        for failure in committed.failures:
            self.fail(failure)
        if committed.ended:
            with self._mutex:
                self._failures_in_a_row = 0
        return views if phase is Phase.HANGING_VIEWS else sessions

    def fail(self, failure: ItemFailed) -> None:
        """Counts a row that stays Active."""
        with self._mutex:
            self._failed_items += 1
            self._failures_in_a_row += 1
        self._observation.record(failure)

    def lose(self, error: StoreUnavailable) -> None:
        """The store went away once; a second time for want of any answer in between ends the run (D-06).

        A missing right or table ends it at once: another connection would not have it either.
        """
        with self._mutex:
            self._losses_in_a_row += 1
            # One loss a lane: a restart of the server cuts the connections of all lanes at once.
            is_lasting = isinstance(error, AccessDenied | SchemaMissing)
            if (is_lasting or self._losses_in_a_row > self._losses_max) and self._ending is None:
                self._ending, self.error = RunOutcome.FAILED, error

    def is_in_doubt(self) -> bool:
        """Whether so many items failed in a row that it may not be for the rows; answers yes once for each such row."""
        with self._mutex:
            in_doubt = self._failures_in_a_row >= CONSECUTIVE_FAILURES_MAX
            if in_doubt:
                self._failures_in_a_row = 0
            return in_doubt

    def give_up(self, phase: Phase, error: StoreError | None = None) -> None:
        """Nothing more of this phase can be done: the run has failed, but the other phase has its turn."""
        with self._mutex:
            self._given_up.add(phase)
            self.error = self.error or error

    def end(self, outcome: RunOutcome) -> None:
        """Nothing more is taken in hand."""
        with self._mutex:
            self._ending = self._ending or outcome

    def may_ask(self) -> bool:
        """Whether the store can be expected to answer once more."""
        return self._ending not in {RunOutcome.FAILED, RunOutcome.SKIPPED}

    def report(self, backlog: Backlog | None) -> RunReport:
        """What the run did."""
        outcome = self._ending or (RunOutcome.STOPPED if self._incomplete else RunOutcome.COMPLETED)
        if self._given_up and outcome is not RunOutcome.SKIPPED:
            outcome = RunOutcome.FAILED
        return RunReport(
            job_run_id=self.job_run_id,
            outcome=outcome,
            closed_sessions=self._closed_sessions,
            closed_views=self._closed_views,
            deferred_sessions=self._deferred_sessions,
            failed_items=self._failed_items,
            duration=timedelta(seconds=self._clock.monotonic() - self._began),
            backlog_remaining=backlog,
        )

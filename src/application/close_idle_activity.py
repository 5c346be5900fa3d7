"""Closing what has gone silent: one run of the closer (specification §5).

A row's way: claimed by the store -> domain object -> `close(now)` -> closed row and its event -> one unit of work.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final, Protocol, TypeVar
from uuid import UUID

from attrs import evolve, frozen

from application.lanes import Lanes
from application.options import CloserOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Cancellation
from application.ports.identifiers import Identifiers
from application.ports.row_claiming import Claim, Claiming, RowReference, ViewPage
from application.ports.run_observation import (
    Backlog,
    BatchProcessed,
    ItemFailed,
    JobCompleted,
    JobStarted,
    Phase,
    RunObservation,
    RunOutcome,
    RunReport,
    TransactionFailed,
)
from application.ports.store_errors import (
    ConnectingCancelled,
    LockTimeout,
    OutdatedPlan,
    SingleInstanceHeld,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)
from application.ports.unit_of_work import UnitOfWork
from application.record_ended import record_ended
from application.run_progress import Committed, RunProgress
from domain.activity import CannotClose
from domain.closing import Ended

Element = TypeVar("Element")


class Closable(Protocol):
    """Something claimed that closes as a whole or not at all."""

    @property
    def id(self) -> UUID:
        """The id of the row that was claimed."""

    def close(self, now: datetime) -> tuple[Ended, ...]:
        """Closes it, with all that belongs to it. Raises CannotClose."""


@frozen(kw_only=True)
class CloserRun:
    """A run that has ended: its report, and what it failed on, if that was not its rows."""

    report: RunReport
    error: StoreError | None


@frozen(kw_only=True)
class _Duty:
    """Where a phase claims its rows, and how it splits a transaction that was refused."""

    phase: Phase
    rows: Callable[[UnitOfWork], Claiming[Closable]]
    split: Callable[[Sequence[UUID]], Iterator[Sequence[UUID]]]


def _halves(ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    middle = len(ids) // 2
    yield ids[:middle]
    yield ids[middle:]


def _singles(ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    return ([one] for one in ids)


HANGING_VIEWS: Final = _Duty(
    phase=Phase.HANGING_VIEWS,
    rows=attrgetter("hanging_views"),
    split=_halves,
)
STALE_SESSIONS: Final = _Duty(
    phase=Phase.STALE_SESSIONS,
    rows=attrgetter("stale_sessions"),
    split=_singles,  # D-07
)


class CloserUseCase:
    """Turns idle rows `Active -> Inactive`, each exactly once, with one event a row in the same transaction."""

    def __init__(
        self,
        *,
        store: ActivityStore,
        identifiers: Identifiers,
        observation: RunObservation,
        cancellation: Cancellation,
        options: CloserOptions,
        lanes: Lanes | None = None,
    ) -> None:
        self._begin = store.begin
        self._clock = store.clock
        self._identifiers = identifiers
        self._observation = observation
        self._cancellation = cancellation
        self._options = options
        self._lanes = lanes or Lanes()

    def run(self) -> CloserRun:
        """One run: phase A, then phase B, each until nothing stale is left or the run has to end.

        Raises StoreError only if it could not even begin; whatever happens later is in the answer.
        """
        now = self._clock.read()
        started = JobStarted(job_run_id=self._identifiers.new(now), cutoff=now - self._options.inactivity_threshold)
        run = RunProgress(
            started,
            options=self._options,
            clock=self._clock,
            cancellation=self._cancellation,
            observation=self._observation,
            lanes=self._lanes.count,
        )
        with self._observation.span("run", {"jobRunId": str(run.job_run_id)}):
            self._observation.record(started)
            for phase, close in (
                (Phase.HANGING_VIEWS, self._close_hanging_views),
                (Phase.STALE_SESSIONS, self._close_stale_sessions),
            ):
                attributes = {"phase": phase.value, "batchSize": self._options.batch_size}
                with self._observation.span("phase", attributes):
                    try:
                        close(run)
                    except SingleInstanceHeld:
                        run.end(RunOutcome.SKIPPED)
            report = run.report(self._backlog(run))
            self._observation.record(JobCompleted(report=report))
        return CloserRun(report=report, error=run.error)

    def _close_hanging_views(self, run: RunProgress) -> None:
        """Phase A: a transaction a page, which claims the page and closes it."""
        after: RowReference | None = None
        is_full = True
        while is_full and run.goes_on(Phase.HANGING_VIEWS):
            page: ViewPage | None = None
            references: Sequence[RowReference]

            def claim_page(unit_of_work: UnitOfWork, after: RowReference | None = after) -> Claim[Closable]:
                nonlocal page
                page = unit_of_work.hanging_views.claim_page(run.cutoff, after, self._options.batch_size)
                return page.claim

            try:
                self._clock.read()
                closed = self._close_claimed(run, HANGING_VIEWS, claim_page)
                assert page is not None, "what was closed has been claimed"
                references = page.references
            except StoreError as error:
                try:
                    references = page.references if page else self._references_of(run, after, error)
                except StoreError as selection_error:
                    if self._may_select_again(run, Phase.HANGING_VIEWS, selection_error):
                        continue
                    return
                closed = self._divide(run, HANGING_VIEWS, [reference.id for reference in references], error)
            rows = len(references)
            self._observation.record(BatchProcessed(phase=Phase.HANGING_VIEWS, rows=rows, closed=closed))
            is_full = rows == self._options.batch_size
            after = references[-1] if references else after

    def _references_of(self, run: RunProgress, after: RowReference | None, error: StoreError) -> Sequence[RowReference]:
        """The rows of a page that could not be claimed whole, for one of its values, say: each can be tried (D-05).

        Raises the error itself if it was not for the rows.
        """
        if isinstance(error, TransactionRefused) and not isinstance(error, LockTimeout):
            with self._begin() as unit_of_work:
                references = unit_of_work.hanging_views.page(run.cutoff, after, self._options.batch_size)
                unit_of_work.commit()
            if references:
                return references
        raise error

    def _close_stale_sessions(self, run: RunProgress) -> None:
        """Phase B: pages of candidates read ahead without locks, then a transaction a session, in all lanes."""
        after: RowReference | None = None
        is_full = True
        while is_full and run.goes_on(Phase.STALE_SESSIONS):
            try:
                self._clock.read()
                with self._begin() as unit_of_work:
                    page = unit_of_work.stale_sessions.page(run.cutoff, after, self._options.batch_size)
                    unit_of_work.commit()
            except StoreError as error:
                if not self._may_select_again(run, Phase.STALE_SESSIONS, error):
                    return
                continue
            groups = _groups_of(self._options.sessions_per_transaction, [reference.id for reference in page])
            closed = sum(self._lanes.map(partial(self._close_by_id, run, STALE_SESSIONS), groups))
            self._observation.record(BatchProcessed(phase=Phase.STALE_SESSIONS, rows=len(page), closed=closed))
            is_full = len(page) == self._options.batch_size
            after = page[-1] if page else after

    def _close_by_id(self, run: RunProgress, duty: _Duty, ids: Sequence[UUID]) -> int:
        """Closes rows in one transaction, or in parts if it fails; answers how many were closed."""
        if not run.goes_on(duty.phase):
            return 0
        try:
            return self._close_claimed(run, duty, lambda unit_of_work: duty.rows(unit_of_work).claim(ids, run.cutoff))
        except StoreError as error:
            return self._divide(run, duty, ids, error)

    def _divide(self, run: RunProgress, duty: _Duty, ids: Sequence[UUID], error: StoreError) -> int:
        """A bad row costs only itself: halves or single rows, each in a transaction of its own (D-05, D-07)."""
        if isinstance(error, ConnectingCancelled):
            run.end(RunOutcome.STOPPED)
            return 0
        if isinstance(error, StoreUnavailable):
            run.lose(error)
        if len(ids) == 1:
            run.fail(ItemFailed(phase=duty.phase, id=ids[0], kind=error.kind, error=error.reason))
            self._give_up_if_nothing_closes(run, duty)
            return 0
        self._observation.record(
            TransactionFailed(phase=duty.phase, rows=len(ids), kind=error.kind, error=error.reason)
        )
        return sum(self._close_by_id(run, duty, part) for part in duty.split(ids))

    def _give_up_if_nothing_closes(self, run: RunProgress, duty: _Duty) -> None:
        """After many failures in a row, the row that the run would come to last tells whether any can be closed (D-06).

        Bad rows gather at the head of the order, since they never close: ending there would starve the healthy ones.
        """
        if not run.is_in_doubt():
            return
        try:
            with self._begin() as unit_of_work:
                newest = duty.rows(unit_of_work).newest(run.cutoff)
                unit_of_work.commit()
            if newest is not None and self._close_claimed(
                run, duty, lambda unit_of_work: duty.rows(unit_of_work).claim([newest], run.cutoff), is_trial=True
            ):
                return
        except StoreUnavailable as error:
            run.lose(error)  # it says nothing of the rows
            return
        except StoreError as error:
            self._observation.record(TransactionFailed(phase=duty.phase, rows=1, kind=error.kind, error=error.reason))
        run.give_up(duty.phase)

    def _close_claimed(
        self, run: RunProgress, duty: _Duty, claim: Callable[[UnitOfWork], Claim[Closable]], *, is_trial: bool = False
    ) -> int:
        """One transaction: claims, closes, records; answers how many rows of the phase were closed.

        The failures of a trial are not counted: its row is reported when the run comes to it, if it does.
        """
        try:
            return self._transact(run, duty, claim, is_trial=is_trial)
        except OutdatedPlan:
            return self._transact(run, duty, claim, is_trial=is_trial)

    def _transact(
        self, run: RunProgress, duty: _Duty, claim: Callable[[UnitOfWork], Claim[Closable]], *, is_trial: bool
    ) -> int:
        with self._observation.span("transaction", {"phase": duty.phase.value}):
            with self._begin() as unit_of_work:
                committed = self._close_each(duty.phase, claim(unit_of_work))
                record_ended(
                    unit_of_work,
                    committed.ended,
                    identifiers=self._identifiers,
                    correlation_id=run.job_run_id,
                    trace_parent=self._observation.trace_parent(),
                )
                unit_of_work.commit()
            closed = run.commit(duty.phase, evolve(committed, failures=()) if is_trial else committed)
        if committed.failures and not is_trial:
            self._give_up_if_nothing_closes(run, duty)
        return closed

    def _close_each(self, phase: Phase, claim: Claim[Closable]) -> Committed:
        """Lets each claimed thing close itself; one that cannot is left out, whole."""
        now = self._clock.now()
        ended: list[Ended] = []
        failures = [ItemFailed(phase=phase, id=row.id, kind="unreadable", error=row.reason) for row in claim.unreadable]
        for row in claim.rows:
            try:
                ended.extend(row.close(now))
            except CannotClose as error:
                failures.append(ItemFailed(phase=phase, id=row.id, kind=error.kind, error=str(error)))
        return Committed(ended=ended, deferred=claim.deferred, failures=failures)

    def _may_select_again(self, run: RunProgress, phase: Phase, error: StoreError) -> bool:
        """A page could not be read: once more after a lost connection, else the phase is over for this run."""
        if isinstance(error, ConnectingCancelled):
            run.end(RunOutcome.STOPPED)
            return False
        self._observation.record(TransactionFailed(phase=phase, rows=0, kind=error.kind, error=error.reason))
        if isinstance(error, StoreUnavailable):
            run.lose(error)
            return run.goes_on(phase)
        run.give_up(phase, error)
        return False

    def _backlog(self, run: RunProgress) -> Backlog | None:
        if not run.may_ask():
            return None
        try:
            with self._begin() as unit_of_work:
                backlog = Backlog(
                    sessions=unit_of_work.stale_sessions.count(run.cutoff),
                    views=unit_of_work.hanging_views.count(run.cutoff),
                )
                unit_of_work.commit()
        except StoreError:
            return None
        return backlog


def _groups_of(size: int, elements: Sequence[Element]) -> Iterator[Sequence[Element]]:
    rest = iter(elements)
    while group := list(islice(rest, size)):
        yield group

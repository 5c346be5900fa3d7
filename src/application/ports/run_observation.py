"""What a run lets the outside see: logs, metrics and traces all hang on this one port."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from attrs import frozen


class Phase(StrEnum):
    """The two duties of a run, in their order (specification §1)."""

    HANGING_VIEWS = "A"
    STALE_SESSIONS = "B"


class RunOutcome(StrEnum):
    """How a run ended (specification §10)."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    """Ended in order by the run limit or by cancellation; the rest is the next tick's."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Another instance holds the single-instance lock (D-09)."""


@frozen(kw_only=True)
class Backlog:
    """Rows that are still stale at a run's cutoff."""

    sessions: int
    views: int


@frozen(kw_only=True)
class JobStarted:
    """A run begins."""

    job_run_id: UUID
    cutoff: datetime


@frozen(kw_only=True)
class TransactionCommitted:
    """A transaction of the run has been committed, and what it changed."""

    phase: Phase
    closed_sessions: int
    closed_views: int
    deferred_sessions: int
    close_lags: tuple[timedelta, ...]
    """Of each closed row: closing time less last activity."""


@frozen(kw_only=True)
class BatchProcessed:
    """A page of the selection has been dealt with."""

    phase: Phase
    rows: int
    """Rows that the selection returned."""
    closed: int
    """Rows that were closed by it: in phase B sessions, not their views."""


@frozen(kw_only=True)
class ItemFailed:
    """A row could not be closed and stays Active (D-05)."""

    phase: Phase
    id: UUID
    kind: str
    """A bounded name: an SQLSTATE or a word."""
    error: str
    """One line without personal data."""


@frozen(kw_only=True)
class TransactionFailed:
    """A transaction of several rows, or a selection, failed; its rows are tried again in smaller parts, if known."""

    phase: Phase
    rows: int
    kind: str
    error: str


@frozen(kw_only=True)
class RunReport:
    """What a run did (specification §5.5, §10)."""

    job_run_id: UUID
    outcome: RunOutcome
    closed_sessions: int
    closed_views: int
    deferred_sessions: int
    failed_items: int
    duration: timedelta
    backlog_remaining: Backlog | None
    """None where the store could not be asked any more."""

    def summary(self) -> dict[str, object]:
        """The report under the names of the specification, the run's id apart (§8, §10)."""
        backlog = self.backlog_remaining
        return {
            "outcome": self.outcome.value,
            "closedSessions": self.closed_sessions,
            "closedViews": self.closed_views,
            "deferredSessions": self.deferred_sessions,
            "failedItems": self.failed_items,
            "durationMs": round(self.duration / timedelta(milliseconds=1)),
            "backlogRemaining": None if backlog is None else {"sessions": backlog.sessions, "views": backlog.views},
        }


@frozen(kw_only=True)
class JobCompleted:
    """A run has ended, in whatever way."""

    report: RunReport


Occurrence = JobStarted | TransactionCommitted | BatchProcessed | ItemFailed | TransactionFailed | JobCompleted


class RunObservation(Protocol):
    """Sees what happens in runs. Must be safe to call from several threads, and must not fail."""

    def record(self, occurrence: Occurrence) -> None:
        """Something happened, in the innermost span of this thread."""

    def span(self, name: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[None]:
        """A stretch of the run; spans opened within are its children."""

    def trace_parent(self) -> str | None:
        """W3C trace context of the innermost span, to travel with events; None if no trace is recorded."""

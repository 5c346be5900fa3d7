"""The closer's last runs, as they report themselves."""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from application.ports.run_observation import JobCompleted, JobStarted, Occurrence, RunReport

_RUNS_KEPT: Final = 50


@frozen(kw_only=True)
class Run:
    """A run that has ended."""

    number: int
    started_at: datetime
    report: RunReport

    @property
    def left(self) -> str:
        """How many stale rows it left to the next run."""
        backlog = self.report.backlog_remaining
        return "?" if backlog is None else str(backlog.sessions + backlog.views)


class RunHistory:
    """Observes runs."""

    def __init__(self, *, inactivity_threshold: timedelta) -> None:
        self._inactivity_threshold = inactivity_threshold
        self._started_at: datetime | None = None
        self.runs: tuple[Run, ...] = ()
        """The runs of late, the oldest first; replaced as a whole, since another thread looks at it."""
        self.failed_items = 0

    def record(self, occurrence: Occurrence) -> None:
        """Remembers a run when it has ended."""
        match occurrence:
            case JobStarted(cutoff=cutoff):
                self._started_at = cutoff + self._inactivity_threshold
            case JobCompleted(report=report):
                assert self._started_at is not None, "a run that completes has started"
                number = self.runs[-1].number + 1 if self.runs else 1
                run = Run(number=number, started_at=self._started_at, report=report)
                self.runs = (*self.runs[1 - _RUNS_KEPT :], run)
                self.failed_items += report.failed_items

    def span(self, name: str, attributes: Mapping[str, str | int]) -> nullcontext[None]:
        """No span."""
        return nullcontext()

    def trace_parent(self) -> None:
        """No trace."""
        return

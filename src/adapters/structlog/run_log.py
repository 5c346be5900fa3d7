"""What runs of the closer write into the log (specification §8)."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import structlog

from application.ports.run_observation import (
    BatchProcessed,
    ItemFailed,
    JobCompleted,
    JobStarted,
    Occurrence,
    RunOutcome,
    TransactionCommitted,
    TransactionFailed,
)


class RunLog:
    """Writes a line for what happens. Ids, counts and kinds are written, and nothing of a row beside its id."""

    def __init__(self) -> None:
        self._log: Any = structlog.get_logger("activity_closer")

    def record(self, occurrence: Occurrence) -> None:
        match occurrence:
            case JobStarted():
                structlog.contextvars.bind_contextvars(jobRunId=str(occurrence.job_run_id))
                self._log.info("job started", cutoff=occurrence.cutoff.isoformat())
            case BatchProcessed() if occurrence.rows:
                self._log.info(
                    "batch processed", phase=occurrence.phase, rows=occurrence.rows, closed=occurrence.closed
                )
            case ItemFailed():
                self._log.error(
                    "item failed",
                    phase=occurrence.phase,
                    id=str(occurrence.id),
                    kind=occurrence.kind,
                    error=occurrence.error,
                )
            case TransactionFailed():
                self._log.warning(
                    "transaction failed",
                    phase=occurrence.phase,
                    rows=occurrence.rows,
                    kind=occurrence.kind,
                    error=occurrence.error,
                )
            case JobCompleted(report=report):
                write = self._log.error if report.outcome is RunOutcome.FAILED else self._log.info
                write("job completed", **report.summary())
                structlog.contextvars.unbind_contextvars("jobRunId")
            case BatchProcessed() | TransactionCommitted():
                pass  # nothing was found, or it is in the batch's line

    def span(self, name: str, attributes: Mapping[str, str | int]) -> nullcontext[None]:
        return nullcontext()

    def trace_parent(self) -> None:
        return

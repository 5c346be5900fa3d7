"""The log's lines, and a log that cannot be written."""

import json
from datetime import UTC, datetime
from io import StringIO
from uuid import UUID

import structlog

from adapters.structlog import RunLog, configure_logging
from application.ports.run_observation import JobStarted

STARTED = JobStarted(job_run_id=UUID(int=7), cutoff=datetime(2026, 12, 1, 12, tzinfo=UTC))


def test_a_line_is_one_json_object() -> None:
    """One object a line, what happened first (specification §8)."""
    stream = StringIO()
    configure_logging(line_format="json", level="info", stream=stream)
    RunLog().record(STARTED)
    [line] = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert list(entry)[:3] == ["timestamp", "level", "event"]
    assert (entry["event"], entry["jobRunId"]) == ("job started", str(STARTED.job_run_id))
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


class FullDisk(StringIO):
    """Takes nothing."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    """A full disk, or a reader that has gone, must not keep rows from being closed."""
    configure_logging(line_format="json", level="info", stream=FullDisk())
    RunLog().record(STARTED)
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()

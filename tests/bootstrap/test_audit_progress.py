"""What `activity-closer audit` says while it looks through long tables."""

from datetime import timedelta

import pytest

from adapters.in_memory.clock import SettableClock
from bootstrap.cli.audit import SECONDS_BETWEEN_PROGRESS, Progress


def test_progress_is_said_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, how much it is by then, and not more often than somebody can read."""
    clock = SettableClock()
    progress = Progress(clock.monotonic)
    for rows in range(1, 12):
        progress({"sessions": rows, "views": 2 * rows})
        clock.move(timedelta(seconds=SECONDS_BETWEEN_PROGRESS / 4))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["looked through: 5 sessions, 10 views", "looked through: 9 sessions, 18 views"]

"""BR-14: a wrong clock of the worker's host closes nothing too early and nothing too late (D-01)."""

import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.end_to_end.activity_tables import ActivityTables, Counts
from tests.end_to_end.program import run_once, time_of

# In CI the program has to be there: a test that is skipped in silence protects nothing.
needs_faketime = pytest.mark.skipif(
    shutil.which("faketime") is None and not os.environ.get("CI"), reason="needs the program faketime"
)


@needs_faketime
@pytest.mark.parametrize("minutes", [30, -30])
def test_a_host_whose_clock_is_wrong(database: str, minutes: int) -> None:
    """BR-14: exactly the stale rows are closed, and each time in rows and events is the database's."""
    tables = ActivityTables(database)
    tables.execute(
        "alter table user_activity.outbox add column available_at timestamptz not null default clock_timestamp(),"
        " add constraint not_before_it_occurred check (available_at >= occurred_at)"
    )
    tables.add_sessions(10, silent="1 min", views=1)
    tables.add_sessions(10, silent="13 min", views=1)

    faketime = shutil.which("faketime")
    assert faketime, "CI has to install faketime"
    ended = run_once(database, before=(faketime, "-f", f"{minutes:+}m"))

    skew = time_of(ended.log[0]) - datetime.now(UTC)
    assert abs(skew - timedelta(minutes=minutes)) < timedelta(minutes=2), "the host's clock was wrong"
    assert (ended.exit_code, ended.said) == (0, [])
    assert (ended.result["closedSessions"], ended.result["closedViews"]) == (10, 10)
    assert tables.counts() == Counts(
        active_sessions=10, active_views=10, inactive_sessions=10, inactive_views=10, events=20
    )
    tables.assert_rules_hold()
    assert tables.execute(
        """select count(*) from user_activity.outbox
           where occurred_at between clock_timestamp() - interval '2 min' and clock_timestamp()"""
    ) == [(20,)]
    cutoff = datetime.fromisoformat(ended.log[0]["cutoff"])
    [(now,)] = tables.execute("select clock_timestamp()")
    assert timedelta(minutes=12) <= now - cutoff < timedelta(minutes=14)

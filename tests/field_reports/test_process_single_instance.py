"""BR-46: the advisory lock of the single-instance mode is stranded by nobody, whatever happens to its holder (D-09)."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import pytest

from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Program, wait_until

STATEMENT_TIMEOUT_SECONDS: Final = 0.5
_HOLDERS: Final = """
    from pg_locks join pg_stat_activity using (pid)
    where datname = current_database() and locktype = 'advisory' and granted"""

_STUCK: Final = f"""
    select pid {_HOLDERS}
    and state = 'active' and wait_event = 'ClientRead'
    and clock_timestamp() - state_change > make_interval(secs => %(seconds)s)"""


def is_within_a_run(program: Program) -> bool:
    """Whether it says that it has begun one, and not yet that it ended."""
    return len(program.log("job started")) > len(program.log("job completed"))


def end_its_backend(tables: ActivityTables, _holder: Program) -> None:
    """As an administrator does."""
    wait_until(lambda: bool(tables.execute(f"select pg_terminate_backend(pid) {_HOLDERS}")))


def kill(_tables: ActivityTables, holder: Program) -> None:
    """As the machine does when memory runs out."""
    holder.kill()


def suspend(tables: ActivityTables, holder: Program) -> None:
    """As the host does with a virtual machine; nobody wakes it.

    Not within the fractions of a millisecond in which it sends several statements one after the other: there the server
    waits for the rest of them, for as long as it takes (docs/guarantees.md).
    """
    holder.send(signal.SIGSTOP)
    while is_held_for_long(tables):
        holder.send(signal.SIGCONT)
        holder.send(signal.SIGSTOP)


def is_held_for_long(tables: ActivityTables) -> bool:
    """Whether the server waits for the rest of a pipeline longer than any of its timeouts."""
    judged_at = time.monotonic() + 3 * STATEMENT_TIMEOUT_SECONDS
    wait_until(lambda: time.monotonic() >= judged_at)
    return bool(tables.execute(_STUCK, seconds=STATEMENT_TIMEOUT_SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("misfortune", [end_its_backend, kill, suspend])
def test_others_take_over(database: str, misfortune: Callable[[ActivityTables, Program], None]) -> None:
    """What the holder of the lock leaves undone is done by another instance, once, and no lock is left."""
    tables = ActivityTables(database)
    tables.slow_down(seconds_a_row=0.01)
    tables.add_sessions(400, views=1)
    with ExitStack() as stack:
        instances = [
            stack.enter_context(
                Program(
                    "run",
                    database_url=database,
                    single_instance="on",
                    polling_interval="500ms",
                    statement_timeout=f"{STATEMENT_TIMEOUT_SECONDS * 1000:.0f}ms",
                )
            )
            for _ in range(3)
        ]
        wait_until(lambda: any(map(is_within_a_run, instances)) and tables.counts().active_sessions < 400)
        misfortune(tables, next(filter(is_within_a_run, instances), instances[0]))
        tables.add_sessions(50)
        wait_until(lambda: not tables.counts().active_sessions)
    wait_until(lambda: not tables.execute(f"select pid {_HOLDERS}"))
    tables.assert_rules_hold()

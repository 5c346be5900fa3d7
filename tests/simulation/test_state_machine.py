"""No history of visitors, workers, time and misfortune breaks the promise (specification §2, §3)."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.closer_machine import CloserMachine
from tests.simulation.publisher_machine import PublisherMachine


def test_no_history_breaks_an_invariant() -> None:
    """Whatever order the statements of commands and workers come in, every state and every outcome is legal."""
    run_state_machine_as_test(
        CloserMachine,
        settings=settings(
            max_examples=int(os.environ.get("ACTIVITY_CLOSER_TEST_HISTORIES", "400")),
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_history_loses_an_event() -> None:
    """Whatever publishers and the broker do beside the rest, every event arrives, and without a fault once."""
    run_state_machine_as_test(
        PublisherMachine,
        settings=settings(
            max_examples=int(os.environ.get("ACTIVITY_CLOSER_TEST_HISTORIES", "400")),
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

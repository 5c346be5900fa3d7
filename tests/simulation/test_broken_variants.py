"""The state machine can fail: each wrong variant is found within its budget of histories."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.audit import Violation
from tests.simulation.broken_publishers import BROKEN_PUBLISHERS
from tests.simulation.broken_variants import BROKEN_VARIANTS
from tests.simulation.closer_machine import CloserMachine
from tests.simulation.publisher_machine import PublisherMachine

BUDGET = settings(
    max_examples=1_000,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("variant", BROKEN_VARIANTS)
def test_a_wrong_variant_is_found(variant: str) -> None:
    """A machine that cannot fail proves nothing."""

    class BrokenMachine(CloserMachine):
        system = BROKEN_VARIANTS[variant]

    with pytest.raises(Violation):
        run_state_machine_as_test(BrokenMachine, settings=BUDGET)


@pytest.mark.parametrize("variant", BROKEN_PUBLISHERS)
def test_a_wrong_publisher_is_found(variant: str) -> None:
    """Neither does one that no wrong publisher can fail."""

    class BrokenMachine(PublisherMachine):
        system = BROKEN_PUBLISHERS[variant]

    with pytest.raises(Violation):
        run_state_machine_as_test(BrokenMachine, settings=BUDGET)

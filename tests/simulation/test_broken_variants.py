"""The state machine can fail: each wrong variant is found within its budget of histories."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.audit import Violation
from tests.simulation.broken_publishers import BROKEN_PUBLISHERS
from tests.simulation.broken_variants import BROKEN_VARIANTS
from tests.simulation.closer_machine import CloserMachine
from tests.simulation.publisher_machine import PublisherMachine
from tests.simulation.stepping_store import Roles

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


def machine_with(wrong: Roles) -> type[CloserMachine]:
    """The same machine on a wrong store."""

    class BrokenMachine(CloserMachine):
        roles = staticmethod(wrong)

    return BrokenMachine


@pytest.mark.parametrize("variant", BROKEN_VARIANTS)
def test_a_wrong_variant_is_found(variant: str) -> None:
    """A machine that cannot fail proves nothing."""
    with pytest.raises(Violation):
        run_state_machine_as_test(machine_with(BROKEN_VARIANTS[variant]), settings=BUDGET)


@pytest.mark.parametrize("variant", BROKEN_PUBLISHERS)
def test_a_wrong_publisher_is_found(variant: str) -> None:
    """Neither does one that no wrong publisher can fail."""
    wrong = BROKEN_PUBLISHERS[variant]

    class BrokenMachine(PublisherMachine):
        outbox_roles = staticmethod(wrong.outbox_roles)
        sender = staticmethod(wrong.sender)

    with pytest.raises(Violation):
        run_state_machine_as_test(BrokenMachine, settings=BUDGET)

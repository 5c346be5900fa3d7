"""The state machine can fail: each wrong variant is found within its budget of histories."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.audit import Violation
from tests.simulation.broken_variants import BROKEN_VARIANTS
from tests.simulation.closer_machine import CloserMachine
from tests.simulation.stepping_store import Roles


def machine_with(wrong: Roles) -> type[CloserMachine]:
    """The same machine on a wrong store."""

    class BrokenMachine(CloserMachine):
        roles = staticmethod(wrong)

    return BrokenMachine


@pytest.mark.parametrize("variant", BROKEN_VARIANTS)
def test_a_wrong_variant_is_found(variant: str) -> None:
    """A machine that cannot fail proves nothing."""
    budget = settings(
        max_examples=1_000,
        stateful_step_count=60,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(Violation):
        run_state_machine_as_test(machine_with(BROKEN_VARIANTS[variant]), settings=budget)

"""The store in memory does what PostgreSQL does, step by step, with several transactions at once."""

import os
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agreement.agreement_machine import AgreementMachine
from tests.agreement.broken_stores import BROKEN_STORES
from tests.agreement.sides import InMemoryPlace, PostgresPlace
from tests.agreement.together import Disagreement

HISTORIES = settings(
    max_examples=int(os.environ.get("ACTIVITY_CLOSER_TEST_AGREEMENTS", "150")),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
BUDGET = settings(HISTORIES, max_examples=500, phases=[Phase.generate], report_multiple_bugs=False)


@pytest.mark.slow
@pytest.mark.timeout(900)  # it takes half a minute; what it finds is told in few words after some minutes more
def test_the_stores_agree(postgres: PostgresPlace) -> None:
    """Who gets rows, who waits, who skips, who fails, what is seen by whom and what remains is the same in both."""

    class Machine(AgreementMachine):
        pass

    Machine.postgres = postgres
    run_state_machine_as_test(Machine, settings=HISTORIES)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_STORES)
def test_a_wrong_store_is_found(broken: str, postgres: PostgresPlace) -> None:
    """A machine that cannot fail proves nothing."""

    class Machine(AgreementMachine):
        in_memory = partial(InMemoryPlace, BROKEN_STORES[broken])

    Machine.postgres = postgres
    with pytest.raises(Disagreement):
        run_state_machine_as_test(Machine, settings=BUDGET)

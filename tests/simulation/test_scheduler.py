"""Histories by seed: none breaks a rule, every wrong system is found, and a seed tells the same story each time."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.exploration import VARIANTS, explore, find_first, play

ROOT: Final = Path(__file__).resolve().parents[2]
STEPS: Final = 200
HISTORIES: Final = int(os.environ.get("ACTIVITY_CLOSER_TEST_SEEDS", "2000"))
PARTS: Final = 8
"""So that several processes share them."""
BUDGET: Final = 500
"""So many histories may pass before a wrong system is found."""

FOUND_FIRST_AT: Final = {
    "closes without a guard": 5,
    "trusts its candidates": 13,
    "reads views before the lock": 37,
    "leaves held views behind": 37,
    "locks too weakly": 3,
    "ignores that a session is held": 3,
    "takes the cutoff for stale": 4,
    "passes over the next": 0,
    "returns to passed sessions": 12,
    "returns to passed views": 34,
    "ignores that a view is held": 8,
    "names nobody": 1,
    "reads without locking": 3,
    "forgets open views": 9,
    "writes events apart": 0,
    "takes the cutoff from its host": 0,
    "ignores leases": 0,
    "reads before it leases": 34,
    "never ends a lease": 0,
    "ends the leases of others": 0,
    "tries the dead": 14,
    "records a little more": 0,
    "remembers a high-water mark": 3,
    "believes in sending": 3,
}
"""From 0 on. Whatever calls a port once more, or once less, moves them: `python -m tests.simulation --variants`."""


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_rule(part: int) -> None:
    """Whatever goes wrong in whatever order, each state, each commit and each outcome is legal (specification §2)."""
    outcome = explore(range(part, HISTORIES, PARTS), steps=STEPS)
    assert not outcome.findings
    happened = {"closings", "deliveries", "crashes", "lost answers", "refused commits", "failed calls"}
    assert happened <= outcome.tally.keys(), "a search in which nothing happens proves nothing"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_wrong_system_is_found(variant: str) -> None:
    """A search that cannot fail proves nothing; the correct system passes where the wrong one fails."""
    found = find_first(variant, seeds=range(BUDGET), steps=STEPS)
    assert found.error.startswith("Violation: ")
    assert not explore([found.seed], steps=STEPS).findings
    assert found.seed == FOUND_FIRST_AT[variant], "`python -m tests.simulation --variants` tells all of them anew"


def test_a_seed_is_a_history() -> None:
    """The same seed gives the same history, byte for byte, and another seed another."""
    first, again, other = (str(play(seed, steps=STEPS)[1]) for seed in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_is_the_same_history_everywhere(hash_seed: str) -> None:
    """In any process, whatever order its sets are in."""
    shown = simulate("--seed", "7", "--steps", str(STEPS), "--verbose", hash_seed=hash_seed)
    assert shown.stdout.startswith(f"seed 7:\n{play(7, steps=STEPS)[1]}\nfrom seed 7: 1 histories, ")


def test_a_failure_prints_its_seed() -> None:
    """The command ends with 1 and says how to see the history again, which then shows every step to the end."""
    variant = "forgets open views"
    seed = FOUND_FIRST_AT[variant]
    searched = simulate("--seed", "0", "--histories", str(seed + 1), "--variant", variant)
    assert searched.returncode == 1
    assert f"seed {seed}: Violation: INV-LV-007" in searched.stdout
    assert f"--seed {seed} --steps {STEPS} --variant '{variant}'" in searched.stdout
    repeated = simulate("--seed", str(seed), "--steps", str(STEPS), "--variant", variant)
    assert repeated.stdout.startswith(f"seed {seed}:\n{play(seed, steps=STEPS, variant=variant)[1]}\nseed {seed}: ")


def test_processes_side_by_side_find_what_one_finds() -> None:
    """Seeds are shared out, none twice, none left out; the last line tells what they came to."""
    alone = explore(range(60), steps=STEPS).tally
    together = simulate("--seed", "0", "--histories", "60", "--processes", "2")
    assert together.returncode == 0, together.stderr
    assert f": 60 histories, {alone['steps']:,} steps, {alone['commits']:,} commits, " in together.stdout

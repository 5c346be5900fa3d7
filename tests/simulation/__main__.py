"""Histories from the command line: one seed after the other, or one of them to read."""

import os
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import click

from tests.simulation.exploration import VARIANTS, Outcome, explore_side_by_side, find_first, play

SEEDS_AT_ONCE = 25
SEED_LIMIT = 1_000_000_000
FIGURES = ("histories", "steps", "commits", "closings", "events", "deliveries", "crashes", "lost answers", "violations")


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="The first seed; without it, one by chance.")
@click.option("--steps", type=click.IntRange(min=1), default=200, show_default=True, help="Of a history, before quiet.")
@click.option("--histories", type=click.IntRange(min=1), help="How many; 1 with a seed, without end otherwise.")
@click.option("--variant", type=click.Choice(list(VARIANTS)), help="A system that is wrong on purpose.")
@click.option("--processes", type=click.IntRange(min=1), default=os.cpu_count(), show_default=True)
@click.option("--verbose", is_flag=True, help="Show every step of every history.")
@click.option("--variants", is_flag=True, help="Only tell the first seed that finds each of the wrong systems.")
def main(
    seed: int | None,
    steps: int,
    histories: int | None,
    variant: str | None,
    processes: int,
    *,
    verbose: bool,
    variants: bool,
) -> None:
    """Play histories of the whole system in memory, each decided by its seed, until Ctrl-C."""
    if variants:
        for name in VARIANTS:
            click.echo(f'    "{name}": {find_first(name, steps=steps, seeds=count(seed or 0)).seed},')
        return
    first = secrets.randbelow(SEED_LIMIT) if seed is None else seed
    if histories is None and seed is not None:
        histories = 1
    outcomes: Iterator[Outcome]
    if verbose or histories == 1:
        seeds = count(first) if histories is None else range(first, first + histories)
        outcomes = (_shown(one, steps, variant, verbose=verbose) for one in seeds)
    else:
        outcomes = explore_side_by_side(_chunks(first, histories), steps=steps, variant=variant, processes=processes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began, tally = time.perf_counter(), Counter[str]()
    try:
        for outcome in outcomes:
            tally += outcome.tally
            for finding in outcome.findings:
                again = f" --variant '{variant}'" if variant else ""
                click.echo(f"seed {finding.seed}: {finding.error}")
                click.echo(f"    again: python -m tests.simulation --seed {finding.seed} --steps {steps}{again}")
    except KeyboardInterrupt:
        click.echo(err=True)
    told = ", ".join(f"{tally[name]:,} {name}" for name in FIGURES)
    click.echo(f"from seed {first}: {told}, {time.perf_counter() - began:.1f} seconds")
    sys.exit(1 if tally["violations"] else 0)


def _chunks(first: int, histories: int | None) -> Iterator[range]:
    starts = count(first, SEEDS_AT_ONCE)
    if histories is None:
        return (range(start, start + SEEDS_AT_ONCE) for start in starts)
    end = first + histories
    whole = islice(starts, -(-histories // SEEDS_AT_ONCE))
    return (range(start, min(start + SEEDS_AT_ONCE, end)) for start in whole)


def _shown(seed: int, steps: int, variant: str | None, *, verbose: bool) -> Outcome:
    """One history, shown if it is asked for, or if it breaks a rule."""
    outcome, history = play(seed, steps=steps, variant=variant)
    if verbose or outcome.findings:
        click.echo(f"seed {seed}:\n{history}")
    return outcome


if __name__ == "__main__":
    main()

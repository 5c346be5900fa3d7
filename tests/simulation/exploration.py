"""Many histories, seed by seed: what they came to, and the seeds that broke a rule."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Final

from attrs import frozen

from tests.simulation.broken_publishers import BROKEN_PUBLISHERS
from tests.simulation.broken_variants import BROKEN_VARIANTS
from tests.simulation.history import History
from tests.simulation.scheduler import Scheduler
from tests.simulation.system import System

VARIANTS: Final[Mapping[str, System]] = {**BROKEN_VARIANTS, **BROKEN_PUBLISHERS}


@frozen
class Finding:
    """A history that must not be."""

    seed: int
    error: str


@frozen(kw_only=True)
class Outcome:
    """What came of some histories."""

    tally: Counter[str]
    findings: tuple[Finding, ...] = ()


def play(seed: int, *, steps: int, variant: str | None = None) -> tuple[Outcome, History]:
    """One history, to its end or to the first rule that it breaks."""
    scheduler = Scheduler(seed, VARIANTS[variant] if variant else None)
    findings: tuple[Finding, ...] = ()
    try:
        scheduler.run(steps)
    except Exception as error:
        findings = (Finding(seed, f"{type(error).__name__}: {error}"),)
    simulation = scheduler.simulation
    tally = Counter(
        histories=1,
        closings=sum(row.ended_at is not None for row in simulation.present.rows),
        events=len(simulation.present.outbox),
        deliveries=len(simulation.broker.arrived),
        violations=len(findings),
    )
    return Outcome(tally=tally + simulation.tally, findings=findings), simulation.history


def explore(seeds: Iterable[int], *, steps: int, variant: str | None = None) -> Outcome:
    """One history a seed."""
    tally = Counter[str]()
    findings: list[Finding] = []
    with _one_core():
        for seed in seeds:
            outcome, _ = play(seed, steps=steps, variant=variant)
            tally += outcome.tally
            findings += outcome.findings
    return Outcome(tally=tally, findings=tuple(findings))


def find_first(variant: str, *, seeds: Iterable[int], steps: int) -> Finding:
    """The first history in which a wrong system breaks a rule. Raises StopIteration if none does."""
    with _one_core():
        outcomes = (play(seed, steps=steps, variant=variant)[0] for seed in seeds)
        return next(finding for outcome in outcomes for finding in outcome.findings)


def explore_side_by_side(
    chunks: Iterator[range], *, steps: int, variant: str | None, processes: int
) -> Iterator[Outcome]:
    """The same by several processes at once; in the order in which they are done."""
    with ExitStack() as stack:
        # A pool for each process, so that each has a core of its own: it takes turns between its threads all the time.
        pools = [
            stack.enter_context(
                ProcessPoolExecutor(1, get_context("spawn"), initializer=_settle_in, initargs=(number,))
            )
            for number in range(processes)
        ]

        def submit(pool: ProcessPoolExecutor, chunk: range) -> Future[Outcome]:
            return pool.submit(explore, chunk, steps=steps, variant=variant)

        asks = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the processes have it then: the end is ours to ask for
        pending = {submit(pool, chunk): pool for pool, chunk in zip(pools, chunks, strict=False)}
        signal.signal(signal.SIGINT, asks)
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                pool = pending.pop(future)
                if (chunk := next(chunks, None)) is not None:
                    pending[submit(pool, chunk)] = pool
                yield future.result()


def _settle_in(number: int) -> None:
    """Each process has its core."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


@contextmanager
def _one_core() -> Iterator[None]:
    """Threads that take turns do so twice as fast on one core as over several."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)

"""Workers as processes, each of which may be lost and replaced."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from random import Random
from types import TracebackType
from typing import Final, Self

from tests.end_to_end.program import Program

SETTINGS: Final[Sequence[Mapping[str, str]]] = (
    {},
    {"connections": "3", "batch_size": "40"},
    {"sessions_per_transaction": "10", "prepared_statements": "off"},
)
"""Several ways of closing side by side."""


class Closers:
    """As many workers as there are addresses, with different settings."""

    def __init__(self, dsns: Sequence[str], common: Mapping[str, str]) -> None:
        self._settings = [
            {"database_url": dsn, **common, **settings} for dsn, settings in zip(dsns, SETTINGS, strict=True)
        ]
        self._programs: list[Program] = []
        self._replaced: list[Program] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._programs = [self._start(number) for number in range(len(self._settings))]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def any(self, chance: Random) -> Program:
        """One of them."""
        return chance.choice(self._programs)

    def kill(self, chance: Random) -> None:
        """`kill -9`; another one takes its place."""
        number = chance.randrange(len(self._programs))
        self._programs[number].kill()
        assert self._programs[number].ending().exit_code == -9, "it had ended by itself"
        self._replaced.append(self._programs[number])
        self._programs[number] = self._start(number)

    def fallen(self) -> list[str]:
        """Those that have ended by themselves, or said what no worker says."""
        ended = [f"worker {number}: ended" for number, one in enumerate(self._programs) if not one.is_running()]
        defects = [line["error"] for one in (*self._programs, *self._replaced) for line in one.log("job broke off")]
        self._replaced.clear()
        return ended + [f"a worker: {defect}" for defect in defects]

    def _start(self, number: int) -> Program:
        return self._stack.enter_context(Program("run", **self._settings[number]))

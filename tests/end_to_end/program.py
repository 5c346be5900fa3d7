"""The installed program as a process of its own: started, signalled by its handle, its log read as it is written."""

import json
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Final, Self

from attrs import frozen

PROGRAM: Final = Path(sysconfig.get_path("scripts")) / "activity-closer"
PATIENCE_SECONDS: Final = 60.0
"""How long to wait for what happens at once on a machine that is not overloaded."""

LogLine = Mapping[str, Any]


@frozen(kw_only=True)
class Ending:
    """How a process ended, and all that it said."""

    exit_code: int
    seconds: float
    """How long the wait for its end took."""
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]

    @property
    def result(self) -> LogLine:
        """The result of `run --once`: the last line of stdout."""
        result = json.loads(self.stdout[-1])
        assert isinstance(result, dict)
        return result

    @property
    def log(self) -> list[LogLine]:
        """The lines of the log."""
        return [line for line in map(_log_line, self.stderr) if line is not None]

    @property
    def said(self) -> list[str]:
        """What it told a person on stderr, beside its log."""
        return [line for line in self.stderr if _log_line(line) is None]

    @property
    def text(self) -> str:
        """All of its output."""
        return "\n".join((*self.stdout, *self.stderr))


class Program:
    """A running `activity-closer`; leaving the `with` block kills it, if it has not ended.

    `settings` are `ACTIVITY_CLOSER_…` variables, named without their prefix. No variable is inherited. `before` is a
    command that starts the program.
    """

    def __init__(
        self,
        *arguments: str,
        before: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self._process = subprocess.Popen(
            [*before, str(PROGRAM), *arguments],
            env={f"ACTIVITY_CLOSER_{name.upper()}": value for name, value in settings.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: list[str] = []
        self._changed = Condition()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """Of the command that was started."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; one that has ended gets none."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it without any notice."""
        self._process.kill()

    def log(self, event: str | None = None, **fields: object) -> list[LogLine]:
        """The log's lines up to now: all of them, or those of an event with these fields."""
        with self._changed:
            lines = [line for line in map(_log_line, self._lines) if line is not None]
        return [line for line in lines if event in {None, line["event"]} and fields.items() <= line.items()]

    def wait_for(self, event: str, *, count: int = 1, **fields: object) -> LogLine:
        """Waits for the log's n-th line of an event with these fields, and returns it."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.log(event, **fields)) >= count or not self._reader.is_alive(), PATIENCE_SECONDS
            )
            found = self.log(event, **fields)
            assert len(found) >= count, f"no {event} ({count}, {fields}) in:\n" + "\n".join(self._lines)
        return found[count - 1]

    def ending(self) -> Ending:
        """Waits for its end."""
        began = time.monotonic()
        self._process.wait(PATIENCE_SECONDS)
        seconds = time.monotonic() - began
        self._reader.join(PATIENCE_SECONDS)
        assert not self._reader.is_alive(), "something that it started still holds its stderr"
        assert self._process.stdout is not None
        return Ending(
            exit_code=self._process.returncode,
            seconds=seconds,
            stdout=tuple(self._process.stdout.read().splitlines()),
            stderr=tuple(self._lines),
        )

    def _read(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def run(*arguments: str, before: Sequence[str] = (), **settings: str) -> Ending:
    """Runs the program to its end."""
    with Program(*arguments, before=before, **settings) as program:
        return program.ending()


def run_once(database_url: str, *, before: Sequence[str] = (), **settings: str) -> Ending:
    """Does one run to its end."""
    return run("run", "--once", before=before, database_url=database_url, **settings)


def wait_until(condition: Callable[[], bool], *, within_seconds: float = PATIENCE_SECONDS) -> None:
    """Waits until the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)


def time_of(line: LogLine) -> datetime:
    """When a line of the log was written."""
    return datetime.fromisoformat(line["timestamp"])


def _log_line(text: str) -> LogLine | None:
    if not text.startswith("{"):
        return None
    line = json.loads(text)
    assert isinstance(line, dict), text
    return line

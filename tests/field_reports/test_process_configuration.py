"""BR-58: what is wrong with the configuration is said in one line, before anything is connected."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.program import Ending, run

SECRET = "geheim-7f3a"  # noqa: S105 (nobody's password)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port at which somebody would notice a connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)
        yield listening


def refused(listener: socket.socket, *arguments: str, **settings: str) -> Ending:
    """Run the worker with a wrong setting; what holds for each of them is judged here."""
    ended = run("run", *arguments, **settings)

    assert ended.exit_code == 78
    assert ended.seconds < 3
    assert ended.stdout == ()
    assert len(ended.stderr) == 1, "one line, and no log has begun"
    assert ended.stderr[0].startswith("Error: ")
    assert not [noise for noise in (SECRET, "Traceback", "Provide", "object at", "<") if noise in ended.text]
    with pytest.raises(BlockingIOError):
        listener.accept()
    return ended


def database_url(listener: socket.socket) -> str:
    """Return the address of the listener, with a password."""
    return f"postgresql://closer:{SECRET}@127.0.0.1:{listener.getsockname()[1]}/activity"


@pytest.mark.parametrize("arguments", [(), ("--once",)])
def test_no_database_address(listener: socket.socket, arguments: tuple[str, ...]) -> None:
    """BR-58 (a): the missing setting is named."""
    ended = refused(listener, *arguments)
    assert "ACTIVITY_CLOSER_DATABASE_URL" in ended.stderr[0]


@pytest.mark.parametrize("text", ["", "9", "9m", "16m", "12.5", "NaN"])
def test_a_threshold_that_is_not_allowed(listener: socket.socket, text: str) -> None:
    """BR-58 (b): the line names the setting and its range, 10 to 15 minutes."""
    ended = refused(listener, database_url=database_url(listener), inactivity_threshold=text)
    assert "ACTIVITY_CLOSER_INACTIVITY_THRESHOLD must be" in ended.stderr[0]
    assert "from 10m to 15m" in ended.stderr[0]


@pytest.mark.parametrize("text", ["0", "-1", "abc"])
def test_a_batch_size_that_is_not_allowed(listener: socket.socket, text: str) -> None:
    """BR-58 (c): the line names the setting, its range and what was given."""
    ended = refused(listener, database_url=database_url(listener), batch_size=text)
    assert "ACTIVITY_CLOSER_BATCH_SIZE must be a whole number above 0" in ended.stderr[0]
    assert ended.stderr[0].endswith(f"not {text!r}")


def test_an_interval_of_nothing(listener: socket.socket) -> None:
    """BR-58 (d): an interval of zero would be a busy loop."""
    ended = refused(listener, database_url=database_url(listener), polling_interval="0s")
    assert "ACTIVITY_CLOSER_POLLING_INTERVAL must be" in ended.stderr[0]


def test_an_unknown_setting(listener: socket.socket) -> None:
    """BR-58 (e): a misspelt variable is not passed over, and the right one is suggested."""
    ended = refused(listener, database_url=database_url(listener), batch_sice="100")
    assert "ACTIVITY_CLOSER_BATCH_SICE" in ended.stderr[0]
    assert "ACTIVITY_CLOSER_BATCH_SIZE" in ended.stderr[0]


def test_a_database_address_in_a_file_that_is_not_there(listener: socket.socket) -> None:
    """The variable and the path are named, with the system's reason."""
    ended = refused(listener, database_url_file="/nowhere/database-url")
    assert "ACTIVITY_CLOSER_DATABASE_URL_FILE" in ended.stderr[0]
    assert "'/nowhere/database-url': No such file or directory" in ended.stderr[0]


def test_a_database_address_that_libpq_cannot_read(listener: socket.socket) -> None:
    """The address is not quoted, since it may hold a password."""
    ended = refused(listener, database_url=f"mysql://closer:{SECRET}@127.0.0.1/activity")
    assert "ACTIVITY_CLOSER_DATABASE_URL must be a libpq URL or DSN" in ended.stderr[0]


def test_a_store_that_is_not_there(listener: socket.socket) -> None:
    """The store is named, and how one is written."""
    ended = refused(listener, store="nowhere.to_be_found:factory")
    assert "'nowhere.to_be_found:factory'" in ended.stderr[0]


def test_the_settings_in_force_are_shown_without_passwords(listener: socket.socket, tmp_path: Path) -> None:
    """`config show` reads the same settings as `run` does, connects to nothing, and masks the password."""
    file = tmp_path / "database-url"
    file.write_text(database_url(listener) + "\n")
    shown = run("config", "show", database_url_file=str(file), inactivity_threshold="15m")
    assert (shown.exit_code, shown.stderr) == (0, ())
    assert "password=***" in shown.text
    assert SECRET not in shown.text
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_blanks_around_a_value_are_fine(database: str) -> None:
    """BR-58: `12m` and '500 ' are what they look like."""
    ended = run("run", "--once", database_url=database, inactivity_threshold="12m", batch_size="500 ")
    assert (ended.exit_code, ended.said) == (0, [])

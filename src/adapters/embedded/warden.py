"""The process between the owner and the server: it sees to it that the server ends when the owner does.

Run by its path, in an isolated interpreter that loads nothing but the standard library:
`warden.py ACCOUNT SOCKET_DIRECTORY READINESS ABORT_SIGNAL COMMAND…`. ACCOUNT is empty for the owner's own,
SOCKET_DIRECTORY where there is none. READINESS is what tells that the server accepts connections: `pid-file:` and the
path of PostgreSQL's, or `kafka:` and a port of 127.0.0.1. ABORT_SIGNAL is the number of the one that ends it at once.

Its standard input is a pipe from the owner. One byte is the number of a signal for the server; the end of the pipe
means that the owner is gone, even by SIGKILL, and whichever of its threads started the server. Its standard output says
`ready` once. The server and all its processes hold that pipe open too: its end tells the owner that really everything
is gone.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TypedDict

READY = b"ready\n"
PATIENCE_SECONDS = 10.0
_POLL_INTERVAL_SECONDS = 0.005
_ANSWER_TIMEOUT_SECONDS = 1.0
# ApiVersions, the first question of every Kafka client: length, API key 18, version 0, correlation id, no client id.
_KAFKA_QUESTION = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_PR_SET_PDEATHSIG = 1


class Credentials(TypedDict, total=False):
    """Arguments of subprocess that start a program under another account."""

    user: int
    group: int
    extra_groups: list[int]


def credentials(account: str | None) -> Credentials:
    """Return what starts a program as `account`, without any of root's groups; nothing for the own account."""
    if not account:
        return {}
    entry = pwd.getpwnam(account)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _end_with_warden(abort_signal: int) -> Callable[[], None] | None:
    """Return what the server does before its program starts: on Linux, ask to be ended when the warden is.

    This holds when the warden itself is ended by SIGKILL. It runs under the server's account already: a change of
    account would cancel the request.
    """
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 (Linux only)

    prctl = ctypes.CDLL(None).prctl
    warden = os.getpid()

    def request() -> None:
        prctl(_PR_SET_PDEATHSIG, abort_signal)
        if os.getppid() != warden:
            os._exit(1)

    return request


def _obey(server: subprocess.Popen[bytes], abort_signal: int) -> None:
    """Pass the owner's orders on; when the owner is gone, stop the server in order, then with ever more force."""
    while order := os.read(sys.stdin.fileno(), 1):
        server.send_signal(order[0])
    for force in (signal.SIGINT, abort_signal, signal.SIGKILL):
        server.send_signal(force)
        time.sleep(PATIENCE_SECONDS)


def _accepts_connections(readiness: str, server_pid: int) -> bool:
    kind, _, place = readiness.partition(":")
    return _answers_kafka(int(place)) if kind == "kafka" else _says_ready(Path(place), server_pid)


def _says_ready(pid_file: Path, server_pid: int) -> bool:
    """Tell whether PostgreSQL says so in the eighth line of its pid file, which may be an older server's file."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(server_pid) and lines[7].strip() == "ready"


def _answers_kafka(port: int) -> bool:
    """Tell whether a Kafka client gets an answer there: a port can be open before the broker behind it is awake."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_TIMEOUT_SECONDS) as client:
            client.sendall(_KAFKA_QUESTION)
            return client.recv(1) != b""
    except OSError:
        return False


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Take a signal and do nothing: unlike SIG_IGN, this is not inherited by the server."""


def main(account: str, socket_directory: str, readiness: str, abort_signal: str, *command: str) -> int:
    """Run the server until it ends; return its exit code."""
    # Whoever stops the owner politely (a shutdown, a service) may signal the warden with it. The owner still needs the
    # server to end its work, and its own end is all that counts here.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    report = sys.stdout.fileno()
    held_by_the_server = os.dup(report)
    server = subprocess.Popen(  # noqa: S603 (the owner's own command)
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        pass_fds=(held_by_the_server,),
        preexec_fn=_end_with_warden(int(abort_signal)),  # noqa: PLW1509 (there is no second thread yet)
        **credentials(account),
    )
    os.close(held_by_the_server)
    threading.Thread(target=_obey, args=(server, int(abort_signal)), daemon=True).start()
    while server.poll() is None and not _accepts_connections(readiness, server.pid):
        time.sleep(_POLL_INTERVAL_SECONDS)
    if server.returncode is None:
        with suppress(BrokenPipeError):
            os.write(report, READY)
    exit_code = server.wait()
    if socket_directory:
        shutil.rmtree(socket_directory, ignore_errors=True)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

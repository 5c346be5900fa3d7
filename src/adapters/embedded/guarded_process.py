"""The server's process and its warden, from the owner's end of their pipes."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from adapters.embedded import warden
from adapters.embedded.account import ServerAccount

_LIBRARY_PATHS = frozenset({"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
_START_TIMEOUT_SECONDS = 60.0  # pg_ctl waits as long: recovery after a crash takes its time
_STOP_TIMEOUT_SECONDS = 30.0


def server_environment() -> dict[str, str]:
    """Return what servers and their wardens see of the owner's environment: not its secrets, locale and PG… variables.

    Interpreters and servers that were built from source may need the search path for their libraries.
    """
    kept = {name: value for name, value in os.environ.items() if name in _LIBRARY_PATHS}
    # NO_COLOR: what a server says ends up in an error's text.
    return {"LC_ALL": "C", "NO_COLOR": "1", "PATH": os.defpath, **kept}


class GuardedProcess:
    """A server that was started under a warden, in a session of its own: Ctrl-C in a terminal does not reach them.

    `readiness` is the warden's word for what tells that the server accepts connections, `abort_signal` the one on which
    it ends at once; the warden removes the socket directory at the end. `log` gets what the server says.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        account: ServerAccount,
        readiness: str,
        abort_signal: signal.Signals,
        log: IO[bytes],
        socket_directory: Path | None = None,
    ) -> None:
        self._abort_signal = abort_signal
        # By its path and isolated: nothing but the standard library is loaded, and no import path matters.
        interpreter = (sys.executable, "-I", "-S", warden.__file__)
        self._warden = subprocess.Popen(  # noqa: S603 (no part of the command comes from outside)
            [*interpreter, account.name or "", socket_directory or "", readiness, str(int(abort_signal)), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=server_environment(),
            cwd="/",
            start_new_session=True,
        )
        self._orders = cast("IO[bytes]", self._warden.stdin)
        self._reports = cast("IO[bytes]", self._warden.stdout)

    def wait_until_ready(self) -> str | None:
        """Return None as soon as the server accepts connections, or else in words what it did instead."""
        report = self._next_report(_START_TIMEOUT_SECONDS)
        if report == warden.READY:
            return None
        return f"was not ready within {_START_TIMEOUT_SECONDS:.0f} s" if report is None else "did not start"

    def abort(self) -> None:
        """End the server at once, as a crash would, and return when its last process has ended."""
        self.stop(self._abort_signal)

    def stop(self, order: signal.Signals) -> None:
        """Send the server a signal and return when its last process has ended; with more force if that takes long."""
        with suppress(BrokenPipeError):
            os.write(self._orders.fileno(), bytes([order]))
        if not self._all_ended_within(_STOP_TIMEOUT_SECONDS):
            self._orders.close()
            self._all_ended_within(3 * warden.PATIENCE_SECONDS)
        with self._warden:
            """Leaving the block closes the pipes and collects the process."""

    def _next_report(self, timeout_seconds: float) -> bytes | None:
        """Return what is said next: nothing (empty) when all processes are gone, None when the time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reports, selectors.EVENT_READ)
            if not selector.select(timeout_seconds):
                return None
        return os.read(self._reports.fileno(), len(warden.READY))

    def _all_ended_within(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        # A start that was broken off has left its READY unread.
        while report := self._next_report(max(0.0, deadline - time.monotonic())):
            pass
        return report is not None

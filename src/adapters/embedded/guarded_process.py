"""The server's process and its warden, from the owner's end of their pipes."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Literal, cast

from adapters.embedded import warden
from adapters.embedded.account import ServerAccount

StopMode = Literal["smart", "fast", "immediate"]

_ORDERS: Final[Mapping[StopMode, bytes]] = {"smart": b"s", "fast": b"f", "immediate": b"i"}
_START_TIMEOUT_SECONDS = 60.0  # pg_ctl waits as long: recovery after a crash takes its time
_STOP_TIMEOUT_SECONDS = 30.0


class GuardedProcess:
    """A server that was started under a warden, in a session of its own: Ctrl-C in a terminal does not reach them."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        account: ServerAccount,
        cluster: Path,
        socket_directory: Path,
        environment: Mapping[str, str],
        log: IO[bytes],
    ) -> None:
        # By its path and isolated: nothing but the standard library is loaded, and no import path matters.
        interpreter = (sys.executable, "-I", "-S", warden.__file__)
        self._warden = subprocess.Popen(  # noqa: S603 (no part of the command comes from outside)
            [*interpreter, account.name or "", socket_directory, cluster, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
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

    def stop(self, mode: StopMode) -> None:
        """Stop the server and return when its last process has ended; with more force when that takes too long."""
        with suppress(BrokenPipeError):
            os.write(self._orders.fileno(), _ORDERS[mode])
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

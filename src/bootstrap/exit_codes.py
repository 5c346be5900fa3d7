"""How the process ends: the exit codes, and the error that carries one (specification §10)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller when it ends (specification §10)."""

    SUCCESS = 0
    """Done, deferred rows included; or stopped in order by SIGTERM, SIGINT or the run limit."""

    UNEXPECTED_FAILURE = 1
    """A defect, or something that nobody foresaw."""

    WRONG_USAGE = 2
    """The command line cannot be understood: an unknown command or option, a missing argument."""

    FINDINGS = 3
    """Finished, with findings: failed items in `--once`, audit violations, dead events."""

    UNAVAILABLE = 69
    """Database or broker unavailable, any failure to connect, a missing table."""

    TRY_AGAIN_LATER = 75
    """The single-instance lock is held elsewhere (`--once`)."""

    MISSING_RIGHT = 77
    """A right is missing on a live connection."""

    WRONG_CONFIGURATION = 78
    """A setting is wrong, unknown, missing or unreadable."""


class ExpectedError(Exception):
    """An operating error that ends the process with clear lines on stderr instead of a traceback.

    Each line says what is wrong, where, and what is allowed or to be done. Lines carry neither personal data nor
    secrets. The command line's frame prints them and exits with `exit_code`.
    """

    def __init__(self, *lines: str, exit_code: ExitCode) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
        self.exit_code = exit_code

"""What a migration can fail with. Each error's text is ready to be shown: no DETAIL, no statement, no password."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

# D-06: the database as a whole is out of reach, whatever the statement was.
_UNAVAILABLE_CLASSES = ("08", "53", "58")
_UNAVAILABLE_STATES = ("57P01", "57P02", "57P03", "25006")


class MigrationError(Exception):
    """The migration did not finish; what was done so far stays, and the next run goes on from there."""


class MigrationRefused(MigrationError):
    """The database is not one that this program can migrate; nothing was changed.

    `findings` has one line each: what is wrong and what is allowed.
    """

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__("\n".join(findings))
        self.findings = tuple(findings)


class DatabaseUnavailable(MigrationError):
    """No connection, a lost one, or a database that takes no writes at present."""


class RightMissing(MigrationError):
    """The login lacks a right that the migration needs (SQLSTATE 42501)."""


class LockTimeout(MigrationError):
    """Others hold a table too long for a short lock (SQLSTATE 55P03): try again later."""


class MigrationFailed(MigrationError):
    """PostgreSQL refused a statement for another reason; `sqlstate` names it."""

    def __init__(self, message: str, sqlstate: str | None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


@contextmanager
def translated_errors(doing: str) -> Iterator[None]:
    """Turn driver errors, wrapped by SQLAlchemy or not, into this module's; `doing` opens the message."""
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # Not chained: the driver's text carries DETAIL, which prints rows.
        raise _translation(cause, doing) from None


def _translation(error: BaseException | None, doing: str) -> MigrationError:
    diagnostic = error.diag if isinstance(error, psycopg.Error) else None
    sqlstate = diagnostic.sqlstate if diagnostic else None
    message = f"{doing}: {(diagnostic and diagnostic.message_primary) or ' '.join(str(error).split())}"
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return RightMissing(message)
        case psycopg.errors.LockNotAvailable():
            return LockTimeout(f"{message}; others hold it for long: try again later")
        case psycopg.OperationalError() if sqlstate is None:
            return DatabaseUnavailable(message)
    if sqlstate and (sqlstate.startswith(_UNAVAILABLE_CLASSES) or sqlstate in _UNAVAILABLE_STATES):
        return DatabaseUnavailable(message)
    return MigrationFailed(message, sqlstate)

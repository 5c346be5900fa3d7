"""The driver's errors in the application's terms (D-06), without anything personal in them.

What SQLite says of a constraint, or of the file, names tables, columns and constraints, never a value. But a trigger
may say anything, and the driver quotes a text that it cannot decode: of those only the name of the error is taken over,
and no exception of the driver is chained, because tracebacks print it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from application.ports.store_errors import (
    AccessDenied,
    ActiveSessionExists,
    LockTimeout,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)

_LOCKED: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FORBIDDEN: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
_FILE_TROUBLE: Final = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PROTOCOL,
}
_SPOKEN_BY_OTHERS: Final = {
    sqlite3.SQLITE_CONSTRAINT_FUNCTION,
    sqlite3.SQLITE_CONSTRAINT_TRIGGER,
    sqlite3.SQLITE_CONSTRAINT_VTAB,
}
_PRIMARY_CODE: Final = 0xFF
"""An extended code is its primary code and a detail in the bits above."""


@contextmanager
def translated() -> Iterator[None]:
    """The one way by which errors of the driver come out: as a StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error) from None


def _translate(error: sqlite3.Error) -> StoreError:
    # The driver's own errors, of a text that it cannot decode say, have neither code nor name.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind: str = getattr(error, "sqlite_errorname", "driver")
    primary, text = code & _PRIMARY_CODE, str(error)
    if primary in _LOCKED:
        return LockTimeout(kind=kind, reason="somebody else held the file for too long")
    if primary in _FORBIDDEN:
        return AccessDenied(kind=kind, reason=text)
    if primary in _FILE_TROUBLE:
        return StoreUnavailable(kind=kind, reason=text)
    if text.startswith(("no such table", "no such column")):
        return SchemaMissing(kind=kind, reason=text)
    if primary != sqlite3.SQLITE_CONSTRAINT or code in _SPOKEN_BY_OTHERS:
        return TransactionRefused(kind=kind, reason="the statement failed")
    if text == "UNIQUE constraint failed: sessions.anonymous_id":
        return ActiveSessionExists(kind=kind, reason=text)
    return TransactionRefused(kind=kind, reason=text)

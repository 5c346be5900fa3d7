"""Driver errors in the application's terms (D-06), without anything personal in them.

A server's error holds rows in its DETAIL, values in some messages, and whatever a trigger says. So only the SQLSTATE,
the names of constraint, table and column, and messages known to hold names alone are taken over; the driver's
exception is not chained, because tracebacks print it.
"""

import re
from typing import Final

import psycopg
from psycopg import errors as sqlstates

from application.ports.store_errors import (
    AccessDenied,
    ActiveSessionExists,
    LockTimeout,
    OutdatedPlan,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)

_CONNECTION_STATES: Final = ("08", "57P01", "57P02", "57P03")
_RESOURCE_CLASSES: Final = ("53", "58")
_SCHEMA_STATES: Final = ("42P01", "42703", "3F000")
_CLASSES_WITH_HARMLESS_MESSAGES: Final = ("08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58")
_REASON_LENGTH_MAX: Final = 200
_FUNCTION: Final = re.compile(r'^[\w/]+ function "?([^\s("]+)', re.MULTILINE)
"""Who raised it, as the context says at the beginning of a line; what else stands there may quote values."""


def translate(error: psycopg.Error, *, is_connection_usable: bool) -> StoreError:
    """The error as the application knows it."""
    state = error.sqlstate or ""
    if not state and not is_connection_usable:
        return StoreUnavailable(kind="connection", reason="the connection was lost")
    reason = _reason(error)
    if not is_connection_usable:
        return StoreUnavailable(kind="connection", reason=reason)
    if _is_raised_inside_a_function(error):
        # A trigger may raise whatever it likes for one row: it says nothing of the store.
        return TransactionRefused(kind=state, reason=reason)
    return _raised_by_the_server(error, state, reason)


def _raised_by_the_server(error: psycopg.Error, state: str, reason: str) -> StoreError:
    if state.startswith(_CONNECTION_STATES):
        return StoreUnavailable(kind="connection", reason=reason)
    if state == "25006":
        return StoreUnavailable(kind="read_only", reason=reason)
    if state.startswith(_RESOURCE_CLASSES):
        return StoreUnavailable(kind=state, reason=reason)
    if state == "42501":
        return AccessDenied(kind=state, reason=reason)
    if state in _SCHEMA_STATES:
        return SchemaMissing(kind=state, reason=reason)
    if state == "55P03":
        return LockTimeout(kind=state, reason=reason)
    if state == "0A000":
        return OutdatedPlan(kind=state, reason=reason)
    if state == "22012":
        # The only divisions here are those by which the writing statements compare their row count.
        return TransactionRefused(kind="not_changed", reason="a trigger kept a row from being written as asked")
    if state == "23505" and error.diag.constraint_name == "ux_sessions_active_anonymous_id":
        return ActiveSessionExists(kind=state, reason=reason)
    return TransactionRefused(kind=state or "driver", reason=reason)


def connection_failure(error: psycopg.Error) -> StoreUnavailable:
    """A connection that could not be made, in the server's or the resolver's own words; they hold no rows."""
    return StoreUnavailable(kind="connection", reason=" ".join(str(error).split()))


def _reason(error: psycopg.Error) -> str:
    diag = error.diag
    if not error.sqlstate:
        return type(error).__name__
    try:
        condition = sqlstates.lookup(error.sqlstate).__name__
    except KeyError:
        condition = error.sqlstate
    parts = []
    if not _is_raised_inside_a_function(error):
        places = (("constraint", diag.constraint_name), ("table", diag.table_name), ("column", diag.column_name))
        parts = [f"{what} {name}" for what, name in places if name]
        if error.sqlstate.startswith(_CLASSES_WITH_HARMLESS_MESSAGES):
            parts.append(diag.message_primary or "")
    else:
        parts = [f"function {name}" for name in _FUNCTION.findall(diag.context or "")[:1]]
    text = f"{condition}: {', '.join(parts)}" if parts else condition
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable[:_REASON_LENGTH_MAX]


def _is_raised_inside_a_function(error: psycopg.Error) -> bool:
    """Whether a trigger, say, raised it: then neither its SQLSTATE nor its names or message need be the server's."""
    return _FUNCTION.search(error.diag.context or "") is not None

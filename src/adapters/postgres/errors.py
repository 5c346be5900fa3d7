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
    OutdatedPlan,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)

_CONNECTION_CLASSES: Final = ("08", "57P01", "57P02", "57P03")
_RESOURCE_CLASSES: Final = ("53", "58")
_SCHEMA_STATES: Final = ("42P01", "42703", "3F000")
_CLASSES_WITH_HARMLESS_MESSAGES: Final = ("08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58")
_REASON_LENGTH_MAX: Final = 200
_FUNCTION: Final = re.compile(r"[\w/]+ function ([^\s(]+)\(")
"""Who raised it, at the head of the context; what follows there may quote values."""


def translate(error: psycopg.Error, *, is_connection_usable: bool) -> StoreError:
    """The error as the application knows it."""
    state = error.sqlstate or ""
    if not state and not is_connection_usable:
        return StoreUnavailable(kind="connection", reason="the connection was lost")
    if state == "22012" and not _is_raised_inside_a_function(error):
        # The only division here is the one by which the closing statements compare their row count.
        return TransactionRefused(kind="not_changed", reason="a trigger kept the row from being changed")
    reason = _reason(error)
    if not is_connection_usable or state.startswith(_CONNECTION_CLASSES):
        return StoreUnavailable(kind="connection", reason=reason)
    if state == "25006":
        return StoreUnavailable(kind="read_only", reason=reason)
    if state.startswith(_RESOURCE_CLASSES):
        return StoreUnavailable(kind=state, reason=reason)
    if state == "42501":
        return AccessDenied(kind=state, reason=reason)
    if state in _SCHEMA_STATES and not _is_raised_inside_a_function(error):
        return SchemaMissing(kind=state, reason=reason)
    if state == "0A000":
        return OutdatedPlan(kind=state, reason=reason)
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
    places = (("constraint", diag.constraint_name), ("table", diag.table_name), ("column", diag.column_name))
    parts = [*(f"{what} {name}" for what, name in places if name)]
    if function := _FUNCTION.match(diag.context or ""):
        parts.append(f"function {function[1]}")
    if error.sqlstate.startswith(_CLASSES_WITH_HARMLESS_MESSAGES) and not _is_raised_inside_a_function(error):
        parts.append(diag.message_primary or "")
    text = f"{condition}: {', '.join(parts)}" if parts else condition
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable[:_REASON_LENGTH_MAX]


def _is_raised_inside_a_function(error: psycopg.Error) -> bool:
    """Whether a trigger or another function raised it: then neither its SQLSTATE nor its message is the server's."""
    return error.diag.context is not None

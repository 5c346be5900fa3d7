"""What may go wrong where an actor stands, in place of its step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from application.ports.store_errors import (
    AccessDenied,
    ConnectingCancelled,
    LockTimeout,
    OutdatedPlan,
    StoreUnavailable,
    TransactionRefused,
)
from tests.simulation.turns import Abandoned, Place

Interruption = Callable[[], BaseException]


def a_lost_connection() -> BaseException:
    """The server, or the way to it, is gone; whether a commit went through stays unknown."""
    return StoreUnavailable(kind="connection", reason="the connection was lost")


def a_refusal() -> BaseException:
    """The statement took too long."""
    return TransactionRefused(kind="57014", reason="statement timeout")


def a_locked_table() -> BaseException:
    """Somebody has locked the whole table for too long."""
    return LockTimeout(kind="55P03", reason="lock timeout")


def an_outdated_plan() -> BaseException:
    """A table has changed since the statement was prepared."""
    return OutdatedPlan(kind="0A000", reason="cached plan must not change result type")


def a_missing_right() -> BaseException:
    """Somebody has revoked a right."""
    return AccessDenied(kind="42501", reason="permission denied")


def a_cancelled_connecting() -> BaseException:
    """The end was asked for while a connection was being made."""
    return ConnectingCancelled(kind="cancelled", reason="connecting was cancelled")


def a_crash() -> BaseException:
    """The process dies; its transaction is rolled back."""
    return Abandoned()


INTERRUPTIONS: Final[tuple[Interruption, ...]] = (a_lost_connection, a_refusal, a_crash)
"""What may go wrong anywhere."""

_OF_STATEMENTS: Final = (
    *INTERRUPTIONS,
    a_locked_table,
    an_outdated_plan,
    a_missing_right,
)
INTERRUPTIONS_AT: Final[Mapping[Place, Sequence[Interruption]]] = {
    Place.BEGINNING: (a_crash,),
    Place.CLOCK: (*INTERRUPTIONS, a_missing_right),
    Place.STATEMENT: _OF_STATEMENTS,
    Place.LOCK: INTERRUPTIONS,
    Place.COMMIT: INTERRUPTIONS,
    Place.ANSWER: (a_lost_connection, a_crash),
    Place.BROKER: (a_lost_connection, a_crash),
}
"""A commit that went through cannot be refused any more, only its answer can be lost."""

REFUSED_KINDS: Final = frozenset({"connection", "57014", "55P03", "0A000", "42501", "P0001"})
"""Of the errors above, and of a trigger that refuses a row."""

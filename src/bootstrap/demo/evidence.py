"""What stands in the database, read past the store: the demo believes nobody's word for what was closed."""

from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import LiteralString, Self
from uuid import UUID

import psycopg
from attrs import frozen
from psycopg.rows import class_row, dict_row


@frozen(kw_only=True)
class Counts:
    """How many rows there are."""

    active_sessions: int
    inactive_sessions: int
    active_views: int
    inactive_views: int
    events: int


@frozen(kw_only=True)
class Closing:
    """A closed row and its event. Nothing about the visitor is read (specification §8)."""

    kind: str
    """`session` or `view`."""
    id: UUID
    ended_at: datetime
    duration: timedelta
    lag: timedelta
    """How long the row had been silent."""
    event_type: str


class Evidence:
    """A connection of its own, which only reads."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(
            dsn,
            autocommit=True,
            application_name="activity-closer demo",
            options="-c default_transaction_read_only=on",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def counts(self) -> Counts:
        """How many rows there are now."""
        with self._connection.cursor(row_factory=class_row(Counts)) as cursor:
            [counts] = cursor.execute(_statement("count_rows"))
        return counts

    def latest_closings(self, limit: int) -> list[Closing]:
        """The rows closed last, the last one first."""
        with self._connection.cursor(row_factory=class_row(Closing)) as cursor:
            return cursor.execute(_statement("latest_closings"), {"limit": limit}).fetchall()

    def broken_promises(self) -> dict[str, int]:
        """What may never be found in the database, and how often it was found."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            [found] = cursor.execute(_statement("broken_promises"))
        return found


@cache
def _statement(name: str) -> LiteralString:
    return (files("bootstrap.demo") / "sql" / f"{name}.sql").read_text(encoding="utf-8")

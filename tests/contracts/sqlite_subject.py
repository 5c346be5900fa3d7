"""The SQLite store as a subject of the contract suites: a look at its file by plain SQL."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import fields

from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from sqlite_store import SqliteActivityStore, SqliteOutboxStore

REFUSE = """
create table refused (id blob);
create trigger refuse_session before update on sessions
when new.status = 'Inactive' and new.id in (select id from refused)
begin select raise(abort, 'a trigger refuses this row'); end;
create trigger refuse_view before update on property_object_views
when new.status = 'Inactive' and new.id in (select id from refused)
begin select raise(abort, 'a trigger refuses this row'); end;
"""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SqliteSubject:
    """A store in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteActivityStore(path)
        self.outbox = SqliteOutboxStore(path)
        with self.store.begin() as unit_of_work:  # the first one makes the tables
            unit_of_work.commit()
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript(REFUSE)

    def close(self) -> None:
        """Lets go of the file."""
        self.store.close()
        self.outbox.close()
        self.connection.close()

    def session(self, session_id: UUID) -> Session | None:
        row = self.connection.execute("select * from sessions where id = ?", [session_id.bytes]).fetchone()
        return None if row is None else Session(**values_of(row))

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        row = self.connection.execute("select * from property_object_views where id = ?", [view_id.bytes]).fetchone()
        return None if row is None else PropertyObjectView(**values_of(row))

    def messages(self) -> Sequence[OutboxMessage]:
        kept = {field.name for field in fields(OutboxMessage)}
        rows = self.connection.execute("select * from outbox order by id")
        return [
            OutboxMessage(**{name: value for name, value in values_of(row).items() if name in kept}) for row in rows
        ]

    def refuse(self, row_ids: Sequence[UUID]) -> None:
        self.connection.execute("delete from refused")
        self.connection.executemany("insert into refused values (?)", [(row_id.bytes,) for row_id in row_ids])

    def waiting(self) -> int:
        return 0


def values_of(row: sqlite3.Row) -> dict[str, Any]:
    """A row's values, by what their columns are called."""
    return {name: value_of(name, row[name]) for name in row.keys()}  # noqa: SIM118 (iterating a row gives its values)


def value_of(name: str, value: Any) -> Any:
    """A value as the domain knows it."""
    if value is None:
        return None
    if name == "status":
        return ActivityStatus(value)
    if name == "duration":
        return timedelta(microseconds=value)
    if name.endswith("_at"):
        return EPOCH + timedelta(microseconds=value)
    return UUID(bytes=value) if isinstance(value, bytes) else value

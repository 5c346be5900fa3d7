"""Domain objects and events as rows of the tables, and back."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from sqlite_store.transaction import Values

Given = TypeVar("Given")
Made = TypeVar("Made")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def since_epoch(moment: datetime) -> int:
    """A time as it is stored: whole microseconds, so that nothing is rounded."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(microseconds: int) -> datetime:
    """A time as it is in the domain: aware, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def session_values(session: Session) -> Values:
    """The row of a session."""
    return {**_activity_values(session), "user_id": _if_there(_bytes_of, session.user_id)}


def session_of(row: sqlite3.Row) -> Session:
    """The session of a row."""
    return Session(
        id=UUID(bytes=row["id"]),
        anonymous_id=UUID(bytes=row["anonymous_id"]),
        user_id=user_id_of(row),
        status=ActivityStatus(row["status"]),
        created_at=moment_of(row["created_at"]),
        last_activity_at=moment_of(row["last_activity_at"]),
        ended_at=_if_there(moment_of, row["ended_at"]),
        duration=_if_there(_duration_of, row["duration"]),
    )


def user_id_of(row: sqlite3.Row) -> UUID | None:
    """The user of a session's row, or of one that was joined with it."""
    return _if_there(_id_of, row["user_id"])


def view_values(view: PropertyObjectView) -> Values:
    """The row of a view."""
    return {
        **_activity_values(view),
        "property_object_id": view.property_object_id.bytes,
        "session_id": view.session_id.bytes,
        "view_source": view.view_source,
        "filter_snapshot": view.filter_snapshot,
    }


def view_of(row: sqlite3.Row) -> PropertyObjectView:
    """The view of a row."""
    return PropertyObjectView(
        id=UUID(bytes=row["id"]),
        property_object_id=UUID(bytes=row["property_object_id"]),
        session_id=UUID(bytes=row["session_id"]),
        anonymous_id=UUID(bytes=row["anonymous_id"]),
        view_source=row["view_source"],
        filter_snapshot=row["filter_snapshot"],
        status=ActivityStatus(row["status"]),
        created_at=moment_of(row["created_at"]),
        last_activity_at=moment_of(row["last_activity_at"]),
        ended_at=_if_there(moment_of, row["ended_at"]),
        duration=_if_there(_duration_of, row["duration"]),
    )


def message_values(message: OutboxMessage) -> Values:
    """The row of an event that has just occurred."""
    return {
        "id": message.id.bytes,
        "aggregate_type": message.aggregate_type,
        "aggregate_id": message.aggregate_id.bytes,
        "event_type": message.event_type,
        "contract_version": message.contract_version,
        "topic": message.topic,
        "payload": message.payload,
        "correlation_id": message.correlation_id.bytes,
        "trace_parent": message.trace_parent,
        "occurred_at": since_epoch(message.occurred_at),
    }


def message_of(row: sqlite3.Row) -> OutboxMessage:
    """The event of a row."""
    return OutboxMessage(
        id=UUID(bytes=row["id"]),
        aggregate_type=row["aggregate_type"],
        aggregate_id=UUID(bytes=row["aggregate_id"]),
        event_type=row["event_type"],
        contract_version=row["contract_version"],
        topic=row["topic"],
        payload=row["payload"],
        correlation_id=UUID(bytes=row["correlation_id"]),
        trace_parent=row["trace_parent"],
        occurred_at=moment_of(row["occurred_at"]),
    )


def _activity_values(row: Session | PropertyObjectView) -> Values:
    return {
        "id": row.id.bytes,
        "anonymous_id": row.anonymous_id.bytes,
        "status": row.status.value,
        "created_at": since_epoch(row.created_at),
        "last_activity_at": since_epoch(row.last_activity_at),
        "ended_at": _if_there(since_epoch, row.ended_at),
        "duration": _if_there(_microseconds_of, row.duration),
    }


def _id_of(value: bytes) -> UUID:
    return UUID(bytes=value)


def _bytes_of(row_id: UUID) -> bytes:
    return row_id.bytes


def _duration_of(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def _microseconds_of(duration: timedelta) -> int:
    return duration // _MICROSECOND


def _if_there(convert: Callable[[Given], Made], value: Given | None) -> Made | None:
    return None if value is None else convert(value)

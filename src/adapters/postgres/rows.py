"""Rows as domain objects: the statements that read them select the same columns first, in the same order."""

from datetime import datetime, timedelta

from adapters.postgres.transaction import Values
from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


def session_of(
    row: Values,
    *,
    status: ActivityStatus = ActivityStatus.ACTIVE,
    ended_at: datetime | None = None,
    duration: timedelta | None = None,
) -> Session:
    """A session from its first five columns; what is claimed is Active, so its other columns are not selected."""
    return Session(
        id=row[0],
        anonymous_id=row[1],
        user_id=row[2],
        status=status,
        created_at=row[3],
        last_activity_at=row[4],
        ended_at=ended_at,
        duration=duration,
    )


def view_of(
    row: Values,
    *,
    status: ActivityStatus = ActivityStatus.ACTIVE,
    ended_at: datetime | None = None,
    duration: timedelta | None = None,
) -> PropertyObjectView:
    """A view from its first eight columns; what is claimed is Active, so its other columns are not selected."""
    return PropertyObjectView(
        id=row[0],
        property_object_id=row[1],
        session_id=row[2],
        anonymous_id=row[3],
        view_source=row[4],
        filter_snapshot=row[5],
        status=status,
        created_at=row[6],
        last_activity_at=row[7],
        ended_at=ended_at,
        duration=duration,
    )


def is_whole_session(row: Values) -> bool:
    """Whether every value is there that a session must have; what the driver could not load is not."""
    return not (row[1] is None or row[3] is None or row[4] is None)


def is_whole_view(row: Values) -> bool:
    """As with a session; a view may lack its filter."""
    return not (
        row[1] is None or row[2] is None or row[3] is None or row[4] is None or row[6] is None or row[7] is None
    )


def message_of(row: Values) -> OutboxMessage:
    """An event from its first ten columns."""
    return OutboxMessage(
        id=row[0],
        aggregate_type=row[1],
        aggregate_id=row[2],
        event_type=row[3],
        contract_version=row[4],
        topic=row[5],
        payload=row[6],
        correlation_id=row[7],
        trace_parent=row[8],
        occurred_at=row[9],
    )


def is_whole_message(row: Values) -> bool:
    """As with a session; an event may lack its trace context."""
    return not (
        row[1] is None
        or row[2] is None
        or row[3] is None
        or row[4] is None
        or row[5] is None
        or row[6] is None
        or row[7] is None
        or row[9] is None
    )

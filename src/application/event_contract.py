"""The events as other systems read them: contract version 1 (specification §7, D-10, D-11)."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson
from attrs import frozen

from application.ports.outbox import OutboxMessage
from domain.closing import Ended, PropertyObjectViewEnded, SessionEnded

CONTRACT_VERSION: Final = 1

_SECOND = timedelta(seconds=1)


@frozen
class EventContract:
    """The names by which other systems know an event; they are fixed."""

    aggregate_type: str
    event_type: str
    topic: str


SESSION_ENDED: Final = EventContract("Session", "SessionEndedKafkaEvent", "pin.user-activity.session-ended.v1")
PROPERTY_OBJECT_VIEW_ENDED: Final = EventContract(
    "PropertyObjectView",
    "PropertyObjectViewEndedKafkaEvent",
    "pin.user-activity.property-object-view-ended.v1",
)


def message_of(ended: Ended, *, message_id: UUID, correlation_id: UUID, trace_parent: str | None) -> OutboxMessage:
    """The event as it goes into the outbox, serialised once and for all."""
    if isinstance(ended, SessionEnded):
        contract, aggregate_id, payload = SESSION_ENDED, ended.session.id, _session_ended(ended)
    else:
        contract, aggregate_id = PROPERTY_OBJECT_VIEW_ENDED, ended.view.id
        payload = _property_object_view_ended(ended)
    return OutboxMessage(
        id=message_id,
        aggregate_type=contract.aggregate_type,
        aggregate_id=aggregate_id,
        event_type=contract.event_type,
        contract_version=CONTRACT_VERSION,
        topic=contract.topic,
        payload=payload,
        correlation_id=correlation_id,
        trace_parent=trace_parent,
        occurred_at=ended.ended_at,
    )


def key_of(message: OutboxMessage) -> bytes:
    """What decides over the partition: all events of an aggregate share one (D-11)."""
    return str(message.aggregate_id).encode()


def headers_of(message: OutboxMessage) -> list[tuple[str, bytes]]:
    """What a consumer may know without reading the payload (D-11)."""
    headers = [
        ("event-id", str(message.id).encode()),
        ("event-type", message.event_type.encode()),
        ("contract-version", str(message.contract_version).encode()),
        ("correlation-id", str(message.correlation_id).encode()),
        ("occurred-at", _timestamp(message.occurred_at).encode()),
        ("content-type", b"application/json"),
    ]
    if message.trace_parent is not None:
        headers.append(("traceparent", message.trace_parent.encode()))
    return headers


def _session_ended(ended: SessionEnded) -> str:
    session = ended.session
    return _json(
        {
            "sessionId": session.id,
            "anonymousId": session.anonymous_id,
            "userId": session.user_id,
            "createdAt": _timestamp(session.created_at),
            "lastActivityAt": _timestamp(session.last_activity_at),
            "durationSeconds": _whole_seconds(session.duration),
        }
    )


def _property_object_view_ended(ended: PropertyObjectViewEnded) -> str:
    view = ended.view
    return _json(
        {
            "propertyObjectViewId": view.id,
            "propertyObjectId": view.property_object_id,
            "sessionId": view.session_id,
            "anonymousId": view.anonymous_id,
            "userId": ended.user_id,
            "viewSource": view.view_source,
            "viewedAt": _timestamp(view.created_at),
            "lastActivityAt": _timestamp(view.last_activity_at),
            "durationSeconds": _whole_seconds(view.duration),
            # Spliced in as it stands: parsing would round integers over 64 bits and the digits of floats.
            "filterSnapshot": None if view.filter_snapshot is None else orjson.Fragment(view.filter_snapshot),
        }
    )


def _json(payload: dict[str, object]) -> str:
    return orjson.dumps(payload).decode()


def _timestamp(moment: datetime) -> str:
    # Times are in UTC here. Not orjson's own form, which leaves out a fraction of zero: D-10 wants six digits always.
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _whole_seconds(duration: timedelta | None) -> int:
    assert duration is not None, "an event is about a closed row"
    return duration // _SECOND

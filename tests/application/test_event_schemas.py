"""The events' JSON Schemas are schemas, take what the closer writes, and nothing else (specification §7, D-10)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it ships no types

from application.event_contract import PROPERTY_OBJECT_VIEW_ENDED, SESSION_ENDED, message_of
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.contracts.event_schemas import faults_of, schema_of

TOPICS = (SESSION_ENDED.topic, PROPERTY_OBJECT_VIEW_ENDED.topic)
ENDED_AT = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)


def payload_of(topic: str, *, user_id: UUID | None = None, filter_snapshot: str | None = None) -> dict[str, Any]:
    """What the closer writes for a row that lasted for two and a half seconds."""
    began = ENDED_AT - timedelta(minutes=15)
    session = Session.start(session_id=UUID(int=1), anonymous_id=UUID(int=2), user_id=user_id, now=began)
    view = PropertyObjectView.open(
        view_id=UUID(int=3),
        property_object_id=UUID(int=4),
        session_id=session.id,
        anonymous_id=session.anonymous_id,
        view_source="Map",
        filter_snapshot=filter_snapshot,
        now=began,
    )
    last_activity_at = began + timedelta(seconds=2, milliseconds=500)
    closable = (
        OpenSession(session=session.touch(last_activity_at), open_views=())
        if topic == SESSION_ENDED.topic
        else HangingView(view=view.touch(last_activity_at), user_id=user_id)
    )
    [ended] = closable.close(ENDED_AT)
    message = message_of(ended, message_id=UUID(int=5), correlation_id=UUID(int=6), trace_parent=None)
    assert message.topic == topic
    payload: dict[str, Any] = json.loads(message.payload)
    return payload


@pytest.mark.parametrize("topic", TOPICS)
def test_the_schemas_are_schemas(topic: str) -> None:
    """They keep the rules of draft 2020-12 themselves, and are closed: an unknown key is an error."""
    schema = schema_of(topic)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["additionalProperties"] is False
    assert sorted(schema["required"]) == sorted(schema["properties"]), "absent optional values are null (D-10)"


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("user_id", [None, UUID(int=7)])
def test_what_the_closer_writes_is_valid(topic: str, user_id: UUID | None) -> None:
    """With a user and without one; every key of the contract is there, and no other (D-10)."""
    payload = payload_of(topic, user_id=user_id)
    assert faults_of(topic, payload) == []
    assert sorted(payload) == sorted(schema_of(topic)["properties"])
    assert payload["durationSeconds"] == 2


@pytest.mark.parametrize("filter_snapshot", [None, "{}", "[1, 2]", '"text"', '{"price": 1e400, "a": {"b": null}}'])
def test_any_filter_is_valid(filter_snapshot: str | None) -> None:
    """The filter is passed on, whatever JSON it is (D-10)."""
    topic = PROPERTY_OBJECT_VIEW_ENDED.topic
    assert faults_of(topic, payload_of(topic, filter_snapshot=filter_snapshot)) == []


WRONG_TIMES = (
    "2026-03-02T10:00:00Z",
    "2026-03-02T10:00:00.500Z",
    "2026-03-02T10:00:00.500000+00:00",
    "2026-03-02 10:00:00.500000Z",
    "2026-13-02T10:00:00.500000Z",
    "2026-03-02T24:00:00.500000Z",
    1_772_445_600,
    None,
)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("time", WRONG_TIMES)
def test_times_are_utc_to_the_microsecond(topic: str, time: object) -> None:
    """ISO 8601 in UTC with six fractional digits, ending in Z (D-10)."""
    assert faults_of(topic, payload_of(topic) | {"lastActivityAt": time})


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("seconds", [-1, 2.5, "2", None])
def test_durations_are_whole_seconds(topic: str, seconds: object) -> None:
    """An integer, never below zero (D-10)."""
    assert faults_of(topic, payload_of(topic) | {"durationSeconds": seconds})


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("identifier", ["", "no uuid", "{00000000-0000-0000-0000-000000000001}", 1])
def test_ids_are_uuids(topic: str, identifier: object) -> None:
    """In their usual text form; only the user may be null."""
    assert faults_of(topic, payload_of(topic) | {"sessionId": identifier})
    assert faults_of(topic, payload_of(topic) | {"userId": identifier})
    assert faults_of(topic, payload_of(topic) | {"anonymousId": None})


@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_is_missing_and_nothing_more_is_there(topic: str) -> None:
    """Each key is required, optional values included; device data and the contract version are in no payload (§7)."""
    payload = payload_of(topic)
    for key in payload:
        assert faults_of(topic, {name: value for name, value in payload.items() if name != key}), key
    for key in ("ipAddress", "userAgent", "deviceIpAddress", "deviceUserAgent", "contractVersion", "session_id"):
        assert faults_of(topic, payload | {key: "1"}), key

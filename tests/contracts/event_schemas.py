"""The JSON Schemas of the events (specification §7), and the check of what a test left in the outbox against them."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it ships no types

from application.contracts.subject import StoreSubject
from application.ports.outbox import OutboxMessage

_TOPIC_PREFIX = "pin.user-activity."


def schema_of(topic: str) -> dict[str, Any]:
    """The schema of a topic's payloads."""
    name = f"{topic.removeprefix(_TOPIC_PREFIX)}.json"
    schema: dict[str, Any] = json.loads((files("application") / "event_schemas" / name).read_text(encoding="utf-8"))
    return schema


@cache
def _validator_of(topic: str) -> Any:
    return Draft202012Validator(schema_of(topic), format_checker=Draft202012Validator.FORMAT_CHECKER)


def faults_of(topic: str, payload: object) -> list[str]:
    """What is wrong with a payload, by where it is; nothing if it is as the schema says."""
    return sorted(f"{error.json_path}: {error.validator}" for error in _validator_of(topic).iter_errors(payload))


def assert_valid(messages: Iterable[OutboxMessage]) -> None:
    """Every payload is as the schema of its topic says."""
    for message in messages:
        assert not faults_of(message.topic, json.loads(message.payload)), message.event_type


class EventsAreValid:
    """Goes before a suite of use cases: after each of its tests every event is checked against its schema."""

    subject: StoreSubject

    @pytest.fixture(autouse=True)
    def _events_are_valid(self, _subject: None) -> Iterator[None]:
        yield
        assert_valid(self.subject.messages())

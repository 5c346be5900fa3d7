"""A consumer as others should write theirs: it knows the contract, expects repetitions, and has each effect once."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from application.event_contract import PROPERTY_OBJECT_VIEW_ENDED, SESSION_ENDED
from tests.brokers import Record
from tests.contracts.event_schemas import faults_of

TOPICS: Final = (SESSION_ENDED.topic, PROPERTY_OBJECT_VIEW_ENDED.topic)
_ID_IN: Final = {SESSION_ENDED.topic: "sessionId", PROPERTY_OBJECT_VIEW_ENDED.topic: "propertyObjectViewId"}
_TYPE_OF: Final = {one.topic: one.event_type for one in (SESSION_ENDED, PROPERTY_OBJECT_VIEW_ENDED)}


class ReferenceConsumer:
    """Takes records in whatever order, and keeps how often each row's end had an effect (INV-LVS-003)."""

    def __init__(self) -> None:
        self.effects = Counter[UUID]()
        """By session or view: has to be once each, however often its event arrives."""
        self.duplicates = 0
        self._first: dict[UUID, Record] = {}

    def take(self, records: Iterable[Record]) -> None:
        """Takes each record: it must keep the contract, and a repetition must be what was there before."""
        for record in records:
            row_id = self._row_of(record)
            first = self._first.setdefault(row_id, record)
            if first is record:
                self.effects[row_id] += 1
            else:
                self.duplicates += 1
                same = (first.key, first.value, first.headers) == (record.key, record.value, record.headers)
                assert same, "a repetition says something else"

    def _row_of(self, record: Record) -> UUID:
        assert record.value is not None
        assert record.key is not None
        payload = json.loads(record.value)
        assert not faults_of(record.topic, payload), record.topic
        row_id = UUID(payload[_ID_IN[record.topic]])
        assert record.key == str(row_id).encode(), "the key is the aggregate's id (D-11)"
        assert record.headers["event-type"] == _TYPE_OF[record.topic].encode()
        assert record.headers["contract-version"] == b"1"
        assert record.headers["content-type"] == b"application/json"
        UUID((record.headers["event-id"] or b"").decode())
        UUID((record.headers["correlation-id"] or b"").decode())
        return row_id

"""The sender in memory as a subject of the contract suite."""

from collections.abc import Sequence
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.message_sending import InMemoryBroker, InMemorySender
from application.contracts.message_sending import ArrivedRecord
from application.event_contract import headers_of, key_of
from application.ports.outbox import OutboxMessage


class InMemorySenderSubject:
    """A broker that does what it is told to."""

    topic = "present"
    missing_topic = "missing"

    def __init__(self) -> None:
        self._refused: set[UUID] = set()
        self._broker = InMemoryBroker()
        self._broker.missing_topics = {self.missing_topic}
        self._broker.refuses = lambda message: message.id in self._refused
        self.sender = InMemorySender(self._broker, SettableClock())

    def make_missing_topic(self) -> None:
        self._broker.missing_topics.clear()

    def refused(self, message: OutboxMessage) -> OutboxMessage:
        self._refused.add(message.id)
        return message

    def stop_broker(self) -> None:
        self._broker.is_down = True

    def start_broker(self) -> None:
        self._broker.is_down = False

    def arrived(self, topic: str) -> Sequence[ArrivedRecord]:
        return [
            ArrivedRecord(
                topic=message.topic,
                key=key_of(message),
                value=message.payload.encode(),
                headers=dict(headers_of(message)),
            )
            for message in self._broker.arrived
            if message.topic == topic
        ]

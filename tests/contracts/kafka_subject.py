"""The sender to Kafka as a subject of the contract suite."""

from collections.abc import Sequence
from uuid import uuid4

from attrs import evolve

from adapters.kafka import KafkaSender
from application.contracts.message_sending import ArrivedRecord
from application.ports.outbox import OutboxMessage
from tests.brokers import OwnBroker

LARGEST_MESSAGE_BYTES = 20_000


class KafkaSubject:
    """A sender that gives up soon, on a broker that may be stopped."""

    def __init__(self, broker: OwnBroker) -> None:
        self._broker = broker
        self._is_stopped = False
        self.topic = f"test.{uuid4().hex}"
        self.missing_topic = f"test.{uuid4().hex}"
        self._topics = [self.topic]
        broker.create_topics(self.topic)
        self.sender = KafkaSender(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "message.timeout.ms": "5000",
                "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
            }
        )

    def make_missing_topic(self) -> None:
        self._topics.append(self.missing_topic)
        self._broker.create_topics(self.missing_topic)

    def refused(self, message: OutboxMessage) -> OutboxMessage:
        return evolve(message, payload=message.payload + " " * LARGEST_MESSAGE_BYTES)

    def stop_broker(self) -> None:
        self._broker.stop()
        self._is_stopped = True

    def start_broker(self) -> None:
        self._broker.start()
        self._is_stopped = False
        if self._broker.kind == "embedded":  # it keeps no topics
            self._broker.create_topics(*self._topics)

    def arrived(self, topic: str) -> Sequence[ArrivedRecord]:
        return [
            ArrivedRecord(
                topic=record.topic,
                key=record.key or b"",
                value=record.value or b"",
                headers={name: value or b"" for name, value in record.headers.items()},
            )
            for record in self._broker.read_all(topic)
        ]

    def close(self) -> None:
        self.sender.close()
        if self._is_stopped:
            self._broker.start()

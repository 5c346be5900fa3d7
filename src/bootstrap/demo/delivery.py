"""The way of the events: a broker of the demo's own, the real publisher, and a consumer that counts what arrives."""

import time
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Final

from attrs import evolve
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from adapters.embedded import EmbeddedBroker
from application.event_contract import PROPERTY_OBJECT_VIEW_ENDED, SESSION_ENDED
from bootstrap.publisher import Publisher
from bootstrap.publisher_container import PublisherContainer
from bootstrap.settings import Delivery, Settings
from bootstrap.stop_signal import StopSignal

_TOPICS: Final = (SESSION_ENDED.topic, PROPERTY_OBJECT_VIEW_ENDED.topic)
_PARTITIONS: Final = 3
_PATIENCE_SECONDS: Final = 10.0
_POLLING_INTERVAL: Final = timedelta(seconds=0.25)


class EventDelivery:
    """The publisher works in real time: a broker does not answer faster because a demo is in a hurry."""

    def __init__(self, settings: Settings, resources: ExitStack) -> None:
        broker = resources.enter_context(EmbeddedBroker())
        self.bootstrap_servers: Final = broker.bootstrap_servers
        _create_topics(self.bootstrap_servers)
        self._settings = evolve(
            settings,
            kafka={"bootstrap.servers": self.bootstrap_servers},
            delivery=Delivery.PUBLISHER,
            publish_polling_interval=_POLLING_INTERVAL,
        )
        self.stop: Final = StopSignal()
        """For the publisher alone: it ends after those who write events."""
        container = self._container(self.stop, resources)
        self.publisher: Final[Publisher] = container.publisher()
        self.subscriber: Final = resources.enter_context(closing(Subscriber(self.bootstrap_servers)))
        self._resources = resources

    def missing(self, events: int) -> int:
        """Delivers what is left, and answers how many of so many events have not arrived."""
        self._container(StopSignal(), self._resources).publish_outbox().run()
        gives_up_at = time.monotonic() + _PATIENCE_SECONDS
        while (missing := events - self.subscriber.arrived(wait_seconds=0.1)) and time.monotonic() < gives_up_at:
            pass
        return missing

    def _container(self, stop: StopSignal, resources: ExitStack) -> PublisherContainer:
        container = PublisherContainer(settings=self._settings, stop=stop)
        resources.enter_context(closing(container.store()))
        resources.enter_context(closing(container.sender()))
        return container


class Subscriber:
    """Reads both topics and counts the events, each once, however often it arrives (INV-LVS-003)."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": "demo", "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(topic, part, 0) for topic in _TOPICS for part in range(_PARTITIONS)])
        self._event_ids: set[object] = set()

    def arrived(self, *, wait_seconds: float = 0.0) -> int:
        """How many events there were up to now."""
        while records := self._consumer.consume(1_000, wait_seconds):
            headers = [dict(record.headers() or ()) for record in records if record.error() is None]
            self._event_ids.update(one["event-id"] for one in headers)
        return len(self._event_ids)

    def close(self) -> None:
        """Lets go of the broker."""
        self._consumer.close()


def _create_topics(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    topics = [NewTopic(topic, num_partitions=_PARTITIONS, replication_factor=1) for topic in _TOPICS]
    for created in admin.create_topics(topics).values():
        created.result(_PATIENCE_SECONDS)

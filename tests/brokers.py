"""Where the suite's Kafka broker comes from, and what tests do with it.

`ACTIVITY_CLOSER_TEST_KAFKA` names the bootstrap servers of a broker to use. Without it the broker is Apache Kafka, from
its jars in the folder `ACTIVITY_CLOSER_TEST_KAFKA_LIBS` (tests/kafka/pom.xml says how they get there); without that a
container, where a Docker engine answers, or else the embedded one. A test's own broker is Apache Kafka or the embedded
one.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, cast

from attrs import frozen
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from adapters.embedded import EmbeddedBroker
from tests.apache_kafka import apache_kafka
from tests.databases import docker_answers

_TIMEOUT_SECONDS: Final = 30.0
_LOG: Final = logging.getLogger(__name__)
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@frozen(kw_only=True)
class Record:
    """A message as the broker keeps it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]


@frozen(kw_only=True)
class Broker:
    """A broker in which tests may make topics."""

    bootstrap_servers: str
    kind: Literal["given", "apache", "container", "embedded"]

    def create_topics(self, *names: str, partitions: int = 3, settings: Mapping[str, str] = _NO_SETTINGS) -> None:
        """Make topics, and return when clients can use them. Raises KafkaException, also for one that exists."""
        admin = AdminClient(self._client_settings(), logger=_LOG)
        topics = [
            NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(settings)) for name in names
        ]
        for created in admin.create_topics(topics).values():
            created.result(_TIMEOUT_SECONDS)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not all(_is_led(admin, name) for name in names):
            assert time.monotonic() < deadline, f"{names} are not ready"
            time.sleep(0.01)

    def read_all(self, *topics: str) -> list[Record]:
        """Return everything that is in these topics now, in order within a partition.

        The end is where the broker says that a partition ends: the embedded one's watermarks are too low. No consumer
        group is joined. Raises KafkaException for a topic that is not there.
        """
        consumer = Consumer(
            {
                **self._client_settings(),
                "group.id": "read-all",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            },
            logger=_LOG,
        )
        try:
            unread = {(topic, partition) for topic in topics for partition in _partitions(consumer, topic)}
            consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in unread])
            records = []
            deadline = time.monotonic() + _TIMEOUT_SECONDS
            while unread:
                assert time.monotonic() < deadline, f"the ends of {unread} were not reached"
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard((_topic(message), _number(message.partition())))
                else:
                    raise KafkaException(error)
            return records
        finally:
            consumer.close()

    def _client_settings(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.bootstrap_servers, "allow.auto.create.topics": False}


@frozen(kw_only=True)
class OwnBroker(Broker):
    """A broker that a test has for itself. Apache Kafka keeps its data over stop and kill, the embedded one nothing."""

    process: EmbeddedBroker

    def start(self) -> None:
        """Start it again, on the same port."""
        self.process.start()

    def stop(self) -> None:
        """Stop it in order."""
        self.process.stop()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()


StartBroker = Callable[[], OwnBroker]
"""Starts a broker that the test has for itself; it is stopped after the test."""


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Yield the broker that this run of the suite uses."""
    given = os.environ.get("ACTIVITY_CLOSER_TEST_KAFKA")
    if given:
        yield Broker(bootstrap_servers=given, kind="given")
    elif _libraries() is None and docker_answers():
        with _container() as broker:
            yield broker
    else:
        with started_broker() as own:
            yield Broker(bootstrap_servers=own.bootstrap_servers, kind=own.kind)


@contextmanager
def started_broker() -> Iterator[OwnBroker]:
    """Yield a new broker that runs, and stop it."""
    with tempfile.TemporaryDirectory(prefix="activity-closer-") as folder:
        libraries = _libraries()
        process = apache_kafka(libraries, Path(folder)) if libraries else EmbeddedBroker()
        with process:
            yield OwnBroker(
                bootstrap_servers=process.bootstrap_servers,
                kind="apache" if libraries else "embedded",
                process=process,
            )


def _libraries() -> Path | None:
    given = os.environ.get("ACTIVITY_CLOSER_TEST_KAFKA_LIBS")
    return Path(given) if given else None


@contextmanager
def _container() -> Iterator[Broker]:
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 (it takes 0.3 s, and only here)

    described = KafkaContainer().with_kraft().with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    with described as container:
        yield Broker(bootstrap_servers=container.get_bootstrap_server(), kind="container")


def _is_led(admin: AdminClient, topic: str) -> bool:
    """Tell whether the broker knows all partitions of a topic and who leads them."""
    partitions = admin.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
    return bool(partitions) and all(partition.leader >= 0 for partition in partitions.values())


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return list(metadata.partitions)


def _record(message: Message) -> Record:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    assert len(dict(headers)) == len(headers), "a header was sent twice"
    return Record(
        topic=_topic(message),
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        key=message.key(),
        value=message.value(),
        headers=dict(headers),
    )


def _topic(message: Message) -> str:
    topic = message.topic()
    assert topic is not None
    return topic


def _number(number: int | None) -> int:
    assert number is not None
    return number

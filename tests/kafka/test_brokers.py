"""What the suite's own brokers promise, whichever kind they are of."""

from collections.abc import Callable, Iterable
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.brokers import Broker, OwnBroker, Record, StartBroker


def produce(broker: Broker, topic: str, values: Iterable[bytes], *, partition: int = 0) -> None:
    """Put messages into a partition, in order."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def new_topic(broker: Broker, *, partitions: int = 3) -> str:
    """Make a topic with a name of its own."""
    name = f"test.{uuid4().hex}"
    broker.create_topics(name, partitions=partitions)
    return name


def test_a_message_comes_back_as_it_was_sent(broker: Broker) -> None:
    """Key, value and headers, empty and absent ones told apart, are what a test judges by."""
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    headers = {"said": b"yes", "empty": b"", "absent": None}
    producer.produce(topic, value=b"{}", key=b"key", headers=list(headers.items()), partition=1)
    producer.produce(topic, value=None, key=None, partition=2)
    assert producer.flush(30) == 0

    records = sorted(broker.read_all(topic), key=lambda record: record.partition)

    assert records == [
        Record(topic=topic, partition=1, offset=0, key=b"key", value=b"{}", headers=headers),
        Record(topic=topic, partition=2, offset=0, key=None, value=None, headers={}),
    ]


def test_everything_is_read_whatever_the_batches(broker: Broker) -> None:
    """The end is the end: the embedded broker's watermarks lie before it as soon as a batch has two messages."""
    first, second = new_topic(broker), new_topic(broker, partitions=1)
    sent = [str(number).encode() for number in range(600)]
    for start, end in ((0, 1), (1, 3), (3, 4), (4, 599), (599, 600)):
        produce(broker, first, sent[start:end], partition=2)
    produce(broker, second, sent[:5])

    records = broker.read_all(first, second)

    of_first = [record for record in records if record.topic == first]
    assert [record.value for record in of_first] == sent
    assert [record.offset for record in of_first] == list(range(600))
    assert [record.value for record in records if record.topic == second] == sent[:5]


def test_an_empty_topic_is_empty(broker: Broker) -> None:
    """Nothing is waited for where nothing is."""
    assert broker.read_all(new_topic(broker)) == []


def test_a_look_does_not_make_a_topic(broker: Broker) -> None:
    """A test that reads a misspelt topic fails, the second time too, on the embedded broker too."""
    for _ in range(2):
        with pytest.raises(KafkaException, match="Unknown topic"):
            broker.read_all(f"test.{uuid4().hex}.missing")


def test_two_tests_do_not_share_a_topic(broker: Broker) -> None:
    """The second one to make a topic is told."""
    topic = new_topic(broker)
    with pytest.raises(KafkaException, match="already exists"):
        broker.create_topics(topic)


@pytest.mark.slow
@pytest.mark.parametrize("end", [OwnBroker.stop, OwnBroker.kill])
def test_an_outage_can_be_played(own_broker: StartBroker, end: Callable[[OwnBroker], None]) -> None:
    """A broker comes back on the same port: Apache Kafka with all that it had acknowledged, the embedded one empty."""
    own = own_broker()
    own.create_topics("outage", partitions=1)
    produce(own, "outage", [b"before"])

    end(own)
    producer = Producer({"bootstrap.servers": own.bootstrap_servers, "message.timeout.ms": 300})
    outcomes: list[KafkaError | None] = []
    producer.produce("outage", b"lost", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(30) == 0
    assert outcomes == [KafkaError._MSG_TIMED_OUT]
    own.start()

    if own.kind == "embedded":
        own.create_topics("outage", partitions=1)
    produce(own, "outage", [b"after"])
    kept = [b"before"] if own.kind == "apache" else []
    assert [record.value for record in own.read_all("outage")] == [*kept, b"after"]


@pytest.mark.slow
def test_each_own_broker_is_a_new_one(own_broker: StartBroker) -> None:
    """The product's topics have fixed names: a test that uses them has a broker for itself, or two."""
    first, second = own_broker(), own_broker()
    for own in (first, second):
        own.create_topics("pin.user-activity.session-ended.v1", partitions=1)
    produce(first, "pin.user-activity.session-ended.v1", [b"{}"])

    assert second.read_all("pin.user-activity.session-ended.v1") == []

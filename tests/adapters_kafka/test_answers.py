"""What a broker's errors come to, one by one; the brokers are librdkafka's own, which answer as they are told to."""

import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from uuid import uuid4

import pytest
from attrs import evolve
from confluent_kafka import KafkaError, KafkaException

from adapters.kafka import KafkaSender
from adapters.kafka.client import Client
from adapters.kafka.properties import completed
from adapters.kafka.shipment import KafkaShipment
from application.contracts.message_sending import event_of
from application.ports.message_sending import Failure
from tests.adapters_kafka.mock_cluster import MockCluster, Request
from tests.adapters_kafka.sending import (
    DEADLINE_SECONDS,
    PROMPT_SECONDS,
    conclude,
    deliver,
    events_for,
    ids_of,
    outcomes_of,
    sender_to,
)
from tests.brokers import Broker

MANY = 100


@pytest.fixture
def sender(cluster: MockCluster) -> Iterator[KafkaSender]:
    """Yield a sender that has delivered before."""
    with sender_to(cluster.bootstrap_servers) as running:
        deliver(running, events_for(cluster.topic, 1))
        yield running


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, (Failure.REFUSED, "msg_size_too_large")),
        (KafkaError.RECORD_LIST_TOO_LARGE, (Failure.REFUSED, "record_list_too_large")),
        (KafkaError.INVALID_RECORD, (Failure.REFUSED, "invalid_record")),
        (KafkaError.TOPIC_EXCEPTION, (Failure.REFUSED, "topic_exception")),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, (Failure.TOPIC_UNAVAILABLE, "topic_authorization_failed")),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, (Failure.UNKNOWN, "cluster_authorization_failed")),
        (KafkaError.INVALID_TIMESTAMP, (Failure.UNKNOWN, "invalid_timestamp")),
        (KafkaError.UNSUPPORTED_COMPRESSION_TYPE, (Failure.UNKNOWN, "unsupported_compression_type")),
    ],
)
def test_a_brokers_refusal_is_what_it_is(
    cluster: MockCluster, sender: KafkaSender, error: int, outcome: tuple[Failure, str]
) -> None:
    """Only what is wrong with the event itself is a refusal, which counts; a topic's or a broker's state is not."""
    [event] = events_for(cluster.topic, 1)
    cluster.answer(Request.PRODUCE, *[error] * MANY)
    shipment = conclude(sender.send([event]))
    assert outcomes_of(shipment) == {outcome}
    assert ids_of(shipment) == [str(event.id)]


@pytest.mark.parametrize(
    "error", [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_what_passes_is_tried_again(cluster: MockCluster, sender: KafkaSender, error: int) -> None:
    """A change of leaders and the like is no outcome: the event arrives, and once."""
    events = events_for(cluster.topic, 10)
    cluster.answer(Request.PRODUCE, error)
    deliver(sender, events)
    assert len(stored(cluster)) == 1 + len(events)


def stored(cluster: MockCluster) -> list[bytes | None]:
    """Return the ids of the events that the cluster has."""
    records = Broker(bootstrap_servers=cluster.bootstrap_servers, kind="given").read_all(cluster.topic)
    return [record.headers["event-id"] for record in records]


@pytest.mark.parametrize(
    "error", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD]
)
def test_a_batch_that_is_refused_costs_none_of_its_events(
    cluster: MockCluster, sender: KafkaSender, error: int
) -> None:
    """A broker refuses whole batches; the events of one are sent again one by one, and arrive, in the same shipment."""
    events = events_for(cluster.topic, 20)
    cluster.answer(Request.PRODUCE, error, error)
    deliver(sender, events)
    has = stored(cluster)
    assert len(has) == 1 + len(events)
    assert {str(one.id).encode() for one in events} < set(has)


def test_one_event_of_a_refused_batch_is_to_blame(cluster: MockCluster) -> None:
    """Of a refused batch only what is refused by itself, too, is refused (BR-10)."""
    aggregate_id = uuid4()  # of all of them, so that they go into one partition
    events = [evolve(event, aggregate_id=aggregate_id) for event in events_for(cluster.topic, 20)]
    cluster.answer(Request.PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.MSG_SIZE_TOO_LARGE)
    with sender_to(cluster.bootstrap_servers, linger_ms="500") as sender:  # so that they go together
        shipment = conclude(sender.send(events))
    assert outcomes_of(shipment) == {(Failure.REFUSED, "msg_size_too_large")}
    assert [one.message for one in shipment.undelivered] == events[:1]
    assert ids_of(shipment) == sorted(str(one.id) for one in events)


@pytest.mark.slow
def test_a_topics_own_limit_costs_only_what_is_over_it(broker: Broker) -> None:
    """Apache Kafka holds a whole batch against a topic's limit, which may be far below that of a batch (BR-10)."""
    if broker.kind == "embedded":
        pytest.skip("the embedded broker knows no limits of topics")
    topic = f"test.{uuid4().hex}"
    broker.create_topics(topic, settings={"max.message.bytes": "5000"})
    events = events_for(topic, 100)
    too_large = evolve(events[50], payload=" " * 8_000)
    events[50] = too_large
    with sender_to(broker.bootstrap_servers) as sender:
        shipment = conclude(sender.send(events))
    assert [one.message for one in shipment.undelivered] == [too_large]
    assert outcomes_of(shipment) == {(Failure.REFUSED, "msg_size_too_large")}
    assert len(broker.read_all(topic)) == 99


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Failure.TOPIC_UNAVAILABLE),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Failure.TOPIC_UNAVAILABLE),
        (KafkaError.TOPIC_EXCEPTION, Failure.REFUSED),
    ],
)
def test_a_topic_is_asked_for_before_its_first_event(cluster: MockCluster, error: int, failure: Failure) -> None:
    """What a broker says of a topic is known at once, before librdkafka keeps any event; then it is asked again."""
    with sender_to(cluster.bootstrap_servers) as sender:
        cluster.set_topic_error(error)
        started = time.monotonic()
        shipment = conclude(sender.send(events_for(cluster.topic, 5)))
        assert time.monotonic() - started < PROMPT_SECONDS
        assert {one.failure for one in shipment.undelivered} == {failure}
        assert len(shipment.undelivered) == 5
        cluster.set_topic_error(0)
        deliver(sender, events_for(cluster.topic, 5))


def test_a_topic_that_was_deleted_is_found_missing(cluster: MockCluster) -> None:
    """Its events do not time out first, though librdkafka thinks that it knows the topic; a new one is found, too."""
    with sender_to(cluster.bootstrap_servers, message_timeout_ms="20000") as sender:
        deliver(sender, events_for(cluster.topic, 5))
        cluster.delete_topic()
        started = time.monotonic()
        for expected in (
            # What a partition held at that very moment is reported as destroyed with it.
            {(Failure.TOPIC_UNAVAILABLE, "unknown_partition"), (Failure.UNKNOWN, "destroy")},
            {(Failure.TOPIC_UNAVAILABLE, "unknown_topic_or_part")},
        ):
            shipment = conclude(sender.send(events_for(cluster.topic, 5)))
            assert outcomes_of(shipment) <= expected
            assert len(shipment.undelivered) == 5
        assert time.monotonic() - started < 10
        cluster.create_topic()
        deliver(sender, events_for(cluster.topic, 5))


@pytest.mark.parametrize("name", ["", ".", "..", "два", "a b", "a\0b", "x" * 250, "x" * 600, "\udcff"])
def test_an_impossible_topic_is_refused(cluster: MockCluster, name: str) -> None:
    """No broker would take an event for it, now or later; its neighbours go."""
    present, impossible = event_of(cluster.topic), event_of(name)
    with sender_to(cluster.bootstrap_servers) as sender:
        shipment = conclude(sender.send([impossible, present]))
    assert shipment.delivered == [present.id]
    assert outcomes_of(shipment) == {(Failure.REFUSED, "topic_exception")}


def test_a_text_that_is_none_is_refused(cluster: MockCluster, sender: KafkaSender) -> None:
    """An event whose text has no form in UTF-8 fails alone, without a traceback."""
    broken = event_of(cluster.topic, trace_parent="\ud800")
    present = event_of(cluster.topic)
    shipment = conclude(sender.send([broken, present]))
    assert shipment.delivered == [present.id]
    assert outcomes_of(shipment) == {(Failure.REFUSED, "not_encodable")}


def test_a_right_that_is_missing_for_a_topic_may_be_granted(cluster: MockCluster, sender: KafkaSender) -> None:
    """A topic that was refused is asked for again with the next shipment, once, not with each event."""
    cluster.answer(Request.PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    for _ in range(2):
        shipment = conclude(sender.send(events_for(cluster.topic, 5)))
        if shipment.delivered:
            break
        assert outcomes_of(shipment) == {(Failure.TOPIC_UNAVAILABLE, "topic_authorization_failed")}
    deliver(sender, events_for(cluster.topic, 5))


def test_a_fatal_error_costs_a_producer_and_not_the_sender(cluster: MockCluster, sender: KafkaSender) -> None:
    """After an error that librdkafka does not come out of, a new producer takes over; what was open is unknown."""
    aggregate_id = uuid4()  # of all of them, so that they go into one partition
    first, second = (
        [evolve(event, aggregate_id=aggregate_id) for event in events_for(cluster.topic, 5)] for _ in range(2)
    )
    fatal = {(Failure.UNKNOWN, "out_of_order_sequence_number")}
    cluster.answer(Request.PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    started = time.monotonic()
    shipments = [sender.send(first), sender.send(second)]
    assert outcomes_of(conclude(shipments[0])) == fatal
    assert outcomes_of(conclude(shipments[1])) <= fatal
    assert time.monotonic() - started < PROMPT_SECONDS
    assert [ids_of(one) for one in shipments] == [sorted(str(one.id) for one in batch) for batch in (first, second)]
    deliver(sender, first)


def test_a_producer_that_gets_no_id_is_replaced(cluster: MockCluster) -> None:
    """Without the right to write idempotently each producer ends at once, until somebody grants it."""
    cluster.answer(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    with sender_to(cluster.bootstrap_servers) as sender:
        events = events_for(cluster.topic, 5)
        assert outcomes_of(conclude(sender.send(events))) == {(Failure.UNKNOWN, "cluster_authorization_failed")}
        deliver(sender, events)


def test_ending_after_a_fatal_error_raises_nothing(cluster: MockCluster) -> None:
    """An error that nobody has met yet, for nobody waited, is no error of whoever closes."""
    cluster.answer(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    client = Client(completed({"bootstrap.servers": cluster.bootstrap_servers}))
    with pytest.raises(KafkaException, match="Fatal error"):
        produce_for_a_while(client, cluster.topic)
    client.end("closed")
    assert client.end_cause == "closed"


def test_a_fatal_error_is_told_by_its_name(cluster: MockCluster) -> None:
    """Events that a producer does not even take any more have the cause that made it so."""
    cluster.answer(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    client = Client(completed({"bootstrap.servers": cluster.bootstrap_servers}))
    with pytest.raises(KafkaException, match="Fatal error"):
        produce_for_a_while(client, cluster.topic)
    events = events_for(cluster.topic, 3)
    shipment = KafkaShipment(client, events, alone=lambda: client, hands_over_until=inf, gives_up_at=inf)
    shipment.begin()
    assert shipment.wait(0)
    assert outcomes_of(shipment) == {(Failure.UNKNOWN, "cluster_authorization_failed")}
    assert ids_of(shipment) == sorted(str(one.id) for one in events)


def produce_for_a_while(client: Client, topic: str) -> None:
    """Produce until that raises anything but that the queue is full, without a look at any report."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with suppress(BufferError):
            client.produce(topic, b"{}")

"""A broker that is away, silent or another one than before: nothing is lost, nobody is kept waiting."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError

from adapters.embedded.loopback_port import free_port
from adapters.kafka import KafkaSender
from application.ports.message_sending import Failure
from tests.adapters_kafka.certificate import CERTIFICATE
from tests.adapters_kafka.mock_cluster import MockCluster, Request
from tests.adapters_kafka.sending import (
    AT_ONCE_SECONDS,
    DEADLINE_SECONDS,
    MESSAGE_TIMEOUT_SECONDS,
    PROMPT_SECONDS,
    conclude,
    deliver,
    events_for,
    ids_of,
    outcomes_of,
    sender_to,
)
from tests.brokers import Broker, StartBroker


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """Where connections are taken, and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def absent_broker() -> str:
    """Where nobody listens."""
    return f"127.0.0.1:{free_port()}"


def stored_ids(cluster: MockCluster) -> list[bytes | None]:
    records = Broker(bootstrap_servers=cluster.bootstrap_servers, kind="given").read_all(cluster.topic)
    return [record.headers["event-id"] for record in records]


def test_a_full_queue_delays_events_and_loses_none(cluster: MockCluster) -> None:
    """What librdkafka has no room for is handed over as soon as it has; nothing raises, nothing blocks (BR-26)."""
    with sender_to(cluster.bootstrap_servers, queue_buffering_max_messages="100", message_timeout_ms="20000") as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.stop()
        events = events_for(cluster.topic, 1_000)
        started = time.monotonic()
        shipment = sender.send(events)
        assert not shipment.wait(0.2)
        assert time.monotonic() - started < PROMPT_SECONDS
        cluster.start()
        assert not conclude(shipment).undelivered
    assert {str(one.id).encode() for one in events} < set(stored_ids(cluster))
    assert len(stored_ids(cluster)) == 1 + len(events)


@pytest.mark.slow
def test_what_finds_no_room_in_time_is_unknown(cluster: MockCluster) -> None:
    """With a full queue and no broker, too, each event is accounted for in time, and once (BR-26)."""
    with sender_to(cluster.bootstrap_servers, queue_buffering_max_messages="100") as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.stop()
        events = events_for(cluster.topic, 1_000)
        started = time.monotonic()
        shipment = conclude(sender.send(events))
        assert time.monotonic() - started <= sender.delivery_limit.total_seconds() + PROMPT_SECONDS
    assert ids_of(shipment) == sorted(str(one.id) for one in events)
    assert {one.failure for one in shipment.undelivered} == {Failure.UNKNOWN}
    assert not shipment.delivered


@pytest.mark.slow
def test_who_comes_too_late_sends_nothing_more(cluster: MockCluster, absent_broker: str) -> None:
    """A process that was held up hands over nothing once an event's time is over: others may have sent it by then."""
    cluster.stop()
    with sender_to(cluster.bootstrap_servers, message_timeout_ms="2000") as sender:
        events = events_for(cluster.topic, 100)
        shipment = sender.send(events)
        with sender_to(absent_broker, message_timeout_ms="2500") as other:
            conclude(other.send(events_for("anything", 1)))  # meanwhile nobody waits for the shipment
        cluster.start()
        assert ids_of(conclude(shipment)) == sorted(str(one.id) for one in events)
        assert not shipment.delivered
    assert stored_ids(cluster) == []


@pytest.mark.parametrize("broker", ["silent_broker", "absent_broker"])
def test_nobody_waits_longer_than_asked(broker: str, request: pytest.FixtureRequest) -> None:
    """Sending, waiting and closing come back soon, whatever the broker does not do; the second batch asks no more."""
    with sender_to(request.getfixturevalue(broker)) as sender:
        durations = []
        shipments = []
        events = events_for("anything", 1_000)
        for _ in range(2):
            started = time.monotonic()
            shipments.append(sender.send(events))
            durations.append(time.monotonic() - started)
        assert durations[0] < 1.0 + PROMPT_SECONDS
        assert durations[1] < AT_ONCE_SECONDS
        started = time.monotonic()
        assert not shipments[0].wait(0.1)
        assert time.monotonic() - started < PROMPT_SECONDS
        started = time.monotonic()
        sender.close()
        assert time.monotonic() - started < AT_ONCE_SECONDS


@pytest.mark.slow
def test_a_broker_that_falls_silent_is_given_up(cluster: MockCluster) -> None:
    """Events that it was sent and never answered are unknown in time; whoever closes then does not wait for it."""
    with sender_to(cluster.bootstrap_servers) as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.answer_after(3_600_000)
        events = events_for(cluster.topic, 10)
        started = time.monotonic()
        shipment = conclude(sender.send(events))
        assert time.monotonic() - started <= sender.delivery_limit.total_seconds() + PROMPT_SECONDS
        assert {one.failure for one in shipment.undelivered} == {Failure.UNKNOWN}
        assert ids_of(shipment) == sorted(str(one.id) for one in events)
        sender.send(events)
        started = time.monotonic()
    assert time.monotonic() - started < AT_ONCE_SECONDS


def test_closing_gives_up_what_is_under_way(cluster: MockCluster) -> None:
    """After it everything is known, or known to be unknown; to close twice is no error."""
    sender = KafkaSender({"bootstrap.servers": cluster.bootstrap_servers})
    deliver(sender, events_for(cluster.topic, 1))
    cluster.stop()
    events = events_for(cluster.topic, 10)
    shipment = sender.send(events)
    started = time.monotonic()
    sender.close()
    sender.close()
    assert time.monotonic() - started < AT_ONCE_SECONDS
    assert shipment.wait(0)
    assert outcomes_of(shipment) == {(Failure.UNKNOWN, "closed")}
    assert ids_of(shipment) == sorted(str(one.id) for one in events)


@pytest.mark.slow
def test_closing_ends_the_producers_that_were_replaced_too(cluster: MockCluster) -> None:
    """A shipment may still be under way by a producer that the next one does not use any more."""
    with sender_to(cluster.bootstrap_servers) as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.stop()
        first = sender.send(events_for(cluster.topic, 5))
        assert not first.wait(1.0)
        second = sender.send(events_for(cluster.topic, 5))
        assert outcomes_of(conclude(first)) == {(Failure.UNKNOWN, "transport")}
        third = sender.send(events_for(cluster.topic, 5))
        sender.close()
        for shipment in (second, third):
            assert shipment.wait(0)
            assert outcomes_of(shipment) == {(Failure.UNKNOWN, "closed")}


def test_abandoning_leaves_other_shipments_alone(cluster: MockCluster) -> None:
    """One shipment is given up, the one beside it arrives when the broker is back; late reports change nothing."""
    with sender_to(cluster.bootstrap_servers, message_timeout_ms="20000") as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.stop()
        given_up, kept = events_for(cluster.topic, 5), events_for(cluster.topic, 5)
        first, second = sender.send(given_up), sender.send(kept)
        first.abandon()
        cluster.start()
        assert not conclude(second).undelivered
        assert first.wait(0)
        assert outcomes_of(first) == {(Failure.UNKNOWN, "abandoned")}
        assert not first.delivered


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_that_forgot_its_producers_gets_a_new_one(own_broker: StartBroker, end: str) -> None:
    """A broker that was put up anew refuses the producer it knew for ever; with the second attempt events arrive."""
    broker = own_broker()
    topic = "test.restart"
    broker.create_topics(topic)
    with sender_to(broker.bootstrap_servers) as sender:
        deliver(sender, events_for(topic, 10))
        getattr(broker, end)()
        broker.start()
        if broker.kind == "embedded":
            broker.create_topics(topic)
        events = events_for(topic, 10)
        first = conclude(sender.send(events))
        assert {one.failure for one in first.undelivered} <= {Failure.UNKNOWN}
        deliver(sender, events)
    assert {str(one.id).encode() for one in events} <= {one.headers["event-id"] for one in broker.read_all(topic)}


@pytest.mark.slow
def test_outages_leave_nothing_behind(absent_broker: str) -> None:
    """Producers that were replaced are gone, with their threads: an outage may last for days."""
    process = psutil.Process()
    before = process.num_threads()
    with sender_to(absent_broker, message_timeout_ms="100", linger_ms="0") as sender:
        for _ in range(4):
            conclude(sender.send(events_for("anything", 10)))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while process.num_threads() > before:
            assert time.monotonic() < deadline, "threads are left"
            time.sleep(0.01)


@pytest.mark.slow
def test_the_cause_says_what_is_wrong_with_the_connection(absent_broker: str) -> None:
    """That time ran out is no help at night: the cause is the connection's own, where there is one."""
    with sender_to(absent_broker, message_timeout_ms="1000") as sender:
        shipment = conclude(sender.send(events_for("anything", 1)))
        assert outcomes_of(shipment) == {(Failure.UNKNOWN, "transport")}
    with sender_to("no-such-host.invalid:9092", message_timeout_ms="1000") as sender:
        shipment = conclude(sender.send(events_for("anything", 1)))
        assert outcomes_of(shipment) == {(Failure.UNKNOWN, "resolve")}


def test_librdkafka_is_silent(absent_broker: str, cluster: MockCluster, capfd: pytest.CaptureFixture[str]) -> None:
    """No line of its log reaches stderr, where ours has one object a line: not of outages, not of fatal errors."""
    with sender_to(absent_broker, message_timeout_ms="1000") as sender:
        conclude(sender.send(events_for("anything", 1)))
    with sender_to(cluster.bootstrap_servers) as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.answer(Request.PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        conclude(sender.send(events_for(cluster.topic, 1)))
    assert capfd.readouterr() == ("", "")


def test_who_asks_for_librdkafkas_log_gets_it(cluster: MockCluster, capfd: pytest.CaptureFixture[str]) -> None:
    """Its own words are what helps with a connection that fails; no secret is among them."""
    with sender_to(cluster.bootstrap_servers, debug="all", sasl_password="geheim") as sender:  # noqa: S106 (the point)
        deliver(sender, events_for(cluster.topic, 1))
    log = capfd.readouterr().err
    assert "MetadataRequest" in log
    assert "geheim" not in log


@pytest.mark.slow
def test_a_trouble_that_is_over_is_no_cause(cluster: MockCluster) -> None:
    """A connection that was lost and came back has nothing to do with what fails later."""
    with sender_to(cluster.bootstrap_servers) as sender:
        deliver(sender, events_for(cluster.topic, 1))
        cluster.stop()
        interrupted = sender.send(events_for(cluster.topic, 1))
        assert not interrupted.wait(0.5)
        cluster.start()
        assert not conclude(interrupted).undelivered
        cluster.answer(Request.PRODUCE, *[KafkaError.NOT_ENOUGH_REPLICAS] * 1_000)
        shipment = conclude(sender.send(events_for(cluster.topic, 1)))
        assert outcomes_of(shipment) == {(Failure.UNKNOWN, "msg_timed_out")}


@pytest.mark.slow
def test_a_file_that_is_being_exchanged_costs_a_moment(absent_broker: str, tmp_path: Path) -> None:
    """A new producer may find no certificate just then: events are unknown, until one can be made again."""
    certificate = tmp_path / "ca.pem"
    certificate.write_text(CERTIFICATE)
    properties = {"message_timeout_ms": "1000", "security_protocol": "ssl", "ssl_ca_location": str(certificate)}
    with sender_to(absent_broker, **properties) as sender:
        assert outcomes_of(conclude(sender.send(events_for("anything", 1)))) == {(Failure.UNKNOWN, "transport")}
        certificate.unlink()
        assert outcomes_of(conclude(sender.send(events_for("anything", 1)))) == {(Failure.UNKNOWN, "property_refused")}
        certificate.write_text(CERTIFICATE)
        assert outcomes_of(conclude(sender.send(events_for("anything", 1)))) == {(Failure.UNKNOWN, "transport")}


def test_the_limit_is_that_of_an_event_and_a_margin(absent_broker: str) -> None:
    """Leases are made to last for this limit, so it follows what librdkafka keeps to."""
    with sender_to(absent_broker) as sender:
        assert MESSAGE_TIMEOUT_SECONDS < sender.delivery_limit.total_seconds() <= MESSAGE_TIMEOUT_SECONDS + 10

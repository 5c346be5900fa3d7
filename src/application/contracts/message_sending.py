"""The contract of the MessageSender port."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import uuid4

from attrs import evolve, frozen

from application.contracts.subject import a_session
from application.event_contract import message_of
from application.ports.message_sending import Failure, MessageSender, Shipment, Undelivered
from application.ports.outbox import OutboxMessage
from domain.closing import SessionEnded

WAIT_SECONDS: Final = 0.5
AT_ONCE_WAITS: Final = 6
"""Far fewer than the delivery limit has."""


@frozen(kw_only=True)
class ArrivedRecord:
    """An event as a consumer sees it."""

    topic: str
    key: bytes
    value: bytes
    headers: Mapping[str, bytes]


class SenderSubject(Protocol):
    """A sender, and the broker behind it, which is there and has topics of this test alone."""

    @property
    def sender(self) -> MessageSender:
        """The sender."""

    @property
    def topic(self) -> str:
        """A topic that takes events."""

    @property
    def missing_topic(self) -> str:
        """The name of a topic that is not there."""

    def make_missing_topic(self) -> None:
        """Makes that topic."""

    def refused(self, message: OutboxMessage) -> OutboxMessage:
        """Makes of an event one that the broker refuses."""

    def stop_broker(self) -> None:
        """Takes the broker away."""

    def start_broker(self) -> None:
        """Brings it back, with the topics that it had; it may have lost what had arrived."""

    def arrived(self, topic: str) -> Sequence[ArrivedRecord]:
        """What the broker has of a topic."""


def event_of(topic: str, *, trace_parent: str | None = None) -> OutboxMessage:
    """An event that occurred at a moment that is easy to get wrong: its microseconds end in zeros."""
    occurred_at = datetime(2026, 3, 1, 9, 0, 0, 120_000, tzinfo=UTC)
    ended = SessionEnded(session=a_session(occurred_at).close(occurred_at), ended_at=occurred_at)
    message = message_of(ended, message_id=uuid4(), correlation_id=uuid4(), trace_parent=trace_parent)
    return evolve(message, topic=topic)


class MessageSendingContract:
    """Whatever is sent is known to have arrived, or not, or not known, once and in time."""

    subject: SenderSubject
    """New for each test; the adapter's tests set it."""

    @property
    def sender(self) -> MessageSender:
        """The sender that is put to the test."""
        return self.subject.sender

    def events(self, count: int) -> list[OutboxMessage]:
        """So many events for the topic that takes them."""
        return [event_of(self.subject.topic) for _ in range(count)]

    def conclude(self, shipment: Shipment, sent: Sequence[OutboxMessage], *, waits: int | None = None) -> Shipment:
        """Waits until all is known, within the delivery limit, and answers each event's outcome being there once."""
        limit = self.sender.delivery_limit.total_seconds()
        for _ in range(int(limit / WAIT_SECONDS) + 1 if waits is None else waits):
            if shipment.wait(WAIT_SECONDS):
                break
        else:
            raise AssertionError("it is not known in time what has arrived")
        known = [*shipment.delivered, *(one.message.id for one in shipment.undelivered)]
        assert sorted(known) == sorted(one.id for one in sent)
        return shipment

    def send(self, messages: Sequence[OutboxMessage]) -> Shipment:
        """Sends, and waits until all is known."""
        return self.conclude(self.sender.send(messages), messages)

    def assert_delivered(self, shipment: Shipment, messages: Sequence[OutboxMessage]) -> None:
        """These have arrived, and nothing else was sent."""
        assert not shipment.undelivered
        assert set(shipment.delivered) == {one.id for one in messages}

    def assert_unknown(self, shipment: Shipment, messages: Sequence[OutboxMessage]) -> None:
        """Of none of these, and of nothing else, it is known what has become."""
        assert not shipment.delivered
        assert {one.message.id for one in shipment.undelivered} == {one.id for one in messages}
        assert {one.failure for one in shipment.undelivered} == {Failure.UNKNOWN}

    def arrived_ids(self, topic: str) -> list[bytes]:
        """The ids of the events that the broker has of a topic."""
        return sorted(record.headers["event-id"] for record in self.subject.arrived(topic))

    def test_what_arrives_is_what_was_sent(self) -> None:
        """The key is the aggregate's id, the value the payload, byte by byte, and the headers are in full (D-11)."""
        text = '{"viewSource":"каталог \U0001f3e0","userId":null,"count":123456789012345678901234567890}'
        message = evolve(event_of(self.subject.topic), payload=text)
        self.assert_delivered(self.send([message]), [message])
        [record] = self.subject.arrived(self.subject.topic)
        assert record.topic == message.topic
        assert record.key == str(message.aggregate_id).encode()
        assert record.value == text.encode()
        assert record.headers == {
            "event-id": str(message.id).encode(),
            "event-type": b"SessionEndedKafkaEvent",
            "contract-version": b"1",
            "correlation-id": str(message.correlation_id).encode(),
            "occurred-at": b"2026-03-01T09:00:00.120000Z",
            "content-type": b"application/json",
        }

    def test_the_trace_goes_along(self) -> None:
        """Where a trace was being recorded its context is a header, too (D-11)."""
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        message = event_of(self.subject.topic, trace_parent=parent)
        self.assert_delivered(self.send([message]), [message])
        [record] = self.subject.arrived(self.subject.topic)
        assert record.headers["traceparent"] == parent.encode()
        assert len(record.headers) == 7

    def test_nothing_to_send_is_known_at_once(self) -> None:
        """A shipment of nothing has nothing to wait for."""
        shipment = self.send([])
        assert shipment.wait(0)
        assert not shipment.delivered
        assert not shipment.undelivered

    def test_everything_of_a_large_shipment_arrives(self) -> None:
        """A full batch of the publisher goes in one shipment, and each event arrives once."""
        messages = self.events(1_000)
        self.assert_delivered(self.send(messages), messages)
        assert self.arrived_ids(self.subject.topic) == sorted(str(one.id).encode() for one in messages)

    def test_several_shipments_are_under_way_at_once(self) -> None:
        """Each knows its own events, in whatever order they are waited for."""
        batches = [self.events(10) for _ in range(3)]
        shipments = [self.sender.send(batch) for batch in batches]
        for shipment, batch in reversed(list(zip(shipments, batches, strict=True))):
            self.assert_delivered(self.conclude(shipment, batch), batch)

    def test_an_event_that_is_refused_fails_alone(self) -> None:
        """What a broker does not take as it is costs nothing but itself (BR-10)."""
        first, second, third = self.events(3)
        second = self.subject.refused(second)
        shipment = self.send([first, second, third])
        assert set(shipment.delivered) == {first.id, third.id}
        [undelivered] = shipment.undelivered
        assert (undelivered.message, undelivered.failure) == (second, Failure.REFUSED)
        self.assert_bounded([undelivered])

    def test_a_missing_topic_fails_its_own_events_at_once(self) -> None:
        """Its events do not wait for it, and no others do (specification §10: a held topic)."""
        present = self.events(5)
        missing = [event_of(self.subject.missing_topic) for _ in range(5)]
        mixed = [one for pair in zip(missing, present, strict=True) for one in pair]
        shipment = self.conclude(self.sender.send(mixed), mixed, waits=AT_ONCE_WAITS)
        assert set(shipment.delivered) == {one.id for one in present}
        assert {one.failure for one in shipment.undelivered} == {Failure.TOPIC_UNAVAILABLE}
        self.assert_bounded(shipment.undelivered)

    def test_events_flow_when_their_topic_has_come(self) -> None:
        """A topic that was found missing is looked for again."""
        message = event_of(self.subject.missing_topic)
        for _ in range(2):
            [undelivered] = self.send([message]).undelivered
            assert undelivered.failure is Failure.TOPIC_UNAVAILABLE
        self.subject.make_missing_topic()
        self.assert_delivered(self.send([message]), [message])
        assert self.arrived_ids(self.subject.missing_topic) == [str(message.id).encode()]

    def test_nothing_is_delivered_without_a_broker(self) -> None:
        """That an event has arrived is the broker's word alone: without one nothing is known, and that in time."""
        self.subject.stop_broker()
        batches = [self.events(3), self.events(3)]
        shipments = [self.sender.send(batch) for batch in batches]
        assert not shipments[0].wait(0)
        assert not shipments[0].delivered
        for shipment, batch in zip(shipments, batches, strict=True):
            self.assert_unknown(self.conclude(shipment, batch), batch)
            self.assert_bounded(shipment.undelivered)

    def test_a_broker_that_goes_away_is_found_out(self) -> None:
        """A sender that has delivered before claims nothing of what it sends once its broker has gone."""
        before, after = self.events(3), self.events(3)
        self.assert_delivered(self.send(before), before)
        self.subject.stop_broker()
        self.assert_unknown(self.send(after), after)

    def test_the_same_sender_works_after_an_outage(self) -> None:
        """Nobody has to start anything again when the broker is back, whatever it has forgotten."""
        before, lost, after = self.events(3), self.events(3), self.events(3)
        self.assert_delivered(self.send(before), before)
        self.subject.stop_broker()
        self.assert_unknown(self.send(lost), lost)
        self.subject.start_broker()
        self.assert_delivered(self.send(lost), lost)
        self.assert_delivered(self.send(after), after)
        assert {str(one.id).encode() for one in (*lost, *after)} <= set(self.arrived_ids(self.subject.topic))

    def test_a_shipment_can_be_abandoned_at_once(self) -> None:
        """At the end nobody waits for a broker: what was under way is unknown from then on."""
        self.subject.stop_broker()
        messages = self.events(3)
        shipment = self.sender.send(messages)
        shipment.abandon()
        self.assert_unknown(self.conclude(shipment, messages, waits=1), messages)
        self.subject.start_broker()
        shipment.wait(WAIT_SECONDS)
        self.assert_unknown(shipment, messages)

    def test_who_has_arrived_is_not_abandoned(self) -> None:
        """Abandoning changes nothing of what is known already."""
        messages = self.events(3)
        shipment = self.send(messages)
        shipment.abandon()
        self.assert_delivered(self.conclude(shipment, messages, waits=1), messages)

    def test_a_sender_works_on_after_a_shipment_was_abandoned(self) -> None:
        """Giving up one shipment is no end of the others."""
        self.subject.stop_broker()
        self.sender.send(self.events(3)).abandon()
        self.subject.start_broker()
        messages = self.events(3)
        self.assert_delivered(self.send(messages), messages)

    def test_no_text_shows_a_payload(self) -> None:
        """Payloads hold personal data: neither a shipment nor an outcome shows any of it."""
        refused, missing = self.subject.refused(self.events(1)[0]), event_of(self.subject.missing_topic)
        shipment = self.send([refused, missing])
        assert len(shipment.undelivered) == 2
        texts = [repr(shipment), repr(shipment.undelivered), *(one.cause for one in shipment.undelivered)]
        for text in texts:
            assert refused.payload[:100] not in text
            assert missing.payload[:100] not in text

    def assert_bounded(self, undelivered: Sequence[Undelivered]) -> None:
        """Causes are names from a bounded set, fit for logs and metrics."""
        for one in undelivered:
            assert re.fullmatch(r"[a-z][a-z0-9_]{2,60}", one.cause), one.cause

"""Senders that give up soon, and events for them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from adapters.kafka import KafkaSender
from application.contracts.message_sending import event_of
from application.ports.message_sending import Failure, Shipment
from application.ports.outbox import OutboxMessage

MESSAGE_TIMEOUT_SECONDS = 5.0
DEADLINE_SECONDS = 30.0
PROMPT_SECONDS = 1.5
"""For what has to be known without a time-out, on a busy machine."""
AT_ONCE_SECONDS = 0.9
"""For what waits for nothing at all."""


@contextmanager
def sender_to(bootstrap_servers: str, **properties: str) -> Iterator[KafkaSender]:
    """Yield a sender, with further properties whose names are written with `_` for `.`, and close it."""
    given = {"message.timeout.ms": str(int(MESSAGE_TIMEOUT_SECONDS * 1000)), "bootstrap.servers": bootstrap_servers}
    sender = KafkaSender(given | {name.replace("_", "."): value for name, value in properties.items()})
    try:
        yield sender
    finally:
        sender.close()


def events_for(topic: str, count: int) -> list[OutboxMessage]:
    return [event_of(topic) for _ in range(count)]


def conclude(shipment: Shipment) -> Shipment:
    """Wait until all is known of it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not shipment.wait(0.1):
        assert time.monotonic() < deadline, "it is not known what has arrived"
    return shipment


def deliver(sender: KafkaSender, messages: Sequence[OutboxMessage]) -> None:
    """Send, and see that all of it arrives."""
    shipment = conclude(sender.send(messages))
    assert not shipment.undelivered
    assert set(shipment.delivered) == {one.id for one in messages}


def outcomes_of(shipment: Shipment) -> set[tuple[Failure, str]]:
    """What has become of the events that did not arrive."""
    return {(one.failure, one.cause) for one in shipment.undelivered}


def ids_of(shipment: Shipment) -> list[str]:
    """All its events, in order, each as often as it is accounted for."""
    return sorted(str(one) for one in (*shipment.delivered, *(one.message.id for one in shipment.undelivered)))

"""The sender to Kafka."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import monotonic
from types import MappingProxyType
from typing import Final

from adapters.kafka.client import Client
from adapters.kafka.properties import completed, message_timeout_of
from adapters.kafka.shipment import KafkaShipment
from application.ports.outbox import OutboxMessage

_MARGIN: Final = timedelta(seconds=5)
"""How much later than its time an event's delivery report may come."""


class KafkaSender:
    """Sends by one idempotent producer of librdkafka, and makes a new one where that one does not come back by itself.

    An event's outcome is its delivery report, and nothing else. `message.timeout.ms` of the properties bounds how long
    an event is tried. No broker needs to be there when the sender is made. By default librdkafka's own log goes
    nowhere (the publisher says that the broker is away, with the cause); whoever sets `log_level` or `debug` gets it on
    stderr. Not safe to use from several threads.

    Raises PropertyRefused for a property that librdkafka does not take, or that would break the promise.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = completed(properties)
        self._clients: list[Client] = []
        """All that may hold something yet; the doubtful ones end with their last shipments."""
        self._client = self._new_client()
        if self._client.refusal is not None:
            raise self._client.refusal
        self._alone: Client | None = None
        self._message_timeout = message_timeout_of(self._properties)

    @property
    def delivery_limit(self) -> timedelta:
        return self._message_timeout + _MARGIN

    def send(self, messages: Sequence[OutboxMessage]) -> KafkaShipment:
        if not self._client.is_usable:
            self._client = self._new_client()
        now = monotonic()
        shipment = KafkaShipment(
            self._client,
            messages,
            alone=self._client_of_single_messages,
            hands_over_until=now + self._message_timeout.total_seconds(),
            gives_up_at=now + self.delivery_limit.total_seconds(),
        )
        shipment.begin()
        return shipment

    def close(self) -> None:
        for client in self._clients:
            client.end("closed")

    def _client_of_single_messages(self) -> Client:
        """Made when a broker refuses a batch, which is rare."""
        if self._alone is None or not self._alone.is_usable:
            self._alone = self._new_client({"batch.num.messages": "1"})
        return self._alone

    def _new_client(self, further_properties: Mapping[str, str] = MappingProxyType({})) -> Client:
        client = Client({**self._properties, **further_properties})
        self._clients = [*(one for one in self._clients if one.end_cause is None), client]
        return client

"""Publishers over an outbox and a broker in memory, on which things happen, and what was seen of their rounds."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.message_sending import InMemoryBroker, InMemorySender, InMemoryShipment
from adapters.in_memory.observation import RecordingPublishObservation
from adapters.in_memory.store import InMemoryActivityStore, InMemoryOutboxStore
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork
from application.contracts.closer import StopAfter
from application.contracts.deliveries import a_message
from application.options import PublisherOptions
from application.ports.cancellation import Cancellation
from application.ports.deliveries import Held, Lease, PendingMessage, Refused, UnreadableMessage
from application.ports.outbox import OutboxMessage
from application.ports.outbox_upkeep import OutboxStatus, OutboxUpkeep
from application.ports.store_errors import StoreError
from application.publish_outbox import PublishOutboxUseCase

Hook = Callable[[str, Collection[UUID]], None]
"""Called before each step of a transaction with the events that it is about; what it raises comes out of the step.

The steps: begin, lease, record_delivered, record_refused, release, commit.
"""


class PublishingScene:
    """An outbox, a broker, and as many publishers as one likes; no transaction may be open while something is sent."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.store = InMemoryActivityStore(clock=self.clock)
        self.broker = InMemoryBroker()
        self.observation = RecordingPublishObservation()
        self.identifiers = CountingIdentifiers()
        self.hook: Hook = lambda _step, _ids: None
        self.unreadable: set[UUID] = set()
        """Events whose values cannot be loaded."""
        self.removal_error: StoreError | None = None
        self.open_transactions = 0
        self.sent_at_once_max = 0

    def publisher(self, *, cancellation: Cancellation | None = None, **options: object) -> PublishOutboxUseCase:
        return PublishOutboxUseCase(
            store=_WatchedStore(self),
            sender=_WatchedSender(self),
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=cancellation or StopAfter(None),
            options=PublisherOptions(**options),  # type: ignore[arg-type] # a test names any option
        )

    def append(self, count: int, *, topic: str | None = None) -> list[OutboxMessage]:
        """Commits so many events."""
        messages = [a_message(self.clock.read(), topic=topic) for _ in range(count)]
        with self.store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()
        return messages

    def status(self) -> OutboxStatus:
        with self.store.outbox_store().begin() as unit_of_work:
            return unit_of_work.upkeep.status()

    def arrivals(self) -> Counter[UUID]:
        """How often each event has arrived."""
        return Counter(message.id for message in self.broker.arrived)

    def pass_time(self, **by: float) -> None:
        self.clock.move(timedelta(**by))


class _WatchedStore:
    def __init__(self, scene: PublishingScene) -> None:
        self._scene = scene
        self._store: InMemoryOutboxStore = scene.store.outbox_store()
        self.clock = scene.clock

    def begin(self) -> "_WatchedUnitOfWork":
        return _WatchedUnitOfWork(self._scene, self._store.begin())

    def close(self) -> None:
        self._store.close()


class _WatchedUnitOfWork:
    def __init__(self, scene: PublishingScene, unit_of_work: InMemoryOutboxUnitOfWork) -> None:
        self._scene = scene
        self._unit_of_work = unit_of_work
        self._upkeep = unit_of_work.upkeep
        self.deliveries = _WatchedDeliveries(scene, unit_of_work)

    @property
    def upkeep(self) -> OutboxUpkeep:
        if self._scene.removal_error is not None:
            raise self._scene.removal_error
        return self._upkeep

    def commit(self) -> None:
        self._scene.hook("commit", ())
        self._unit_of_work.commit()

    def __enter__(self) -> Self:
        self._scene.hook("begin", ())
        self._unit_of_work.__enter__()
        self._scene.open_transactions += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scene.open_transactions -= 1
        self._unit_of_work.__exit__(kind, error, traceback)


class _WatchedDeliveries:
    def __init__(self, scene: PublishingScene, unit_of_work: InMemoryOutboxUnitOfWork) -> None:
        self._scene = scene
        self._deliveries = unit_of_work.deliveries

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage | UnreadableMessage]:
        self._scene.hook("lease", ())
        return [
            UnreadableMessage(id=one.message.id, refusals=one.refusals)
            if one.message.id in self._scene.unreadable
            else one
            for one in self._deliveries.lease(lease, limit=limit, held=held)
        ]

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        self._scene.hook("record_delivered", message_ids)
        self._deliveries.record_delivered(message_ids, at)

    def record_refused(self, refused: Sequence[Refused], at: datetime) -> None:
        self._scene.hook("record_refused", [one.message_id for one in refused])
        self._deliveries.record_refused(refused, at)

    def release(self, lease: Lease) -> None:
        self._scene.hook("release", ())
        self._deliveries.release(lease)

    def count_due(self, now: datetime) -> int:
        return self._deliveries.count_due(now)


class _WatchedSender:
    def __init__(self, scene: PublishingScene) -> None:
        self._scene = scene
        self._sender = InMemorySender(scene.broker, scene.clock)
        self.delivery_limit = self._sender.delivery_limit
        self.under_way: list[_WatchedShipment] = []

    def send(self, messages: Sequence[OutboxMessage]) -> "_WatchedShipment":
        assert not self._scene.open_transactions, "something is sent while a transaction is open"
        self.under_way = [one for one in self.under_way if not one.is_over]
        shipment = _WatchedShipment(self._scene, self._sender.send(messages), len(messages))
        self.under_way.append(shipment)
        at_once = sum(one.size for one in self.under_way)
        self._scene.sent_at_once_max = max(self._scene.sent_at_once_max, at_once)
        return shipment

    def close(self) -> None:
        self._sender.close()


class _WatchedShipment:
    def __init__(self, scene: PublishingScene, shipment: InMemoryShipment, size: int) -> None:
        self._scene = scene
        self._shipment = shipment
        self.size = size
        self.is_over = False
        self.delivered = shipment.delivered
        self.undelivered = shipment.undelivered

    def wait(self, seconds: float) -> bool:
        assert not self._scene.open_transactions, "a broker is waited for while a transaction is open"
        self.is_over = self._shipment.wait(seconds)
        return self.is_over

    def abandon(self) -> None:
        self._shipment.abandon()
        self.is_over = True

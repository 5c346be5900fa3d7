"""Events on their way out of the outbox in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import evolve

from adapters.in_memory.tables import Delivery
from adapters.in_memory.transaction import Transaction
from application.ports.deliveries import Held, Lease, PendingMessage, Refused


class InMemoryDeliveries:
    """Leases single events."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        leased: list[PendingMessage] = []
        with self._transaction.statement():
            for message in self._transaction.messages():
                if len(leased) == limit:
                    break
                delivery = self._transaction.delivery(message.id)
                is_held = message.topic in held.topics or message.id in held.event_ids
                if (
                    not is_held
                    and delivery.is_due(lease.begins)
                    and not delivery.is_leased(lease.begins)
                    and self._transaction.try_lock(message.id)
                ):
                    self._change(message.id, evolve(delivery, lease_id=lease.id, lease_ends=lease.ends))
                    leased.append(PendingMessage(message=message, refusals=delivery.refusals))
        return leased

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        with self._transaction.statement():
            for message_id in self._transaction.lock_events(
                message_ids, lambda delivery: delivery.published_at is None
            ):
                delivery = self._transaction.delivery(message_id)
                self._change(message_id, evolve(delivery, published_at=at, dead_at=None))

    def record_refused(self, refused: Sequence[Refused], at: datetime) -> None:
        refused_by_id = {one.message_id: one for one in refused}
        with self._transaction.statement():
            for message_id in self._transaction.lock_events(list(refused_by_id), lambda delivery: delivery.is_pending):
                one = refused_by_id[message_id]
                changed = evolve(
                    self._transaction.delivery(message_id),
                    refusals=one.refusals,
                    cause=one.cause,
                    next_attempt_at=one.next_attempt_at,
                    dead_at=None if one.next_attempt_at else at,
                )
                self._change(message_id, changed)

    def release(self, lease: Lease) -> None:
        with self._transaction.statement():
            every = [message.id for message in self._transaction.messages()]
            for message_id in self._transaction.lock_events(every, lambda delivery: delivery.lease_id == lease.id):
                self._change(message_id, evolve(self._transaction.delivery(message_id), lease_id=None, lease_ends=None))

    def count_due(self, now: datetime) -> int:
        with self._transaction.statement():
            return sum(self._transaction.delivery(one.id).is_due(now) for one in self._transaction.messages())

    def _change(self, message_id: UUID, delivery: Delivery) -> None:
        self._transaction.changed_deliveries[message_id] = delivery

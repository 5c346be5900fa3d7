"""The outbox in memory as its operator sees it."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from uuid import UUID

from adapters.in_memory.tables import Delivery
from adapters.in_memory.transaction import Transaction
from application.ports.outbox import OutboxMessage
from application.ports.outbox_upkeep import DeadMessage, OutboxStatus


class InMemoryOutboxUpkeep:
    """Looks at every event."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def status(self) -> OutboxStatus:
        with self._transaction.statement():
            events = [(one, self._transaction.delivery(one.id)) for one in self._transaction.messages()]
        pending = [(message, delivery) for message, delivery in events if delivery.is_pending]
        return OutboxStatus(
            pending=len(pending),
            waiting=sum(delivery.next_attempt_at is not None for _, delivery in pending),
            oldest_pending_at=min((message.occurred_at for message, _ in pending), default=None),
            dead=Counter(delivery.cause or "" for _, delivery in events if delivery.dead_at),
        )

    def dead(self, after: UUID | None, limit: int) -> Sequence[DeadMessage]:
        return [one for one in self._dead() if after is None or one.message.id > after][:limit]

    def find_dead(self, message_id: UUID) -> DeadMessage | None:
        return next((one for one in self._dead() if one.message.id == message_id), None)

    def retry(self, message_ids: Sequence[UUID]) -> int:
        with self._transaction.statement():
            retried = self._lock_dead(message_ids)
            for message_id in retried:
                delivery = self._transaction.delivery(message_id)
                as_new = Delivery(lease_id=delivery.lease_id, lease_ends=delivery.lease_ends)
                self._transaction.changed_deliveries[message_id] = as_new
        return len(retried)

    def discard(self, message_ids: Sequence[UUID]) -> int:
        with self._transaction.statement():
            discarded = self._lock_dead(message_ids)
            self._transaction.removed_messages.update(discarded)
        return len(discarded)

    def remove_published(self, before: datetime, limit: int) -> int:
        return self._remove(
            lambda _, delivery: delivery.published_at is not None and delivery.published_at < before, limit
        )

    def remove_occurred(self, before: datetime, limit: int) -> int:
        return self._remove(lambda message, _: message.occurred_at < before, limit)

    def _dead(self) -> list[DeadMessage]:
        with self._transaction.statement():
            events = [(one, self._transaction.delivery(one.id)) for one in self._transaction.messages()]
        return [
            DeadMessage(
                message=message, refusals=delivery.refusals, cause=delivery.cause or "", dead_at=delivery.dead_at
            )
            for message, delivery in events
            if delivery.dead_at is not None
        ]

    def _lock_dead(self, message_ids: Sequence[UUID]) -> list[UUID]:
        return self._transaction.lock_events(message_ids, lambda delivery: delivery.dead_at is not None)

    def _remove(self, is_removed: Callable[[OutboxMessage, Delivery], bool], limit: int) -> int:
        """Removes those that nobody else has in hand."""
        with self._transaction.statement():
            found = (one for one in self._transaction.messages() if is_removed(one, self._transaction.delivery(one.id)))
            removed = list(islice((one.id for one in found if self._transaction.try_lock(one.id)), limit))
            self._transaction.removed_messages.update(removed)
        return len(removed)

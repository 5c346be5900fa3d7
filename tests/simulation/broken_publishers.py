"""Outboxes and senders that are wrong on purpose, each in one way; the state machine has to find every one of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID
from weakref import WeakKeyDictionary

from attrs import evolve

from adapters.in_memory.deliveries import InMemoryDeliveries
from adapters.in_memory.tables import Delivery, Tables
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork
from application.ports.deliveries import Held, Lease, PendingMessage
from application.ports.message_sending import Failure, Undelivered
from application.ports.outbox import OutboxMessage
from tests.simulation.stepping_sender import SteppingSender, SteppingShipment
from tests.simulation.stepping_store import OutboxRoles
from tests.simulation.system import System

FOREVER: Final = timedelta(days=36_500)


class IgnoresLeases(InMemoryDeliveries):
    """Reads what is pending as if nobody else did."""

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        with self._transaction.statement():
            found = [(one, self._transaction.delivery(one.id)) for one in self._transaction.messages()]
            due = [(message, delivery) for message, delivery in found if delivery.is_due(lease.begins)][:limit]
            for message, delivery in due:
                if self._transaction.try_lock(message.id):
                    self._change(message.id, evolve(delivery, lease_id=lease.id, lease_ends=lease.ends))
        return [PendingMessage(message=message, refusals=delivery.refusals) for message, delivery in due]


class ReadsBeforeItLeases(InMemoryDeliveries):
    """Takes what was pending when it asked for the lease: one statement for both."""

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        with self._transaction.statement():
            found = [(one, self._transaction.delivery(one.id)) for one in self._transaction.messages()]
        due = [(message, delivery) for message, delivery in found if delivery.is_due(lease.begins)]
        with self._transaction.statement():
            leased = [(message, delivery) for message, delivery in due[:limit] if self._take(message.id, lease)]
        return [PendingMessage(message=message, refusals=delivery.refusals) for message, delivery in leased]

    def _take(self, message_id: UUID, lease: Lease) -> bool:
        delivery = self._transaction.delivery(message_id)
        if delivery.is_leased(lease.begins) or not self._transaction.try_lock(message_id):
            return False
        self._change(message_id, evolve(delivery, lease_id=lease.id, lease_ends=lease.ends))
        return True


class NeverEndsALease(InMemoryDeliveries):
    """What a publisher that died had leased is nobody's for ever."""

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        return super().lease(evolve(lease, ends=lease.ends + FOREVER), limit=limit, held=held)


class EndsTheLeasesOfOthers(InMemoryDeliveries):
    """Releases what it leased once, whoever has it now."""

    def release(self, lease: Lease) -> None:
        with self._transaction.statement():
            for message in self._transaction.messages():
                if self._transaction.try_lock(message.id):
                    delivery = self._transaction.delivery(message.id)
                    self._change(message.id, evolve(delivery, lease_id=None, lease_ends=None))


class TriesTheDead(InMemoryDeliveries):
    """Sets an event aside and takes it up again."""

    def _change(self, message_id: UUID, delivery: Delivery) -> None:
        super()._change(message_id, evolve(delivery, dead_at=None, next_attempt_at=None))


class RecordsALittleMore(InMemoryDeliveries):
    """Records everything that it was given as delivered, what did not arrive included."""

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        leased = [one for one in self._transaction.messages() if self._transaction.delivery(one.id).lease_id]
        super().record_delivered([*message_ids, *(one.id for one in leased if one.id not in message_ids)], at)


class RemembersAHighWaterMark(InMemoryDeliveries):
    """Reads on from the highest id that was ever leased: what is committed late, or given back, is passed over."""

    _marks: ClassVar = WeakKeyDictionary[Tables, UUID]()

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        mark = self._marks.get(self._transaction._tables, UUID(int=0))
        passed = {one.id for one in self._transaction.messages() if one.id <= mark}
        pending = super().lease(lease, limit=limit, held=Held(topics=held.topics, event_ids=frozenset(passed)))
        self._marks[self._transaction._tables] = max([mark, *(one.message.id for one in pending)])
        return pending


def _with(wrong: type[InMemoryDeliveries]) -> OutboxRoles:
    def roles(transaction: Transaction) -> InMemoryOutboxUnitOfWork:
        unit_of_work = InMemoryOutboxUnitOfWork(transaction)
        unit_of_work.deliveries = wrong(transaction)
        return unit_of_work

    return roles


class BelievesInSending(SteppingSender):
    """Takes what was handed over for delivered."""

    def send(self, messages: Sequence[OutboxMessage]) -> SteppingShipment:
        return BelievedShipment(self._turns, self._broker, self._clock, messages)


class BelievedShipment(SteppingShipment):
    @property
    def delivered(self) -> Sequence[UUID]:
        unknown = [one for one in super().undelivered if one.failure is Failure.UNKNOWN]
        return [*super().delivered, *(one.message.id for one in unknown)]

    @property
    def undelivered(self) -> Sequence[Undelivered]:
        return [one for one in super().undelivered if one.failure is not Failure.UNKNOWN]


BROKEN_PUBLISHERS: Final[Mapping[str, System]] = {
    "ignores leases": System(outbox_roles=_with(IgnoresLeases)),
    "reads before it leases": System(outbox_roles=_with(ReadsBeforeItLeases)),
    "never ends a lease": System(outbox_roles=_with(NeverEndsALease)),
    "ends the leases of others": System(outbox_roles=_with(EndsTheLeasesOfOthers)),
    "tries the dead": System(outbox_roles=_with(TriesTheDead)),
    "records a little more": System(outbox_roles=_with(RecordsALittleMore)),
    "remembers a high-water mark": System(outbox_roles=_with(RemembersAHighWaterMark)),
    "believes in sending": System(sender=BelievesInSending),
}

"""A sender to a broker in memory, for which sending and waiting are steps of whoever does it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.message_sending import InMemoryBroker, InMemoryShipment
from application.ports.message_sending import Undelivered
from application.ports.outbox import OutboxMessage
from application.ports.store_errors import StoreError
from tests.simulation.turns import Call, Place, Turns


class SteppingSender:
    """Time passes for all at once or not at all, so a broker that is away is given up at the first wait."""

    delivery_limit: Final = timedelta(seconds=30)

    def __init__(self, turns: Turns, broker: InMemoryBroker, clock: SettableClock) -> None:
        self._turns = turns
        self._broker = broker
        self._clock = clock

    def send(self, messages: Sequence[OutboxMessage]) -> "SteppingShipment":
        shipment = SteppingShipment(self._turns, self._broker, self._clock, messages)
        self._turns.call(Call("sender", "send", (messages,)), shipment.pause)
        return shipment

    def close(self) -> None:
        pass


class SteppingShipment:
    """Arrives at some step between the sending and the end of the wait, or not at all."""

    def __init__(
        self, turns: Turns, broker: InMemoryBroker, clock: SettableClock, messages: Sequence[OutboxMessage]
    ) -> None:
        self._turns = turns
        self._shipment = InMemoryShipment(broker, clock, messages, gives_up_after=timedelta(0))

    @property
    def delivered(self) -> Sequence[UUID]:
        return self._shipment.delivered

    @property
    def undelivered(self) -> Sequence[Undelivered]:
        return self._shipment.undelivered

    def pause(self) -> None:
        """A step; what goes wrong in it is the network's fault, and a sender raises nothing."""
        try:
            self._turns.pause(Place.BROKER)
        except StoreError:
            self.abandon()

    def wait(self, _seconds: float) -> bool:
        return self._turns.call(Call("shipment", "wait"), self._wait)

    def _wait(self) -> bool:
        self.pause()
        is_over = self._shipment.wait(0)
        self.pause()  # arrived, and the publisher has not heard of it yet
        return is_over

    def abandon(self) -> None:
        self._shipment.abandon()


SenderKind = Callable[[Turns, InMemoryBroker, SettableClock], SteppingSender]

"""A broker in memory, and a sender to it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from application.ports.message_sending import Failure, Undelivered
from application.ports.outbox import OutboxMessage


class InMemoryBroker:
    """Keeps what arrives, and plays what may befall a broker: each attribute may be changed at any time."""

    def __init__(self) -> None:
        self.arrived: list[OutboxMessage] = []
        """In order; events that were sent twice are in it twice."""
        self.is_down = False
        self.loses_answers = False
        """Events arrive, and nobody hears of it."""
        self.missing_topics: set[str] = set()
        self.refuses: Callable[[OutboxMessage], bool] = lambda _: False


class InMemorySender:
    """Sends to a broker in memory. Waiting for a broker that is away lets the clock's time pass."""

    delivery_limit: Final = timedelta(seconds=30)

    def __init__(self, broker: InMemoryBroker, clock: SettableClock) -> None:
        self._broker = broker
        self._clock = clock

    def send(self, messages: Sequence[OutboxMessage]) -> "InMemoryShipment":
        return InMemoryShipment(self._broker, self._clock, messages, gives_up_after=self.delivery_limit)

    def close(self) -> None:
        pass


class InMemoryShipment:
    """Arrives when it is waited for."""

    def __init__(
        self,
        broker: InMemoryBroker,
        clock: SettableClock,
        messages: Sequence[OutboxMessage],
        *,
        gives_up_after: timedelta,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._under_way = list(messages)
        self._gives_up_at = clock.monotonic() + gives_up_after.total_seconds()
        self.delivered: list[UUID] = []
        self.undelivered: list[Undelivered] = []

    def wait(self, seconds: float) -> bool:
        if self._under_way and self._broker.is_down:
            self._clock.move(timedelta(seconds=seconds))
            if self._clock.monotonic() >= self._gives_up_at:
                self._give_up("msg_timed_out")
        else:
            for message in self._under_way:
                self._arrive(message)
            self._under_way.clear()
        return not self._under_way

    def abandon(self) -> None:
        self._give_up("abandoned")

    def _give_up(self, cause: str) -> None:
        self.undelivered += [
            Undelivered(message=message, failure=Failure.UNKNOWN, cause=cause) for message in self._under_way
        ]
        self._under_way.clear()

    def _arrive(self, message: OutboxMessage) -> None:
        if message.topic in self._broker.missing_topics:
            failure, cause = Failure.TOPIC_UNAVAILABLE, "unknown_topic"
        elif self._broker.refuses(message):
            failure, cause = Failure.REFUSED, "msg_size_too_large"
        else:
            self._broker.arrived.append(message)
            if not self._broker.loses_answers:
                self.delivered.append(message.id)
                return
            failure, cause = Failure.UNKNOWN, "msg_timed_out"
        self.undelivered.append(Undelivered(message=message, failure=failure, cause=cause))

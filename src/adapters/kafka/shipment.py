"""Events under way to Kafka."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Final
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Message

from adapters.kafka.client import Client, Obstacle
from adapters.kafka.failures import OF_A_BATCH, cause_of, failure_of
from application.event_contract import headers_of, key_of
from application.ports.message_sending import Failure, Undelivered
from application.ports.outbox import OutboxMessage

_POLL_SECONDS_MAX: Final = 0.1
"""How often it looks, where no reports come, whether time has run out, or more can be handed over."""
_QUESTION_SECONDS_MIN: Final = 0.25
"""What a broker that is there needs to answer; a wait may take so much longer."""
_QUESTION_SECONDS_MAX: Final = 1.0

Report = Callable[[OutboxMessage, KafkaError | None, Message], None]
Failed = tuple[OutboxMessage, KafkaError]


class KafkaShipment:
    """Events that are handed over to a client, as far as it takes them, and whose delivery reports are collected.

    What it could not hand over yet, because the client's queue is full (BR-26) or no broker has said yet whether the
    topic is there, it hands over while it is waited for. A broker refuses whole batches: what it refused together is
    sent again, each in a batch of its own, to find the one that is to blame. Giving up touches nothing of other
    shipments: reports that come later are ignored.
    """

    def __init__(
        self,
        client: Client,
        messages: Sequence[OutboxMessage],
        *,
        alone: Callable[[], Client],
        hands_over_until: float,
        gives_up_at: float,
    ) -> None:
        self._client = client
        self._messages = messages
        self._alone = alone
        """Gives a client that puts each message into a batch of its own."""
        self._is_alone = False
        self._hands_over_until = hands_over_until
        self._gives_up_at = gives_up_at
        self._outgoing = messages
        self._position = 0
        """Where the rest begins that has to be handed over."""
        self._obstacles: dict[str, Obstacle] = {}
        self._delivered: list[UUID] = []
        self._failed: list[Failed] = []
        """Noted, and not judged yet."""
        self._suspects: list[OutboxMessage] = []
        self._undelivered: list[Undelivered] = []
        self._note = _noting(self._delivered, self._failed)
        self._is_over = False
        client.join()

    @property
    def delivered(self) -> Sequence[UUID]:
        return self._delivered

    @property
    def undelivered(self) -> Sequence[Undelivered]:
        return self._undelivered

    def begin(self) -> None:
        """Hands over what can be handed over; blocks for a moment where topics have to be asked for."""
        # Once is enough where nobody answers: a wait goes on with it.
        self._advance(_QUESTION_SECONDS_MAX if self._client.has_answer else 0.0)

    def wait(self, seconds: float) -> bool:
        ends_at = monotonic() + seconds
        self._client.poll(0.0)
        while True:
            remaining = ends_at - monotonic()
            self._advance(min(max(remaining, _QUESTION_SECONDS_MIN), _QUESTION_SECONDS_MAX))
            remaining = ends_at - monotonic()
            if self._is_over or remaining <= 0:
                return self._is_over
            self._client.poll(min(remaining, _POLL_SECONDS_MAX))

    def abandon(self) -> None:
        """What was handed over to librdkafka may still arrive, until the sender is closed."""
        self._end("abandoned")

    def _advance(self, question_seconds: float) -> None:
        """Does what can be done by now."""
        if self._is_over:
            return
        self._judge_failed()
        if self._client.end_cause is not None:
            self._end(self._client.end_cause)
            return
        now = monotonic()
        if self._position < len(self._outgoing) and now < self._hands_over_until:
            self._hand_over(question_seconds)
        if len(self._delivered) + len(self._undelivered) + len(self._suspects) == len(self._messages):
            self._conclude()
        elif now >= (self._gives_up_at if self._position == len(self._outgoing) else self._hands_over_until):
            self._client.is_doubtful = True
            self._end(self._client.cause_of_silence("msg_timed_out"))

    def _hand_over(self, question_seconds: float) -> None:
        note, produce, ready_topics = self._note, self._client.produce, self._client.ready_topics
        position = self._position
        for message in self._outgoing[position:]:
            topic = message.topic
            if topic not in ready_topics and (obstacle := self._obstacle_of(topic, question_seconds)):
                if obstacle.failure is Failure.UNKNOWN:
                    break
                self._settle(message, obstacle.failure, obstacle.cause)
            else:
                try:
                    produce(
                        topic,
                        message.payload,
                        key_of(message),
                        -1,
                        partial(note, message),
                        None,
                        0,
                        headers_of(message),
                    )
                except BufferError:
                    break
                except KafkaException as raised:
                    error: KafkaError = raised.args[0]
                    if error.code() == KafkaError._FATAL:
                        break  # the next poll tells which, and ends the client
                    self._settle(message, failure_of(error), cause_of(error))
                except ValueError:  # of a text that UTF-8 cannot express
                    self._settle(message, Failure.REFUSED, "not_encodable")
            position += 1
        self._position = position

    def _obstacle_of(self, topic: str, question_seconds: float) -> Obstacle | None:
        obstacle = self._obstacles.get(topic)
        if obstacle is None:
            if not question_seconds:
                return Obstacle(Failure.UNKNOWN, "not_asked")
            obstacle = self._client.obstacle_of(topic, question_seconds)
            if obstacle is not None and obstacle.failure is not Failure.UNKNOWN:
                self._obstacles[topic] = obstacle
        return obstacle

    def _judge_failed(self) -> None:
        """Judges what was reported as failed."""
        for message, error in self._failed:
            if error.code() in OF_A_BATCH and not self._is_alone:
                self._suspects.append(message)
            else:
                failure, cause = failure_of(error), cause_of(error)
                if failure is Failure.UNKNOWN and self._client.end_cause is not None:
                    cause = self._client.end_cause
                elif error.code() == KafkaError._MSG_TIMED_OUT:
                    cause = self._client.cause_of_silence(cause)
                self._settle(message, failure, cause)
        self._failed.clear()

    def _settle(self, message: OutboxMessage, failure: Failure, cause: str) -> None:
        if failure is Failure.UNKNOWN:
            self._client.is_doubtful = True
        elif failure is Failure.TOPIC_UNAVAILABLE:
            self._client.ready_topics.discard(message.topic)
        self._undelivered.append(Undelivered(message=message, failure=failure, cause=cause))

    def _conclude(self) -> None:
        """Everything has been reported."""
        if self._delivered:
            self._client.forget_trouble()
        if not self._suspects:
            self._leave()
            return
        self._client.leave()
        self._client, self._is_alone = self._alone(), True
        self._client.join()
        self._outgoing, self._position, self._suspects = self._suspects, 0, []
        self._advance(_QUESTION_SECONDS_MAX)

    def _end(self, cause: str) -> None:
        """Gives up what is not known yet."""
        if self._is_over:
            return
        self._delivered = list(self._delivered)  # reports go on into the other list
        known = {*self._delivered, *(one.message.id for one in self._undelivered)}
        self._undelivered += (
            Undelivered(message=message, failure=Failure.UNKNOWN, cause=cause)
            for message in self._messages
            if message.id not in known
        )
        self._leave()

    def _leave(self) -> None:
        self._is_over = True
        self._client.leave()


def _noting(delivered: list[UUID], failed: list[Failed]) -> Report:
    """What librdkafka calls with each delivery report: it can raise nothing (BR-19), and knows no shipment."""
    deliver, fail = delivered.append, failed.append

    def note(message: OutboxMessage, error: KafkaError | None, _report: Message) -> None:
        if error is None:
            deliver(message.id)
        else:
            fail((message, error))

    return note

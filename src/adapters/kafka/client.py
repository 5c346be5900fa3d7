"""A producer, for as long as it works, and what is known through it."""

import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Final

from attrs import frozen
from confluent_kafka import KafkaError, KafkaException

from adapters.kafka.failures import cause_of, failure_of
from adapters.kafka.producers import make_producer
from adapters.kafka.properties import PropertyRefused
from application.ports.message_sending import Failure

_POSSIBLE_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_LAST_REPORTS_SECONDS: Final = 1.0


@frozen
class Obstacle:
    """Why no event of a topic can be sent; UNKNOWN where no broker answers."""

    failure: Failure
    cause: str


class Client:
    """A producer, for as long as it works; then another one has to take over, and whatever is open is unknown.

    librdkafka does not come out of everything by itself: not out of a fatal error, and not out of the outage of a
    broker that then knows no producer's id any more (it sends the same batch again and again). So one that failed at
    anything that may be its own fault is doubtful: it gets no new shipment, and ends with its last one.
    """

    def __init__(self, properties: dict[str, str]) -> None:
        trouble = self._trouble = deque[str](maxlen=1)

        def on_trouble(error: KafkaError) -> None:
            # That none of the brokers can be reached says less than why.
            if error.code() != KafkaError._ALL_BROKERS_DOWN:
                trouble.append(cause_of(error))

        self._shipments = 0
        self.ready_topics: Final[set[str]] = set()
        """Topics that take events, as far as is known."""
        self.has_answer = True
        """Whether a broker answered the last question; true before the first one."""
        self.is_doubtful = False
        self.end_cause: str | None = None
        """Why it sends nothing any more, once it does not."""
        self.refusal: PropertyRefused | None = None
        """Why it never did."""
        try:
            self._producer = make_producer(properties, on_trouble=on_trouble)
        except PropertyRefused as refusal:
            self.refusal, self.end_cause = refusal, "property_refused"
        else:
            # Without the library's annotation: that takes no list of headers which are all bytes.
            self.produce: Callable[..., None] = self._producer.produce

    @property
    def is_usable(self) -> bool:
        """Whether new shipments may use it."""
        return self.end_cause is None and not self.is_doubtful

    def join(self) -> None:
        """A shipment begins to use it."""
        self._shipments += 1

    def leave(self) -> None:
        """A shipment does not need it any more."""
        self._shipments -= 1
        if self.is_doubtful and not self._shipments:
            self.end("replaced")

    def poll(self, seconds: float) -> None:
        """Waits so long for reports, or until there are some, and lets them be noted."""
        if self.end_cause is None:
            try:
                self._producer.poll(seconds)
            except KafkaException as error:  # a fatal one: nothing else is raised here
                self.end(cause_of(error.args[0]))

    def obstacle_of(self, topic: str, seconds: float) -> Obstacle | None:
        """Asks a broker for a topic, and waits so long for the answer.

        librdkafka would keep the events of a missing topic until they time out.
        """
        if not _POSSIBLE_TOPIC.fullmatch(topic):
            return Obstacle(Failure.REFUSED, "topic_exception")
        try:
            error: KafkaError | None = self._producer.list_topics(topic, seconds).topics[topic].error
        except KafkaException as no_answer:
            self.has_answer = False
            return Obstacle(Failure.UNKNOWN, cause_of(no_answer.args[0]))
        self.has_answer = True
        if error is not None and (failure := failure_of(error)) is not Failure.UNKNOWN:
            return Obstacle(failure, cause_of(error))
        self.ready_topics.add(topic)
        return None

    def cause_of_silence(self, otherwise: str) -> str:
        """What is wrong with the connections, which says more than that time ran out."""
        return self._trouble[0] if self._trouble else otherwise

    def forget_trouble(self) -> None:
        """Something has arrived."""
        self._trouble.clear()

    def end(self, cause: str) -> None:
        """Gives up what is under way, after which everything that will ever be reported has been, and all resources."""
        if self.end_cause is None:
            self.end_cause = cause
            self._producer.purge()
            leaves_at = monotonic() + _LAST_REPORTS_SECONDS
            while len(self._producer) and monotonic() < leaves_at:
                with suppress(KafkaException):  # a fatal error that nobody has met yet
                    self._producer.poll(0.05)
            # Not close(), which would wait without limit: the last reference lets go. That waits for a resolver that is
            # silent, so it is done in a thread that can be left behind.
            producers = [self._producer]
            del self._producer, self.produce
            Thread(target=producers.clear, name="let go of a producer", daemon=True).start()

"""What the errors of librdkafka and of brokers mean to the publisher."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError

from application.ports.message_sending import Failure

FAILURES: Final[Mapping[int, Failure]] = MappingProxyType(
    {
        # Larger than `message.max.bytes` here, or than what the broker or the topic takes.
        KafkaError.MSG_SIZE_TOO_LARGE: Failure.REFUSED,
        # Larger than a segment of the broker's log, which is another limit of its size.
        KafkaError.RECORD_LIST_TOO_LARGE: Failure.REFUSED,
        # The broker looked into it, and does not want such a record (no key in a compacted topic, a wrong schema).
        KafkaError.INVALID_RECORD: Failure.REFUSED,
        # No topic can have such a name.
        KafkaError.TOPIC_EXCEPTION: Failure.REFUSED,
        # The topic is not there, by the broker's answer or by what librdkafka knows from an earlier one.
        KafkaError.UNKNOWN_TOPIC_OR_PART: Failure.TOPIC_UNAVAILABLE,
        KafkaError.UNKNOWN_TOPIC_ID: Failure.TOPIC_UNAVAILABLE,
        KafkaError._UNKNOWN_TOPIC: Failure.TOPIC_UNAVAILABLE,
        KafkaError._UNKNOWN_PARTITION: Failure.TOPIC_UNAVAILABLE,
        # It was made anew: librdkafka has to hear of it first.
        KafkaError.INCONSISTENT_TOPIC_ID: Failure.TOPIC_UNAVAILABLE,
        # A right is missing for the topic, which somebody may grant.
        KafkaError.TOPIC_AUTHORIZATION_FAILED: Failure.TOPIC_UNAVAILABLE,
    }
)
"""All others are UNKNOWN. Time-outs, lost connections, purged and fatal errors leave open what has arrived. A broker's
state, a missing right for the cluster, a wrong compression or a wrong clock of this host (`INVALID_TIMESTAMP`) is no
fault of the event, and must not count as its refusal."""

OF_A_BATCH: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,
    }
)
"""What a broker answers for a whole batch, whichever of its messages is to blame."""


def failure_of(error: KafkaError) -> Failure:
    """What an error means for the event that it was reported of."""
    return FAILURES.get(error.code(), Failure.UNKNOWN)


def cause_of(error: KafkaError) -> str:
    """The error's name in lower case; librdkafka's own errors have one without their leading underscore."""
    return error.name().lower().lstrip("_")

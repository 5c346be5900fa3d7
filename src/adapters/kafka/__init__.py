"""Kafka, through librdkafka."""

from adapters.kafka.properties import PropertyRefused
from adapters.kafka.sender import KafkaSender

__all__ = ["KafkaSender", "PropertyRefused"]

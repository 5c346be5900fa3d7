"""The outbox that each publisher gets, and the check of what it made of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from adapters.embedded import EmbeddedBroker, EmbeddedPostgres
from adapters.postgres.migrations import migrate
from application.event_contract import PROPERTY_OBJECT_VIEW_ENDED
from bench.workload import DATABASE, WrongResult, statement

TOPIC = PROPERTY_OBJECT_VIEW_ENDED.topic
PARTITIONS = 3
WARM_UP_KEY = b"warm-up"
"""Of a record that is not counted."""


@contextmanager
def filled_outbox(server: EmbeddedPostgres, events: int) -> Iterator[str]:
    """Yield the connection string of a new database with so many pending events, and drop it at the end."""
    name = sql.Identifier(DATABASE)
    dsn = server.dsn(DATABASE)
    with psycopg.connect(server.dsn(), autocommit=True) as maintenance:
        maintenance.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            migrate(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(statement("fill_outbox", events=events, topic=TOPIC).encode())
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
            yield dsn
        finally:
            maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@contextmanager
def empty_broker() -> Iterator[str]:
    """Yield the address of a new broker in memory that has the topic."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 (half of the start-up time of `--help`)
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    with EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            created.result(30)
        yield broker.bootstrap_servers


def check(dsn: str, bootstrap_servers: str, events: int) -> float:
    """Read back what has arrived: every event once, and recorded as delivered. Raises WrongResult.

    Answer how many seconds that took, by the times that were recorded: a new producer's start, 0.5 s, is left out.
    """
    arrived = arrived_keys(bootstrap_servers)
    if len(arrived) != events or len(set(arrived)) != events:
        raise WrongResult(f"{len(arrived)} events arrived, {len(set(arrived))} of them distinct, of {events}")
    with psycopg.connect(dsn) as connection:
        row = connection.execute(statement("measure_publishing").encode()).fetchone()
    assert row is not None
    pending, after_the_first, seconds = row
    if pending or not after_the_first:
        raise WrongResult(f"{pending} events are pending, {after_the_first} came after the first batch")
    return float(seconds) * events / int(after_the_first)


def arrived_keys(bootstrap_servers: str) -> list[bytes]:
    """Return the keys of all records, read to the end of each partition; this broker's watermarks run behind."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    keys: list[bytes] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(5_000, 1.0):
            if message.error() is not None:
                ended.add(message.partition())
            elif (key := message.key()) is not None and key != WARM_UP_KEY:
                keys.append(key)
    consumer.close()
    return keys

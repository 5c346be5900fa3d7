"""What a user would write by hand: the broker's library alone, and the usual loop from the outbox to the broker.

A program of its own, so that its costs are measured as the project's are: `python -m bench.relay produce|loop`.
"""

import os
import time
from collections.abc import Sequence

import click
import orjson
import psycopg
from confluent_kafka import KafkaError, Message, Producer

from bench.events import TOPIC, WARM_UP_KEY

_SELECT = """select id, aggregate_id, topic, payload::text from user_activity.outbox
             where published_at is null order by id limit %s for update skip locked"""
_MARK = "update user_activity.outbox set published_at = clock_timestamp() where id = any(%s)"
_TIMEOUT_SECONDS = 60.0


class Deliveries:
    """Counts what the broker has acknowledged."""

    def __init__(self) -> None:
        self.arrived = 0

    def report(self, error: KafkaError | None, _message: Message) -> None:
        """Take a delivery report."""
        if error is not None:
            raise click.ClickException(str(error))
        self.arrived += 1


def _producer(**settings: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": os.environ["ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS"],
            "acks": "all",
            "enable.idempotence": True,
            **settings,
        }
    )


@click.group()
def relay() -> None:
    """Send events by hand."""


@relay.command()
@click.argument("events", type=int)
def produce(events: int) -> None:
    """Produce so many events of the usual size, from memory."""
    payloads: Sequence[bytes] = [b"%036d" % number + b" " * 400 for number in range(events)]
    deliveries, producer = Deliveries(), _producer()
    producer.produce(TOPIC, b"", WARM_UP_KEY)
    producer.flush(_TIMEOUT_SECONDS)
    began = time.perf_counter()
    for number, payload in enumerate(payloads):
        while True:
            try:
                producer.produce(TOPIC, payload, b"%036d" % number, on_delivery=deliveries.report)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(_TIMEOUT_SECONDS)
    seconds = time.perf_counter() - began
    click.echo(orjson.dumps({"seconds": seconds, "events": deliveries.arrived}))


@relay.command()
@click.option("--batch-size", type=int, default=1_000)
def loop(batch_size: int) -> None:
    """Select, produce, flush, mark, commit, until nothing is pending; a transaction is open all the while."""
    deliveries, producer = Deliveries(), _producer(**{"linger.ms": 0})
    sent = 0
    began = time.perf_counter()
    with psycopg.connect(os.environ["ACTIVITY_CLOSER_DATABASE_URL"]) as connection:
        while rows := connection.execute(_SELECT, [batch_size]).fetchall():
            for message_id, aggregate_id, topic, payload in rows:
                headers: list[tuple[str, str | bytes | None]] = [("event-id", str(message_id).encode())]
                producer.produce(
                    topic, payload.encode(), str(aggregate_id).encode(), headers=headers, on_delivery=deliveries.report
                )
            producer.flush(_TIMEOUT_SECONDS)
            sent += len(rows)
            if deliveries.arrived != sent:
                raise click.ClickException("not everything arrived")
            connection.execute(_MARK, [[row[0] for row in rows]])
            connection.commit()
    click.echo(orjson.dumps({"seconds": time.perf_counter() - began, "events": sent}))


if __name__ == "__main__":
    relay()

"""From silent rows to a consumer's effects: closers and publishers side by side, and what befalls them on the way."""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from adapters.embedded import EmbeddedPostgres
from tests.brokers import OwnBroker, StartBroker
from tests.databases import OwnServer
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Program, run, wait_until
from tests.end_to_end.reference_consumer import TOPICS, ReferenceConsumer

PATIENCE_SECONDS = 400.0


class Delivery:
    """A database, a broker, and the program's processes between them."""

    def __init__(self, server: EmbeddedPostgres, broker: OwnBroker) -> None:
        assert run("migrate", database_url=server.dsn()).exit_code == 0
        self.server = server
        self.broker = broker
        self.tables = ActivityTables(server.dsn())
        broker.create_topics(*TOPICS)

    def closer(self) -> Program:
        """A worker that ticks each second."""
        return Program("run", database_url=self.tables.dsn, polling_interval="1s", connections="2")

    def publisher(self) -> Program:
        """A publisher that looks often, and gives up a broker that is away after some seconds."""
        return Program(
            "publish",
            database_url=self.tables.dsn,
            kafka_bootstrap_servers=self.broker.bootstrap_servers,
            kafka_message_timeout_ms="5000",
            publish_polling_interval="200ms",
        )

    def pending(self) -> int:
        """Events that have to be delivered yet."""
        [(pending,)] = self.tables.execute("select count(*) from user_activity.outbox where published_at is null")
        return int(pending)

    def delivered(self) -> int:
        """Events that are recorded as delivered."""
        [(delivered,)] = self.tables.execute("select count(published_at) from user_activity.outbox")
        return int(delivered)

    def wait_for_everything(self, rows: int) -> None:
        """Waits until so many rows are closed and nothing is pending."""
        wait_until(lambda: self.tables.closed() == rows and self.pending() == 0, within_seconds=PATIENCE_SECONDS)

    def consumed(self) -> ReferenceConsumer:
        """A consumer that has read everything, judged by the rows: each has had its effect once."""
        consumer = ReferenceConsumer()
        consumer.take(self.broker.read_all(*TOPICS))
        closed = self.tables.execute(
            """select id from user_activity.sessions where status = 'Inactive'
               union all select id from user_activity.property_object_views where status = 'Inactive'"""
        )
        assert consumer.effects == Counter(row_id for (row_id,) in closed)
        self.tables.assert_rules_hold()
        return consumer

    def end(self, *programs: Program) -> None:
        """Ends them in order; none says anything personal."""
        for program in programs:
            program.send(signal.SIGTERM)
        for program in programs:
            ended = program.ending()
            assert (ended.exit_code, ended.said) == (0, [])
            self.tables.assert_nothing_personal_in(ended.text)


@pytest.fixture
def delivery(own_server: OwnServer, own_broker: StartBroker) -> Delivery:
    return Delivery(own_server(durable=True), own_broker())


@contextmanager
def running(*programs: Program) -> Iterator[None]:
    """Kills whatever of them still runs in the end."""
    with ExitStack() as stack:
        for program in programs:
            stack.enter_context(program)
        yield


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_everything_that_is_closed_arrives(delivery: Delivery) -> None:
    """Two closers and two publishers, no fault: each closed row's event is there once, valid, and none is missing."""
    sessions = 10_000 if delivery.broker.kind == "apache" else 2_000
    delivery.tables.add_sessions(sessions, views=3)
    closers, publishers = (delivery.closer(), delivery.closer()), (delivery.publisher(), delivery.publisher())
    with running(*closers, *publishers):
        delivery.wait_for_everything(sessions * 4)
        delivery.end(*closers, *publishers)
    consumer = delivery.consumed()
    assert len(consumer.effects) == sessions * 4
    assert consumer.duplicates == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_outages_and_crashes_lose_nothing(delivery: Delivery) -> None:
    """The broker killed twice, publishers killed three times, PostgreSQL once: every effect is there, once (§9)."""
    if delivery.broker.kind != "apache":
        pytest.skip("the embedded broker forgets what it had acknowledged when it is killed")
    sessions, moments = 3_000, random.Random(4)  # noqa: S311 (no secret)
    delivery.tables.add_sessions(sessions, views=3)
    faults = ["broker", "publisher", "publisher", "database", "broker", "publisher"]
    closers, publishers = [delivery.closer(), delivery.closer()], [delivery.publisher(), delivery.publisher()]
    with ExitStack() as stack:
        for program in (*closers, *publishers):
            stack.enter_context(program)
        for number, fault in enumerate(faults):
            aim = delivery.delivered() + moments.randint(100, 1_000)
            wait_until(lambda aim=aim: delivery.delivered() >= aim, within_seconds=PATIENCE_SECONDS)  # type: ignore[misc]
            if fault == "broker":
                delivery.broker.kill()
                delivery.broker.start()
            elif fault == "database":
                delivery.server.stop("immediate")
                delivery.server.start()
            else:
                doomed = publishers.pop(0)
                doomed.kill()
                assert doomed.ending().exit_code == -9
                publishers.append(stack.enter_context(delivery.publisher()))
            delivery.tables.add_sessions(300, views=3)
            sessions += 300
            assert all(program.is_running() for program in (*closers, *publishers)), (number, fault)
        delivery.wait_for_everything(sessions * 4)
        delivery.end(*closers, *publishers)
    consumer = delivery.consumed()
    assert len(consumer.effects) == sessions * 4

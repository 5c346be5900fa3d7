"""The way of events on the command line: `run --once`, `publish`, and the topics of a broker."""

import json
import signal
import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from application.event_contract import PROPERTY_OBJECT_VIEW_ENDED, SESSION_ENDED
from tests.brokers import Broker, StartBroker
from tests.contracts.event_schemas import faults_of
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Ending, Program, run, run_once, wait_until
from tests.postgres.test_roles import apply_roles, login_role

TOPICS = (SESSION_ENDED.topic, PROPERTY_OBJECT_VIEW_ENDED.topic)
SECRET = "geheim-7f3a"  # noqa: S105 (nobody's password)

_APPEND = """
insert into user_activity.outbox
    (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, occurred_at)
select gen_random_uuid(), 'Session', gen_random_uuid(), 'SessionEndedKafkaEvent', 1, %(topic)s,
       jsonb_build_object('anonymousId', %(personal)s::text), gen_random_uuid(), clock_timestamp()
from generate_series(1, %(events)s)
returning id::text
"""
PERSONAL = "5c2a7f60-anonymous"


class Outbox:
    """The outbox of one database, and a topic of the test's own."""

    def __init__(self, database: str) -> None:
        self.tables = ActivityTables(database)
        self.topic = f"test.{uuid4().hex}"

    def append(self, events: int, *, topic: str | None = None) -> list[str]:
        """Add events and return their ids."""
        added = self.tables.execute(_APPEND, topic=topic or self.topic, events=events, personal=PERSONAL)
        return [event_id for (event_id,) in added]

    def published(self) -> int:
        """How many events are marked as delivered."""
        [(count,)] = self.tables.execute("select count(*) from user_activity.outbox where published_at is not null")
        return int(count)

    def leases(self) -> int:
        """How many parts of the outbox a publisher is sending."""
        [(count,)] = self.tables.execute("select count(*) from user_activity.outbox_slices where lease is not null")
        return int(count)


@pytest.fixture
def outbox(database: str) -> Outbox:
    return Outbox(database)


@pytest.fixture
def no_broker() -> Iterator[str]:
    """An address at which nobody answers."""
    with socket.socket() as taken_by_nobody:
        taken_by_nobody.bind(("127.0.0.1", 0))  # and no listen: it refuses
        yield f"127.0.0.1:{taken_by_nobody.getsockname()[1]}"


def publish_once(database: str, servers: str, **settings: str) -> Ending:
    return run("publish", "--once", database_url=database, kafka_bootstrap_servers=servers, **settings)


def operate(database: str, *arguments: str) -> Any:
    """What `outbox` prints for programs: an object a line."""
    ended = run("outbox", *arguments, "--output", "json", database_url=database)
    return [json.loads(line) for line in ended.stdout]


def event_ids_in(broker: Broker, *topics: str) -> list[str]:
    ids = [record.headers["event-id"] for record in broker.read_all(*topics)]
    return sorted(event_id.decode() for event_id in ids if event_id is not None)


def test_from_closed_rows_to_records(empty_database: str, own_broker: StartBroker) -> None:
    """Each closed row is one record, by its contract; a second run sends nothing; nothing personal is said."""
    broker = own_broker()
    broker.create_topics(*TOPICS)
    assert run("migrate", database_url=empty_database).exit_code == 0
    tables = ActivityTables(empty_database)
    tables.add_sessions(30, views=2)
    assert run_once(empty_database).exit_code == 0

    ended = publish_once(empty_database, broker.bootstrap_servers)

    assert (ended.exit_code, ended.said) == (0, [])
    assert len(ended.stdout) == 1
    assert (ended.result["outcome"], ended.result["deliveredEvents"], ended.result["pendingEvents"]) == (
        "completed",
        90,
        0,
    )
    assert [line["event"] for line in ended.log] == ["events published"]
    records = broker.read_all(*TOPICS)
    assert sorted(record.topic for record in records) == [TOPICS[1]] * 60 + [TOPICS[0]] * 30
    assert len({record.headers["event-id"] for record in records}) == 90
    assert not [faults for record in records if (faults := faults_of(record.topic, json.loads(record.value or b"")))]
    tables.assert_nothing_personal_in(ended.text)
    again = publish_once(empty_database, broker.bootstrap_servers)
    assert (again.exit_code, again.result["deliveredEvents"], again.log) == (0, 0, [])


def test_the_loop_publishes_what_comes(outbox: Outbox, database: str, broker: Broker) -> None:
    """Events that are appended while it runs arrive; SIGTERM ends it in order, 0, and the last line says why."""
    broker.create_topics(outbox.topic)
    with Program("publish", database_url=database, kafka_bootstrap_servers=broker.bootstrap_servers) as program:
        program.wait_for("publisher started")
        for _wave in range(2):
            outbox.append(20)
            wait_until(lambda expected=20 * (_wave + 1): outbox.published() == expected)  # type: ignore[misc]
        program.send(signal.SIGTERM)
        ended = program.ending()
    assert (ended.exit_code, ended.said, ended.stdout) == (0, [], ())
    assert (ended.log[-1]["event"], ended.log[-1]["reason"]) == ("publisher stopped", "asked to stop")
    assert ended.seconds < 10
    assert len(event_ids_in(broker, outbox.topic)) == 40


def test_the_publishers_role_is_enough(outbox: Outbox, database: str, broker: Broker) -> None:
    """The rights of deploy/roles.sql do for all that a publisher and its operator do; without them: 77, named."""
    apply_roles(database)
    broker.create_topics(outbox.topic)
    outbox.append(3)
    outbox.append(1, topic="no such topic")
    with login_role(database, "activity_publisher") as login:
        assert publish_once(login, broker.bootstrap_servers, publish_attempts="1").exit_code == 3
        assert operate(login, "status")[0]["deadEvents"]
        assert operate(login, "dead", "retry", "--all") == [{"retriedEvents": 1}]
        assert publish_once(login, broker.bootstrap_servers, publish_attempts="1").exit_code == 3
        assert operate(login, "dead", "discard", "--all", "--yes") == [{"discardedEvents": 1}]
        outbox.tables.execute("revoke update on user_activity.outbox from activity_publisher")
        outbox.append(1)
        ended = publish_once(login, broker.bootstrap_servers)
    assert ended.exit_code == 77
    assert len(ended.said) == 1
    assert "a right is missing" in ended.said[0]
    assert ended.result["outcome"] == "failed"


def test_an_event_that_kafka_refuses_is_dead_until_somebody_acts(outbox: Outbox, database: str, broker: Broker) -> None:
    """Its neighbours arrive. It is listed with its cause, sent again when asked, and arrives once it is put right."""
    broker.create_topics(outbox.topic)
    neighbours = outbox.append(10)
    [bad] = outbox.append(1, topic="no such topic")

    ended = publish_once(database, broker.bootstrap_servers, publish_attempts="1")

    assert ended.exit_code == 3
    assert (ended.result["deliveredEvents"], ended.result["deadEvents"], ended.result["pendingEvents"]) == (10, 1, 0)
    assert event_ids_in(broker, outbox.topic) == sorted(neighbours)
    [line] = [line for line in ended.log if line["event"] == "event dead"]
    assert (line["id"], line["topic"], line["refusals"]) == (bad, "no such topic", 1)
    status = run("outbox", "status", "--output", "json", database_url=database)
    assert (status.exit_code, status.result["deadEvents"]) == (3, {line["cause"]: 1})
    [listed] = operate(database, "dead", "list")
    assert (listed["id"], listed["cause"]) == (bad, line["cause"])
    assert PERSONAL not in ended.text + status.text + json.dumps(listed)
    [shown] = operate(database, "dead", "show", bad, "--payload")
    assert shown["payload"] == {"anonymousId": PERSONAL}

    outbox.tables.execute(f"update user_activity.outbox set topic = '{outbox.topic}' where id = '{bad}'")
    assert operate(database, "dead", "retry", bad) == [{"retriedEvents": 1}]
    assert publish_once(database, broker.bootstrap_servers).exit_code == 0
    assert event_ids_in(broker, outbox.topic) == sorted([*neighbours, bad])
    assert run("outbox", "status", database_url=database).exit_code == 0


def test_a_broker_that_is_away_is_69_within_the_limit_of_a_delivery(
    outbox: Outbox, database: str, no_broker: str
) -> None:
    """One clear line, a report, and every event is pending as before."""
    outbox.append(100)
    ended = publish_once(database, no_broker, kafka_message_timeout_ms="2000")
    assert ended.exit_code == 69
    assert len(ended.said) == 1, ended.stderr
    assert "the broker is unavailable" in ended.said[0]
    assert (ended.result["outcome"], ended.result["pendingEvents"]) == ("broker_unavailable", 100)
    assert 0 < ended.result["unconfirmedEvents"] <= 100
    assert [line["event"] for line in ended.log] == ["broker unavailable"]
    assert outbox.published() == 0


@pytest.mark.slow
def test_an_end_without_a_broker_marks_nothing(outbox: Outbox, database: str, own_broker: StartBroker) -> None:
    """BR-26: SIGTERM with everything under way ends it within the stop limit; the log says how many were unconfirmed.

    They are pending, nothing is marked, and the next publisher delivers all of them at once.
    """
    broker = own_broker()
    broker.stop()
    events = outbox.append(1000)
    settings = {
        "kafka_bootstrap_servers": broker.bootstrap_servers,
        "kafka_queue_buffering_max_messages": "100",
        "publish_stop_limit": "2s",
    }
    with Program("publish", database_url=database, **settings) as program:
        wait_until(lambda: outbox.leases() > 0)
        program.send(signal.SIGTERM)
        ended = program.ending()
    assert ended.exit_code == 0
    assert ended.seconds < 2 + 10
    assert ended.said == []
    [given_back] = [line for line in ended.log if line["event"] == "events given back"]
    assert 0 < given_back["unconfirmedEvents"] <= 1000
    assert outbox.published() == 0

    broker.start()
    broker.create_topics(outbox.topic)
    again = run("publish", "--once", database_url=database, **settings)
    assert (again.exit_code, again.result["deliveredEvents"]) == (0, 1000)
    assert event_ids_in(broker, outbox.topic) == sorted(events)


@pytest.mark.slow
def test_a_publisher_waits_for_its_broker(outbox: Outbox, database: str, own_broker: StartBroker) -> None:
    """A broker that is away at the start, or later, ends nothing: it is said, and delivery goes on when it is back."""
    broker = own_broker()
    broker.stop()
    first = outbox.append(10)
    settings = {"kafka_bootstrap_servers": broker.bootstrap_servers, "kafka_message_timeout_ms": "1000"}
    with Program("publish", database_url=database, **settings) as program:
        program.wait_for("broker unavailable")
        broker.start()
        broker.create_topics(outbox.topic)
        program.wait_for("broker available")
        wait_until(lambda: outbox.published() == 10)
        assert event_ids_in(broker, outbox.topic) == sorted(first)
        broker.kill()
        outbox.append(10)
        program.wait_for("broker unavailable", count=2)
        broker.start()
        if broker.kind == "embedded":  # it has lost its topics
            broker.create_topics(outbox.topic)
        wait_until(lambda: outbox.published() == 20)
        program.send(signal.SIGTERM)
        assert program.ending().exit_code == 0


def test_a_publisher_waits_for_its_database(no_broker: str) -> None:
    """BR-55, specification §10: a database that is away is said and tried again; SIGTERM ends it at once, with 0."""
    # Nobody answers at this address, in whatever language.
    host, port = no_broker.split(":")
    database = f"postgresql://publisher:{SECRET}@{host}:{port}/activity"
    with Program("publish", database_url=database, kafka_bootstrap_servers=no_broker) as program:
        line = program.wait_for("round failed", count=2)
        program.send(signal.SIGTERM)
        ended = program.ending()
    assert (ended.exit_code, ended.said) == (0, [])
    assert (line["kind"], ended.log[-1]["event"]) == ("connection", "publisher stopped")
    assert ended.seconds < 10
    assert SECRET not in ended.text


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ("ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS",)),
        ({"kafka_bootstrap_server": SECRET}, ("ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS",)),
        (
            {"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_sasl_pasword": SECRET},
            ("sasl.pasword", "did you mean sasl.password?"),
        ),
        ({"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_linger_ms": SECRET}, ("linger.ms",)),
        ({"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_acks": "0"}, ("acks",)),
        ({"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_error_cb": SECRET}, ("error.cb",)),
        ({"kafka_bootstrap_servers": "127.0.0.1:1", "delivery": "debezium"}, ("delivery is debezium",)),
    ],
)
def test_a_wrong_configuration_is_named(database: str, settings: dict[str, str], parts: tuple[str, ...]) -> None:
    """78, in lines that name what is wrong and hold no secret, before anything is sent."""
    ended = run("publish", "--once", database_url=database, **settings)
    assert (ended.exit_code, ended.stdout) == (78, ())
    assert len(ended.said) == 1, ended.stderr
    assert not [part for part in parts if part not in ended.said[0]], ended.said
    assert SECRET not in ended.text


def test_an_outbox_for_debezium(empty_database: str) -> None:
    """What `migrate` makes for a connector takes the closer's events, and is pruned by age."""
    settings = {"database_url": empty_database, "delivery": "debezium"}
    assert run("migrate", **settings).exit_code == 0
    tables = ActivityTables(empty_database)
    tables.add_sessions(5, views=1)
    assert run_once(empty_database, delivery="debezium").exit_code == 0
    assert run("outbox", "prune", "--older-than", "1h", **settings).stdout == ("removed: 0",)
    assert tables.counts().events == 10
    assert run("outbox", "prune", "--older-than", "0s", **settings).stdout == ("removed: 10",)
    assert tables.counts().events == 0

"""BR-26, BR-29, BR-55: a signal ends the publisher soon and in order, whatever it is doing, and loses nothing."""

import os
import random
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from adapters.embedded.loopback_port import free_port
from tests.brokers import Broker, StartBroker
from tests.end_to_end.program import Ending, Program, time_of, wait_until
from tests.field_reports.publishing import PublishingScenario, assert_nothing_personal_in, publishing_scenario
from tests.field_reports.test_process_signals import (
    AT_ONCE_SECONDS,
    INTERPRETER_END_SECONDS,
    STARTS,
    silent_host,
    worker_of,
)

WAYS: Final = [
    *(pytest.param(*start.values, signal.SIGTERM, marks=start.marks, id=f"{start.id}, SIGTERM") for start in STARTS),
    pytest.param((), signal.SIGINT, id="child, SIGINT"),
]
SLOW_SECONDS: Final = 0.1
SLOW_RECORDING: Final = f"""
create function slow_recording() returns trigger language plpgsql as $$
begin
    perform pg_sleep({SLOW_SECONDS});
    return null;
end $$;
create trigger slow_recording before update on user_activity.outbox execute function slow_recording();
"""
UNDER_WAY: Final = """
published_at is null
and (get_byte(uuid_send(id), 15) & 15) in (select slice from user_activity.outbox_slices where lease is not null)
"""


@pytest.fixture
def publishing(database: str, broker: Broker) -> Iterator[PublishingScenario]:
    with publishing_scenario(database, broker) as scenario:
        yield scenario


@pytest.fixture
def brokerless(database: str) -> PublishingScenario:
    """A scenario without a broker."""
    return PublishingScenario(database, Broker(bootstrap_servers=f"127.0.0.1:{free_port()}", kind="given"))


def publisher_of(database_url: str, before: tuple[str, ...]) -> Program:
    """A publisher of an outbox that is not there; it never comes to its broker."""
    servers = f"127.0.0.1:{free_port()}"
    return Program("publish", before=before, database_url=database_url, kafka_bootstrap_servers=servers)


def stopped(
    program: Program, *signals: signal.Signals, before: tuple[str, ...] = (), under_way_seconds: float = 0.0
) -> Ending:
    """Send signals and judge the end, before which what is under way has so much time."""
    publisher = worker_of(program, before)
    sent = datetime.now(UTC)
    for number in signals:
        os.kill(publisher, number)
    ended = program.ending()
    assert (ended.exit_code, ended.said, ended.stdout) == (0, [], ())
    assert (ended.log[-1]["event"], ended.log[-1]["reason"]) == ("publisher stopped", "asked to stop")
    assert time_of(ended.log[-1]) - sent <= timedelta(seconds=AT_ONCE_SECONDS + under_way_seconds)
    assert ended.seconds <= AT_ONCE_SECONDS + under_way_seconds + INTERPRETER_END_SECONDS
    return ended


@pytest.mark.parametrize(("before", "number"), WAYS)
def test_a_signal_while_nothing_is_due(
    publishing: PublishingScenario, before: tuple[str, ...], number: signal.Signals
) -> None:
    """BR-55 (a): a wait of a minute for new events is cut short."""
    publishing.append(10)
    with publishing.publisher(before=before, publish_polling_interval="1m") as program:
        program.wait_for("events published")
        ended = stopped(program, number, before=before)
    publishing.assert_all_is_well(ended.text)


@pytest.mark.parametrize(("before", "number"), WAYS)
def test_a_signal_before_the_first_connection_exists(before: tuple[str, ...], number: signal.Signals) -> None:
    """BR-55 (b): connecting to a database that does not answer is given up."""
    with silent_host() as (dsn, host), publisher_of(dsn, before) as program, host.accept()[0]:
        program.wait_for("publisher started")
        stopped(program, number, before=before)


@pytest.mark.parametrize(("before", "number"), WAYS)
def test_a_signal_while_the_database_is_down(before: tuple[str, ...], number: signal.Signals) -> None:
    """BR-55 (c): nor is it missed while the publisher tries again and again, or waits for its next try."""
    with publisher_of("host=/nowhere", before) as program:
        program.wait_for("round failed", count=2, kind="connection")
        stopped(program, number, before=before)


@pytest.mark.parametrize(("before", "number"), WAYS)
def test_a_signal_while_the_broker_is_down(
    brokerless: PublishingScenario, before: tuple[str, ...], number: signal.Signals
) -> None:
    """BR-55 (c): started without a broker, and given it up for a while, the publisher has nothing under way."""
    stop_limit_seconds = 0.5
    brokerless.append(10)
    settings = {"kafka_message_timeout_ms": "1000", "publish_stop_limit": f"{stop_limit_seconds * 1000:.0f}ms"}
    with brokerless.publisher(before=before, **settings) as program:
        program.wait_for("broker unavailable")
        wait_until(lambda: not brokerless.leased_slices())
        # On a busy machine the next try has begun by now.
        ended = stopped(program, number, before=before, under_way_seconds=stop_limit_seconds)
    assert (brokerless.pending(), brokerless.leased_slices()) == (10, set())
    assert_nothing_personal_in(ended.text)


def test_a_second_signal_changes_nothing(publishing: PublishingScenario) -> None:
    """BR-29: whoever is impatient does no harm."""
    with publishing.publisher() as program:
        program.wait_for("publisher started")
        stopped(program, signal.SIGTERM, signal.SIGTERM, signal.SIGINT)


@pytest.mark.slow
def test_signals_in_the_middle_of_batches(publishing: PublishingScenario) -> None:
    """BR-29: at random moments; what is under way arrives and is recorded, and is the last: no duplicate, no loss.

    Sending a batch takes 0.1 s, and recording it as well. The original has 1,500 rows and 10 runs, this one 1,000
    events and 4 runs.
    """
    moments, batch_size = random.Random(20261202), 20  # noqa: S311 (no secret)
    settings = {"publish_batch_size": str(batch_size), "kafka_linger_ms": f"{SLOW_SECONDS * 1000:.0f}"}
    publishing.tables.execute(SLOW_RECORDING)
    publishing.append(1000)
    for round_number in range(4):
        aim = publishing.published() + moments.randint(1, 60)
        with publishing.publisher(**settings) as program:
            wait_until(lambda aim=aim: publishing.published() >= aim)  # type: ignore[misc]
            program.send(signal.SIGTERM)
            published = publishing.published()
            numbers = [signal.SIGTERM] * (round_number % 2)
            ended = stopped(program, *numbers, under_way_seconds=4 * SLOW_SECONDS)
        assert publishing.published() - published <= 2 * batch_size, "at most what was under way"
        assert {line["level"] for line in ended.log} == {"info"}
        assert not publishing.leased_slices()
        arrivals = publishing.arrivals()
        assert (len(arrivals), set(arrivals.values())) == (publishing.published(), {1})
        publishing.assert_all_is_well(ended.text)
    assert publishing.pending() > 0


@pytest.mark.slow
def test_an_end_with_a_full_queue_and_no_broker(database: str, own_broker: StartBroker) -> None:
    """BR-26: 1,000 events, room for 100, no broker: an end within the limit, which says how many were not sent.

    Nothing is marked; with the broker back all have arrived within 10 s. The original has the signal after 3 s, this
    one as soon as all is under way that ever will be.
    """
    stop_limit_seconds = 2
    broker = own_broker()
    publishing = PublishingScenario(database, broker)
    publishing.make_topic(publishing.topic)
    settings = {"kafka_queue_buffering_max_messages": "100", "publish_stop_limit": f"{stop_limit_seconds}s"}
    with publishing.publisher(**settings) as program:
        before = publishing.append(1)  # without it nothing would get as far as the queue
        wait_until(lambda: publishing.published() == 1)
        broker.stop()
        events = publishing.append(1000)
        wait_until(lambda: len(publishing.leased_slices()) == 8)
        under_way = publishing.count(UNDER_WAY)
        ended = stopped(program, signal.SIGTERM, under_way_seconds=stop_limit_seconds)
    [given_back] = [line for line in ended.log if line["event"] == "events given back"]
    assert given_back["unconfirmedEvents"] == under_way > 100
    assert (publishing.published(), publishing.leased_slices()) == (1, set())
    assert not [noise for noise in ("Traceback", "BufferError", "broke off") if noise in ended.text]

    broker.start()
    if broker.kind == "embedded":  # it has forgotten everything
        publishing.tables.execute("delete from user_activity.outbox where published_at is not null")
        before = []
        broker.create_topics(publishing.topic)
    with publishing.publisher(**settings) as program:
        program.wait_for("publisher started")
        wait_until(lambda: publishing.pending() == 0, within_seconds=10)
        publishing.end(program)
    assert publishing.arrivals() == dict.fromkeys([*before, *events], 1)
    publishing.assert_all_is_well(ended.text)

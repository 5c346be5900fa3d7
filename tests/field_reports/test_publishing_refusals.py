"""BR-10, BR-34: what cannot be sent, or not yet, waits for itself alone."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

import pytest

from application.ports.publish_observation import TopicHeld
from tests.brokers import Broker
from tests.end_to_end.program import Ending, LogLine, run, wait_until
from tests.field_reports.publishing import PAYLOAD, PublishingScenario, event_id_of, publishing_scenario

IMPOSSIBLE_TOPIC: Final = "no such topic"
OVERSIZE_PAYLOAD: Final = json.dumps({**json.loads(PAYLOAD), "filterSnapshot": "x" * 4_000})
BACK_OFF_SECONDS: Final = (1, 2, 4)


@pytest.fixture
def publishing(database: str, broker: Broker) -> Iterator[PublishingScenario]:
    with publishing_scenario(database, broker) as scenario:
        yield scenario


def assert_backs_off(lines: list[LogLine]) -> None:
    """The attempts of one event: each not before it was due, nor long after; by the times of the database."""
    assert [line["refusals"] for line in lines] == list(range(1, len(BACK_OFF_SECONDS) + 1))
    due = [datetime.fromisoformat(line["nextAttemptAt"]) for line in lines]
    attempted = [at - timedelta(seconds=pause) for at, pause in zip(due, BACK_OFF_SECONDS, strict=True)]
    for before, after in zip(due, attempted[1:], strict=False):
        assert timedelta(0) <= after - before <= timedelta(seconds=10)


def status(publishing: PublishingScenario) -> Ending:
    """Ask how the outbox stands."""
    return run("outbox", "status", "--output", "json", database_url=publishing.dsn)


@pytest.mark.slow
def test_events_that_can_never_be_sent_delay_nobody(publishing: PublishingScenario) -> None:
    """BR-10: the 20 oldest of 500 are refused; they back off, are dead with their cause, and no other one waits.

    The original goes on for 3 minutes and 10 attempts, this one until 4 attempts are over.
    """
    impossible = publishing.append(10, topic=IMPOSSIBLE_TOPIC)
    oversize = publishing.append(10, payload=OVERSIZE_PAYLOAD)
    old = publishing.append(480)
    with publishing.publisher(
        publish_batch_size="10",
        publish_attempts=str(len(BACK_OFF_SECONDS) + 1),
        publish_polling_interval="200ms",
        kafka_message_max_bytes="2000",
    ) as program:
        program.wait_for("publisher started")
        new = publishing.append_at_a_rate(per_second=5, until=lambda: len(program.log("event dead")) >= 20)
        wait_until(lambda: publishing.published() == len(old) + len(new))
        standing = status(publishing)
        [ended] = publishing.end(program)

    assert len(new) >= sum(BACK_OFF_SECONDS), "there were new events all the time"
    assert publishing.latency_seconds(new) < 5
    assert publishing.arrivals() == dict.fromkeys([*old, *new], 1)
    for ids, cause in ((impossible, "topic_exception"), (oversize, "msg_size_too_large")):
        for event_id in ids:
            *refused, dead = [line for line in ended.log if line.get("id") == event_id]
            assert {line["event"] for line in refused} == {"event refused"}
            assert (dead["event"], dead["refusals"], dead["cause"]) == ("event dead", len(BACK_OFF_SECONDS) + 1, cause)
            assert_backs_off(refused)
    assert standing.exit_code == 3
    assert standing.result["deadEvents"] == {"topic_exception": 10, "msg_size_too_large": 10}
    assert standing.result["pendingEvents"] == 0
    publishing.assert_all_is_well(standing.text)


def test_a_topic_that_is_missing_for_a_while_delays_only_its_own_events(
    publishing: PublishingScenario, log: StringIO
) -> None:
    """BR-34: order is not promised, so S1 arrives before V1 and V2, and `occurred-at` tells what came first.

    Two publishers. The original takes the topic away for 5 s; this one until both have tried it twice. No event pays
    an attempt for it, and those of the 200 other sessions do not wait.
    """
    missing, began = f"{publishing.topic}.missing", datetime.now(UTC)
    hour = timedelta(hours=1)
    [first_view] = publishing.append(1, topic=missing, occurred_at=began - 3 * hour)
    [second_view] = publishing.append(1, topic=missing, occurred_at=began - 2 * hour)
    [session] = publishing.append(1, occurred_at=began - hour)
    others = publishing.append(100)
    instances = (publishing.instance(), publishing.instance())

    def rounds() -> int:
        return sum(one.run().delivered for one in instances)

    assert rounds() == 101, "the first rounds deliver all but the held ones"
    while any(len(one.observation.of(TopicHeld)) < 2 for one in instances) or len(others) < 200:
        others += publishing.append(10)
        assert rounds() == 10
    assert publishing.latency_seconds(others) < 2
    assert publishing.pending() == 2

    publishing.make_topic(missing)
    wait_until(lambda: rounds() == 0 and publishing.pending() == 0)

    assert publishing.arrivals() == dict.fromkeys([first_view, second_view, session, *others], 1)
    assert publishing.count("refusals > 0") == 0
    assert publishing.published() == len(others) + 3
    published = dict(publishing.tables.execute("select id::text, published_at from user_activity.outbox"))
    assert published[session] < min(published[first_view], published[second_view]), "it was not in order"
    of_visit = [one for one in publishing.records() if event_id_of(one) in {first_view, second_view, session}]
    by_occurrence = sorted(of_visit, key=lambda record: record.headers["occurred-at"] or b"")
    assert [event_id_of(record) for record in by_occurrence] == [first_view, second_view, session]
    publishing.assert_all_is_well(log.getvalue())

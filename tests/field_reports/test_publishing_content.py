r"""BR-13, BR-53: what arrives is what the outbox holds, to the last byte, and goes on with the trace of its closing.

The outbox's `jsonb` keeps no `\u0000`, no order of keys and no blanks, but every digit of a number.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.brokers import Broker, StartBroker
from tests.end_to_end.reference_consumer import TOPICS
from tests.field_reports.publishing import PublishingScenario, event_id_of, publishing_scenario
from tests.field_reports.scenario import Scenario, SeenObservation

ARRIVES_AS: Final = {
    # The six characters of an escaped NUL, with one backslash before them and with two; in JSON each is doubled.
    r'{"text": "\\u0000"}': r'{"text": "\\u0000"}',
    r'{"text": "\\\\u0000"}': r'{"text": "\\\\u0000"}',
    '{"🏡": "👩‍👩‍👧 sees 🏡"}': '{"🏡": "👩‍👩‍👧 sees 🏡"}',
    r'{"text": "\ud83c\udfe1"}': '{"text": "🏡"}',
    r"""{"text": "\"'`„“\\\""}""": r"""{"text": "\"'`„“\\\""}""",
    r'{"text": "\u0001\b\f\n\r\t\u001f\u007f\u2028"}': '{"text": "\\u0001\\b\\f\\n\\r\\t\\u001f\x7f\u2028"}',
    '{"number": [18446744073709551617, -1e30]}': '{"number": [18446744073709551617, -1' + "0" * 30 + "]}",
    '{"number": [0.10000000000000000000000001, 3.0000, 1e-9]}': (
        '{"number": [0.10000000000000000000000001, 3.0000, 0.000000001]}'
    ),
    '{"number": 1e400}': '{"number": 1' + "0" * 400 + "}",
    '"no object"': '"no object"',
}
"""What other programs may write into the outbox, and the value of its record."""


class TracedObservation(SeenObservation):
    """Has another trace for each time that it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.trace_parents: set[str] = set()

    def trace_parent(self) -> str:
        trace_parent = f"00-{len(self.trace_parents) + 1:032x}-b7ad6b7169203331-01"
        self.trace_parents.add(trace_parent)
        return trace_parent


@pytest.fixture
def publishing(database: str, broker: Broker) -> Iterator[PublishingScenario]:
    with publishing_scenario(database, broker) as scenario:
        yield scenario


def publish_all(publishing: PublishingScenario) -> None:
    """Deliver what is due, by the installed program."""
    with publishing.publisher("--once") as program:
        ended = program.ending()
    assert (ended.exit_code, ended.said, ended.result["pendingEvents"]) == (0, [], 0)
    publishing.assert_all_is_well(ended.text)


def test_payloads_arrive_byte_for_byte(publishing: PublishingScenario) -> None:
    """BR-13: nothing that JSON can say is changed, shortened or an obstacle on its way from outbox to broker."""
    expected = {publishing.append(1, payload=given)[0]: text.encode() for given, text in ARRIVES_AS.items()}
    publish_all(publishing)
    assert {event_id_of(record): record.value for record in publishing.records()} == expected


def test_a_filter_of_whatever_kind_goes_through_closer_and_publisher(
    scenario: Scenario, own_broker: StartBroker
) -> None:
    """BR-13: what a visitor's filter holds is in the record as PostgreSQL gives it, digits of numbers included."""
    views = scenario.add_views(scenario.add_sessions(len(ARRIVES_AS)))
    for view, snapshot in zip(views, ARRIVES_AS, strict=True):
        scenario.execute(
            "update user_activity.property_object_views set filter_snapshot = %s where id = %s", snapshot, view
        )
    assert scenario.closer().run().report.closed_views == len(views)

    with publishing_scenario(scenario.dsn, own_broker(), *TOPICS) as publishing:
        publish_all(publishing)
        values = {record.key: record.value or b"" for record in publishing.records()}

    for view, text in zip(views, ARRIVES_AS.values(), strict=True):
        assert f'"filterSnapshot": {text}'.encode() in values[str(view).encode()]


def test_a_record_carries_the_trace_of_its_closing(scenario: Scenario, own_broker: StartBroker) -> None:
    """BR-53: each transaction of the closer has a trace context, and a record that of the one that closed its row.

    A record of what was closed without a trace has no such header. The publisher is another process. The original has
    50 sessions.
    """
    closer = scenario.closer()
    closer.observation = observation = TracedObservation()
    scenario.add_hanging_views(15)
    scenario.add_views(scenario.add_sessions(20))
    assert closer.run(batch_size=5).report.closed_views == 35
    untraced = scenario.value(
        """update user_activity.outbox set trace_parent = null
           where id = (select id from user_activity.outbox limit 1) returning id::text"""
    )

    with publishing_scenario(scenario.dsn, own_broker(), *TOPICS) as publishing:
        publish_all(publishing)
        traces = {event_id_of(record): record.headers.get("traceparent") for record in publishing.records()}

    rows = scenario.execute("select id::text, trace_parent from user_activity.outbox")
    assert traces == {event_id: trace and trace.encode() for event_id, trace in rows}
    assert traces.pop(untraced) is None
    assert {(trace or b"").decode() for trace in traces.values()} <= observation.trace_parents
    assert len(set(traces.values())) >= 3 + 20 - 1, "a trace of its own for each transaction"

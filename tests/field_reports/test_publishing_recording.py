"""BR-19: the delivery report of an event, or what becomes of it in the database, fails that event alone."""

from collections.abc import Iterator
from io import StringIO

import pytest

from application.ports.publish_observation import RecordingFailed
from tests.brokers import Broker
from tests.end_to_end.program import wait_until
from tests.field_reports.publishing import PublishingScenario, publishing_scenario

_TRAP = """
create table marked (id uuid);
create function refuses_marked() returns trigger language plpgsql as $$
begin
    if exists (select from marked where marked.id = new.id) then
        {action}
    end if;
    return new;
end $$;
create trigger refuses_marked before update on user_activity.outbox
    for each row when (new.published_at is not null) execute function refuses_marked();
"""
RAISES = "raise exception 'not this one: %', new.payload;"
SWALLOWS = "return null;"


@pytest.fixture
def publishing(database: str, broker: Broker) -> Iterator[PublishingScenario]:
    with publishing_scenario(database, broker) as scenario:
        yield scenario


@pytest.mark.parametrize(("action", "kind"), [(RAISES, "P0001"), (SWALLOWS, "not_changed")], ids=["raises", "swallows"])
def test_an_event_whose_arrival_cannot_be_recorded(
    publishing: PublishingScenario, log: StringIO, action: str, kind: str
) -> None:
    """BR-19: 99 of 100 are recorded in round 1, the one is said once, and arrives again once it can be recorded."""
    publishing.tables.execute(_TRAP.format(action=action))
    events = publishing.append(100)
    bad = events[0]
    publishing.tables.execute("insert into marked values (%(id)s)", id=bad)
    publisher = publishing.instance()

    first = publisher.run()

    assert (first.delivered, first.unrecorded, publishing.published()) == (100, 1, 99)
    assert publishing.arrivals() == dict.fromkeys(events, 1)
    publishing.tables.execute("drop trigger refuses_marked on user_activity.outbox")
    wait_until(lambda: publisher.run().delivered == 1)
    assert (publisher.run().delivered, publishing.pending()) == (0, 0)
    assert publishing.arrivals() == {**dict.fromkeys(events, 1), bad: 2}
    failures = publisher.observation.of(RecordingFailed)
    assert [(str(failure.id), failure.kind) for failure in failures] == [(bad, kind)]
    lines = log.getvalue().splitlines()
    assert len([line for line in lines if '"event not recorded"' in line and bad in line]) == 1
    publishing.assert_all_is_well(log.getvalue())

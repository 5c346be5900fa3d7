"""BR-38: publishers side by side share the events and disturb neither each other nor the database."""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, Self

import pytest
from psycopg.conninfo import make_conninfo

from tests.brokers import Broker
from tests.end_to_end.program import Ending, Program, wait_until
from tests.field_reports.publishing import PublishingScenario, publishing_scenario

PUBLISHERS: Final = 4
BATCH_SIZE: Final = 50
IN_FLIGHT_MAX: Final = 2 * BATCH_SIZE
"""What a publisher has sent and not recorded yet, at most."""

# A lease does not say whose it is; and recording takes long enough to be killed in it.
_WATCHED_LEASES: Final = """
create table leased_by (lease uuid primary key, publisher text);
create function note_lease() returns trigger language plpgsql as $$
begin
    insert into leased_by values (new.lease, current_setting('application_name')) on conflict do nothing;
    return null;
end $$;
create trigger note_lease after update on user_activity.outbox_slices
    for each row when (new.lease is distinct from old.lease and new.lease is not null) execute function note_lease();
create function slow_recording() returns trigger language plpgsql as $$
begin
    perform pg_sleep(0.1);
    return null;
end $$;
create trigger slow_recording before update on user_activity.outbox execute function slow_recording();
"""
_HOLDER: Final = """
select publisher from leased_by join user_activity.outbox_slices using (lease) limit 1
"""
_LEASED_BY: Final = """
select id::text
from user_activity.outbox
join user_activity.outbox_slices on slice = (get_byte(uuid_send(id), 15) & 15)
join leased_by using (lease)
where published_at is null and publisher = %(publisher)s
"""
_END_LEASES: Final = """
update user_activity.outbox_slices
set leased_until = clock_timestamp()
where lease in (select lease from leased_by where publisher = %(publisher)s)
"""


@pytest.fixture
def publishing(database: str, broker: Broker) -> Iterator[PublishingScenario]:
    with publishing_scenario(database, broker) as scenario:
        yield scenario


class Publishers:
    """Processes, each known to the database by a name of its own; those that still run in the end are killed."""

    def __init__(self, publishing: PublishingScenario) -> None:
        self._publishing = publishing
        self._stack = ExitStack()
        self._started = 0
        self.running: dict[str, Program] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, publishers: int) -> None:
        """Starts some more, and waits until all are at work."""
        for _ in range(publishers):
            self._started += 1
            name = f"publisher {self._started}"
            program = self._publishing.publisher(
                database_url=make_conninfo(self._publishing.dsn, application_name=name),
                publish_batch_size=str(BATCH_SIZE),
                publish_polling_interval="100ms",
            )
            self.running[name] = self._stack.enter_context(program)
        wait_until(lambda: self.connected() == set(self.running))

    def connected(self) -> set[str]:
        """Those that the server knows."""
        rows = self._publishing.tables.execute(
            """select application_name from pg_stat_activity
               where datname = current_database() and application_name like 'publisher %'"""
        )
        return {row[0] for row in rows}

    def find_holder(self) -> str:
        """One that has leased events, as soon as there is one."""
        found: list[str] = []

        def is_found() -> bool:
            found.extend(row[0] for row in self._publishing.tables.execute(_HOLDER))
            return bool(found)

        wait_until(is_found)
        return found[0]

    def kill(self, name: str) -> Ending:
        """Kills one, and waits until the server has noticed."""
        program = self.running.pop(name)
        program.kill()
        ended = program.ending()
        assert ended.exit_code == -signal.SIGKILL
        wait_until(lambda: self.connected() == set(self.running))
        return ended


def assert_undisturbed(publishing: PublishingScenario, endings: Sequence[Ending]) -> None:
    """Nobody met a conflict with another one: no round failed, nothing was said but how many were published."""
    events = {line["event"] for ended in endings for line in ended.log}
    assert events == {"publisher started", "events published", "publisher stopped"}
    assert publishing.tables.execute("select deadlocks from pg_stat_database where datname = current_database()") == [
        (0,)
    ]


@pytest.mark.slow
def test_four_publishers_send_each_event_once(publishing: PublishingScenario) -> None:
    """BR-38: 5,000 events, no fault: 5,000 messages, and the publishers have shared the work.

    How much faster four are than one is a matter of the benchmark.
    """
    with Publishers(publishing) as publishers:
        publishers.start(PUBLISHERS)
        events = publishing.append(5_000)
        wait_until(lambda: publishing.pending() == 0)
        endings = publishing.end(*publishers.running.values())
    assert publishing.arrivals() == dict.fromkeys(events, 1)
    shares = [sum(line.get("deliveredEvents", 0) for line in ended.log) for ended in endings]
    assert sum(shares) == 5_000
    assert sum(share > 0 for share in shares) > 1
    assert_undisturbed(publishing, endings)


@pytest.mark.slow
def test_killed_publishers_cost_what_they_had_in_flight(publishing: PublishingScenario) -> None:
    """BR-38: kill -9 at random moments loses nothing; at most two batches each arrive again, the same to the byte.

    20 rounds in the original, 4 here, of a publisher that has leased something. That is free again when its lease ends;
    here at once.
    """
    moments = random.Random(20261202)  # noqa: S311 (no secret)
    publishing.tables.execute(_WATCHED_LEASES)
    events: list[str] = []
    in_flight: list[set[str]] = []
    endings: list[Ending] = []
    with Publishers(publishing) as publishers:
        publishers.start(PUBLISHERS)
        for _ in range(4):
            events += publishing.append(1000)
            aim = publishing.published() + moments.randint(1, 300)
            wait_until(lambda aim=aim: publishing.published() >= aim)  # type: ignore[misc]
            doomed = publishers.find_holder()
            endings.append(publishers.kill(doomed))
            in_flight.append({row[0] for row in publishing.tables.execute(_LEASED_BY, publisher=doomed)})
            publishing.tables.execute(_END_LEASES, publisher=doomed)
            publishers.start(1)
        wait_until(lambda: publishing.pending() == 0)
        endings += publishing.end(*publishers.running.values())
    arrivals = publishing.arrivals()
    assert set(arrivals) == set(events)
    repeated = {event_id for event_id, times in arrivals.items() if times > 1}
    assert repeated <= set().union(*in_flight), "an event that no dead publisher had leased arrived again"
    assert all(len(repeated & leased) <= IN_FLIGHT_MAX for leased in in_flight)
    assert any(in_flight), "a kill that hit nothing shows nothing"
    assert_undisturbed(publishing, endings)

"""What the scenarios about publishing are made of: an outbox, a broker, publishers between them, and the aftermath."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from attrs import frozen

from adapters.in_memory.observation import RecordingPublishObservation
from adapters.kafka import KafkaSender
from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.structlog import PublishLog
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.contracts.closer import StopAfter
from application.options import PublisherOptions
from application.ports.publish_observation import PublishOccurrence, PublishReport
from application.publish_outbox import PublishOutboxUseCase
from tests.brokers import Broker, Record
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import PATIENCE_SECONDS, Ending, Program, wait_until
from tests.field_reports.scenario import ANONYMOUS_MARK, PERSONAL_MARKS

PAYLOAD: Final = f'{{"anonymousId": "{ANONYMOUS_MARK}-1f0e-4b0c-9d3a-5a7d7c1f2e3b"}}'
"""Personal, so that it can be looked for in whatever a publisher says."""

_APPEND: Final = """
insert into user_activity.outbox
    (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, occurred_at)
select id, 'Session', gen_random_uuid(), 'SessionEndedKafkaEvent', 1, %(topic)s, %(payload)s::jsonb, gen_random_uuid(),
       coalesce(%(occurred_at)s, clock_timestamp())
from unnest(%(ids)s::uuid[]) as event (id)
"""
_EVENTS: Final = """
select id::text, topic, aggregate_id::text, event_type, contract_version::text, correlation_id::text,
       to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), trace_parent, payload::text,
       published_at is not null
from user_activity.outbox
"""
_LATENCY: Final = """
select extract(epoch from percentile_cont(0.95) within group (order by published_at - occurred_at))
from user_activity.outbox
where id = any(%(ids)s::uuid[])
"""
_LEFT_OPEN: Final = """
select pid from pg_stat_activity
where datname = current_database() and application_name = 'activity-closer' and state <> 'idle'
"""


class SeenPublishObservation(RecordingPublishObservation):
    """Remembers what happened, and writes it into the log."""

    def __init__(self) -> None:
        super().__init__()
        self._log = PublishLog()

    def record(self, occurrence: PublishOccurrence) -> None:
        super().record(occurrence)
        self._log.record(occurrence)


class Instance:
    """A publisher in this process, of which the test does the rounds."""

    def __init__(self, dsn: str, broker: Broker, options: PublisherOptions) -> None:
        self.observation = SeenPublishObservation()
        self._store = PostgresOutboxStore(dsn)
        self._sender = KafkaSender({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": "10000"})
        self._use_case = PublishOutboxUseCase(
            store=self._store,
            sender=self._sender,
            identifiers=Uuid7Identifiers(),
            observation=self.observation,
            cancellation=StopAfter(None),
            options=options,
        )

    def run(self) -> PublishReport:
        """One round, on which the store does not fail."""
        ended = self._use_case.run()
        assert ended.error is None
        return ended.report

    def close(self) -> None:
        """Lets go of broker and database."""
        self._sender.close()
        self._store.close()


@frozen(kw_only=True)
class _Event:
    """An event of the outbox, and what its record has to be (D-11)."""

    topic: str
    key: bytes
    value: bytes
    headers: dict[str, bytes]
    is_published: bool

    def is_said_by(self, record: Record) -> bool:
        """Whether a record is this event's, byte for byte."""
        return (record.topic, record.key, record.value, record.headers) == (
            self.topic,
            self.key,
            self.value,
            self.headers,
        )


class PublishingScenario:
    """A database, a broker with a topic of the scenario's own, and the publishers at work between them."""

    def __init__(self, dsn: str, broker: Broker) -> None:
        self.dsn = dsn
        self.broker = broker
        self.tables = ActivityTables(dsn)
        self.topic = f"test.{uuid4().hex}"
        self._topics: list[str] = []
        self._instances: list[Instance] = []

    def make_topic(self, name: str) -> None:
        """Makes a topic, which belongs to the scenario from then on."""
        self.broker.create_topics(name)
        self._topics.append(name)

    def append(
        self, events: int, *, topic: str | None = None, payload: str = PAYLOAD, occurred_at: datetime | None = None
    ) -> list[str]:
        """Adds events that occurred now, or then, with ids in the order of time; answers their ids."""
        now, identifiers = datetime.now(UTC), Uuid7Identifiers()
        ids = [identifiers.new(now) for _ in range(events)]
        self.tables.execute(_APPEND, ids=ids, topic=topic or self.topic, payload=payload, occurred_at=occurred_at)
        return [str(event_id) for event_id in ids]

    def append_at_a_rate(self, *, per_second: int, until: Callable[[], bool]) -> list[str]:
        """Adds events one by one until the condition holds; answers their ids."""
        appended: list[str] = []
        began = time.monotonic()

        def is_next_one_due() -> bool:
            return time.monotonic() - began >= len(appended) / per_second

        while not until():
            assert time.monotonic() - began < PATIENCE_SECONDS, "what was waited for did not happen"
            appended += self.append(1)
            wait_until(is_next_one_due)
        return appended

    def latency_seconds(self, ids: Sequence[str]) -> float:
        """How long after they occurred 95 % of the events were recorded as delivered."""
        [(seconds,)] = self.tables.execute(_LATENCY, ids=list(ids))
        return float(seconds)

    def publisher(self, *arguments: str, before: Sequence[str] = (), **settings: str) -> Program:
        """The installed program, as a process that publishes."""
        settings = {"database_url": self.dsn, "kafka_bootstrap_servers": self.broker.bootstrap_servers, **settings}
        return Program("publish", *arguments, before=before, **settings)

    def end(self, *programs: Program) -> list[Ending]:
        """Ends processes by a signal, in order; none has said anything personal, or anything beside its log."""
        for program in programs:
            program.send(signal.SIGTERM)
        endings = [program.ending() for program in programs]
        assert [(ended.exit_code, ended.said) for ended in endings] == [(0, [])] * len(programs)
        assert {ended.log[-1]["event"] for ended in endings} == {"publisher stopped"}
        self.assert_all_is_well(*(ended.text for ended in endings))
        return endings

    def instance(self, **options: object) -> Instance:
        """A publisher in this process; it ends with the scenario."""
        made = Instance(self.dsn, self.broker, PublisherOptions(**options))  # type: ignore[arg-type] # names any option
        self._instances.append(made)
        return made

    def close(self) -> None:
        """Ends the publishers in this process."""
        for instance in self._instances:
            instance.close()

    def ids(self, condition: str) -> set[str]:
        """The events for which an SQL condition holds."""
        rows = self.tables.execute(f"select id::text from user_activity.outbox where {condition}")
        return {row[0] for row in rows}

    def count(self, condition: str) -> int:
        """For how many events an SQL condition holds."""
        [(count,)] = self.tables.execute(f"select count(*) from user_activity.outbox where {condition}")
        return int(count)

    def published(self) -> int:
        """How many events are recorded as delivered."""
        return self.count("published_at is not null")

    def pending(self) -> int:
        """How many events have to be delivered yet."""
        return self.count("published_at is null and dead_at is null")

    def leased_slices(self) -> set[int]:
        """The parts of the outbox that are being sent."""
        rows = self.tables.execute("select slice from user_activity.outbox_slices where lease is not null")
        return {row[0] for row in rows}

    def records(self) -> list[Record]:
        """What the broker has of all topics of the scenario, in order within a partition."""
        return self.broker.read_all(*self._topics)

    def arrivals(self) -> Counter[str]:
        """How often each event has arrived, by its id."""
        return Counter(event_id_of(record) for record in self.records())

    def assert_all_is_well(self, *texts: str) -> None:
        """What holds after every scenario.

        What is recorded as delivered has arrived, whatever has arrived is an event of the outbox, byte for byte and
        each time; nothing is left open, and nothing personal was said.
        """
        events, records = self._events(), self.records()
        assert not [record for record in records if not events[event_id_of(record)].is_said_by(record)]
        arrived = {event_id_of(record) for record in records}
        assert not [event_id for event_id, event in events.items() if event.is_published and event_id not in arrived]
        assert not self.tables.execute(_LEFT_OPEN)
        assert_nothing_personal_in(*texts)

    def _events(self) -> dict[str, _Event]:
        return {row[0]: _event_of(row) for row in self.tables.execute(_EVENTS)}


@contextmanager
def publishing_scenario(dsn: str, broker: Broker, *topics: str) -> Iterator[PublishingScenario]:
    """A scenario with these topics, or one of its own, and in the end what holds after every scenario."""
    with closing(PublishingScenario(dsn, broker)) as scenario:
        for topic in topics or [scenario.topic]:
            scenario.make_topic(topic)
        yield scenario
        scenario.assert_all_is_well()


def assert_nothing_personal_in(*texts: str) -> None:
    """No mark of a payload or a row is in what publishers, or commands about the outbox, have said."""
    assert not [mark for mark in PERSONAL_MARKS if any(mark in text for text in texts)], "personal data came out"


def event_id_of(record: Record) -> str:
    """Which event a record says."""
    return str(UUID((record.headers["event-id"] or b"").decode()))


def _event_of(row: Sequence[str | bool | None]) -> _Event:
    event_id, topic, aggregate_id, event_type, version, correlation_id, occurred_at, trace_parent, payload = map(
        str, row[:9]
    )
    headers = {
        "event-id": event_id,
        "event-type": event_type,
        "contract-version": version,
        "correlation-id": correlation_id,
        "occurred-at": occurred_at,
        "content-type": "application/json",
    }
    if row[7] is not None:
        headers["traceparent"] = trace_parent
    return _Event(
        topic=topic,
        key=aggregate_id.encode(),
        value=payload.encode(),
        headers={name: value.encode() for name, value in headers.items()},
        is_published=bool(row[9]),
    )

"""Debezium's outbox event router serves the outbox by `deploy/debezium` alone (specification §6, D-10, D-11).

The real connector reads a real server, as the login that the deployment describes; only Kafka is left out.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from adapters.postgres.migrations import migrate
from adapters.postgres.store import PostgresActivityStore
from application.event_contract import headers_of, key_of, message_of
from application.ports.outbox import OutboxMessage
from domain.closing import Ended, HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.databases import OwnServer
from tests.debezium.connector import DEPLOYMENT, LIBRARIES_VARIABLE, Connector, KafkaRecord
from tests.debezium.loopback import Loopback
from tests.end_to_end.program import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        LIBRARIES_VARIABLE not in os.environ,
        reason=f"{LIBRARIES_VARIABLE} does not name a folder with the jars of tests/debezium/pom.xml",
    ),
]

TRACE_PARENT: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BEGAN: Final = datetime(2026, 12, 1, 10, 30, tzinfo=UTC)
FILTER: Final = '{"to": 123456789012345678901234567890, "exact":  1.10000000000000000000001, "text": "Тверь \\\\ \\""}'


class Outbox:
    """The outbox of a server that is set up as the deployment says."""

    def __init__(self, dsn: str) -> None:
        migrate(dsn)
        self._store = PostgresActivityStore(dsn)
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute((DEPLOYMENT / "publication.sql").read_bytes())
        self.execute("create role outbox_connector login replication in role activity_debezium")

    def close(self) -> None:
        self._connection.close()
        self._store.close()

    def append(self, *messages: OutboxMessage) -> None:
        """As the closer does it."""
        with self._store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()

    def execute(
        self, statement: LiteralString, parameters: Sequence[object] = ()
    ) -> psycopg.Cursor[tuple[object, ...]]:
        return self._connection.execute(statement, parameters or None)

    def scalar(self, statement: LiteralString, parameters: Sequence[object] = ()) -> object:
        row = self.execute(statement, parameters).fetchone()
        assert row is not None
        return row[0]

    def expected(self, message: OutboxMessage) -> KafkaRecord:
        """What our own publisher would send of a row, and a header of nothing where there is no trace."""
        payload = self.scalar("select payload::text from user_activity.outbox where id = %s", [message.id])
        headers = {"traceparent": None} | {name: value.decode() for name, value in headers_of(message)}
        return KafkaRecord(
            topic=message.topic, key=key_of(message).decode(), value=str(payload), headers=sorted(headers.items())
        )


@pytest.fixture
def dsn(own_server: OwnServer) -> str:
    """A server whose log can be decoded."""
    return own_server(settings={"wal_level": "logical"}).dsn()


@pytest.fixture
def outbox(dsn: str) -> Iterator[Outbox]:
    with closing(Outbox(dsn)) as outbox:
        yield outbox


@pytest.fixture
def start_connector(dsn: str, tmp_path: Path) -> Iterator[Callable[[], Connector]]:
    with Loopback(dsn) as loopback, ExitStack() as connectors:

        def start() -> Connector:
            overrides = {"heartbeat.interval.ms": "500", "poll.interval.ms": "50"}
            connector = Connector(port=loopback.port, user="outbox_connector", folder=tmp_path, overrides=overrides)
            return connectors.enter_context(connector)

        yield start


def test_kafka_gets_what_our_publisher_would_send(outbox: Outbox, start_connector: Callable[[], Connector]) -> None:
    """Topic, key, headers and, to the letter, the payload; of rows that were there before, and of later ones."""
    before = [a_session_ended(1), a_view_ended(2, trace_parent=TRACE_PARENT)]
    after = [a_view_ended(3), a_session_ended(4, trace_parent=TRACE_PARENT)]
    outbox.append(*before)
    connector = start_connector()
    connector.wait_for(len(before))
    outbox.append(*after)

    records = connector.wait_for(len(before + after))

    assert records == [outbox.expected(message) for message in before + after]
    assert read(records[2].value)["filterSnapshot"] == read(FILTER)


def test_each_pending_insertion_is_sent_once(outbox: Outbox, start_connector: Callable[[], Connector]) -> None:
    """Not what our publisher sent already, no update, no deletion; nothing again after a restart in order."""
    published, pending, removed, last, missed = (a_session_ended(number) for number in range(1, 6))
    outbox.append(published, pending)
    outbox.execute("update user_activity.outbox set published_at = now() where id = %s", [published.id])
    connector = start_connector()
    connector.wait_for(1)
    outbox.append(removed)
    outbox.execute("update user_activity.outbox set trace_parent = ''")
    outbox.execute("delete from user_activity.outbox where id = %s", [removed.id])
    outbox.append(last)
    connector.wait_for(3)
    assert ids_of(connector.stop()) == [pending.id, removed.id, last.id]

    outbox.append(missed)
    connector.start()
    connector.wait_for(1)
    assert ids_of(connector.stop()) == [missed.id]


def test_a_lost_slot_loses_no_event(outbox: Outbox, start_connector: Callable[[], Connector]) -> None:
    """What is in the outbox is sent again: rather twice than never."""
    sent, missed = a_session_ended(1), a_session_ended(2)
    outbox.append(sent)
    connector = start_connector()
    connector.wait_for(1)
    connector.stop()
    wait_until(lambda: outbox.scalar("select active from pg_replication_slots") is False)
    outbox.execute("select pg_drop_replication_slot('activity_closer_outbox')")
    outbox.append(missed)

    connector.start()

    assert ids_of(connector.wait_for(2)) == [sent.id, missed.id]


def test_a_quiet_outbox_holds_no_log(outbox: Outbox, start_connector: Callable[[], Connector]) -> None:
    """The slot follows what other tables write, or their log would fill the disk."""
    outbox.append(a_session_ended(1))
    start_connector().wait_for(1)
    outbox.execute("create table elsewhere as select repeat('x', 1000) from generate_series(1, 1000)")
    written = outbox.scalar("select pg_current_wal_lsn()")

    wait_until(lambda: outbox.scalar("select confirmed_flush_lsn >= %s from pg_replication_slots", [written]) is True)


def a_session_ended(number: int, *, trace_parent: str | None = None) -> OutboxMessage:
    """At a time whose fraction is zero."""
    session = Session.start(session_id=uuid4(), anonymous_id=uuid4(), user_id=None, now=BEGAN)
    [ended] = OpenSession(session=session, open_views=()).close(BEGAN + timedelta(minutes=15))
    return a_message(number, ended, trace_parent)


def a_view_ended(number: int, *, trace_parent: str | None = None) -> OutboxMessage:
    """With a filter whose numbers no double could hold, at a time whose fraction ends in a zero."""
    view = PropertyObjectView.open(
        view_id=uuid4(),
        property_object_id=uuid4(),
        session_id=uuid4(),
        anonymous_id=uuid4(),
        view_source="search",
        filter_snapshot=FILTER,
        now=BEGAN,
    )
    [ended] = HangingView(view=view, user_id=uuid4()).close(BEGAN + timedelta(minutes=15, milliseconds=120))
    return a_message(number, ended, trace_parent)


def a_message(number: int, ended: Ended, trace_parent: str | None) -> OutboxMessage:
    """Ids in the order of the numbers: rows that were there before come in this order."""
    return message_of(ended, message_id=UUID(int=number), correlation_id=uuid4(), trace_parent=trace_parent)


def ids_of(records: Sequence[KafkaRecord]) -> list[UUID]:
    return [UUID(dict(record.headers)["event-id"]) for record in records]


def read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)

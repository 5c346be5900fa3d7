"""The audit beside those whose work it judges: what they are doing is never a finding (specification §10)."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import timedelta
from itertools import cycle
from threading import Event
from typing import Final
from uuid import UUID, uuid4

import pytest

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.message_sending import InMemoryBroker, InMemorySender
from adapters.in_memory.observation import NoObservation, RecordingPublishObservation
from adapters.postgres.auditing import PostgresActivityAudit
from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.store import PostgresActivityStore
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.audit_activity import WARNINGS
from application.close_idle_activity import CloserUseCase
from application.contracts.closer import StopAfter
from application.online.errors import SessionNotFound
from application.options import CloserOptions, PublisherOptions
from application.ports.activity_audit import AuditTerms, Finding
from application.ports.store_errors import StoreError
from application.publish_outbox import PublishOutboxUseCase
from bootstrap.demo.visitors import OnlineService
from tests.postgres.audited_tables import AuditedTables, Sizes

RETENTION: Final = timedelta(seconds=2)
DEADLINE_SECONDS: Final = 90.0
SILENT_SESSIONS: Final = 40
AUDITS: Final = 8
CLOSED_ROWS: Final = 1_000
REMOVED_EVENTS: Final = 300

_SILENT: Final = """
    select count(*) from user_activity.sessions
    where status = 'Active' and last_activity_at < now() - interval '12 min'"""


class Work:
    """Everybody who may be at work on one database, in threads; each does one thing again and again."""

    def __init__(self, tables: AuditedTables) -> None:
        self.tables = tables
        self.removed: list[int] = []
        self._devices = cycle([uuid4() for _ in range(7)])
        self._users = cycle([uuid4(), uuid4()])

    @contextmanager
    def silence(self) -> Iterator[Callable[[], None]]:
        """More sessions fall silent, and views in them and before them, as fast as they are closed."""

        def fall_silent() -> None:
            [(silent,)] = self.tables.execute(_SILENT)
            if silent < SILENT_SESSIONS:
                self.tables.add_sessions(20, views=2)
                self.tables.add_sessions(20, views=2, views_silent="1 min")

        yield fall_silent

    @contextmanager
    def closer(self) -> Iterator[Callable[[], None]]:
        """Closes what is stale."""
        with closing(PostgresActivityStore(self.tables.dsn)) as store:
            use_case = CloserUseCase(
                store=store,
                identifiers=Uuid7Identifiers(),
                observation=NoObservation(),
                cancellation=StopAfter(None),
                options=CloserOptions(batch_size=20),
            )

            def close() -> None:
                assert use_case.run().error is None

            yield close

    @contextmanager
    def visitor(self) -> Iterator[Callable[[], None]]:
        """Begins a session, opens views, beats, signs in, and switches the user, which closes a session as well."""
        with closing(PostgresActivityStore(self.tables.dsn)) as store:
            service = OnlineService.over(store, Uuid7Identifiers())

            def visit() -> None:
                device = next(self._devices)
                with suppress(SessionNotFound, StoreError):  # an error page: this visitor gives up
                    session_id = service.start_session(anonymous_id=device).id
                    views = [self._open_view(service, session_id) for _ in range(2)]
                    service.session_heartbeat(anonymous_id=device)
                    service.view_heartbeat(view_id=views[0])
                    for _ in range(3):
                        service.link_session(anonymous_id=device, user_id=next(self._users))

            yield visit

    def _open_view(self, service: OnlineService, session_id: UUID) -> UUID:
        return service.open_view(
            session_id=session_id, property_object_id=uuid4(), view_source="Map", filter_snapshot='{"rooms": 1.50}'
        ).id

    @contextmanager
    def publisher(self) -> Iterator[Callable[[], None]]:
        """Delivers events, and removes at once those whose time is over."""
        with closing(PostgresOutboxStore(self.tables.dsn)) as store:
            use_case = PublishOutboxUseCase(
                store=store,
                sender=InMemorySender(InMemoryBroker(), SettableClock()),
                identifiers=Uuid7Identifiers(),
                observation=RecordingPublishObservation(),
                cancellation=StopAfter(None),
                options=PublisherOptions(batch_size=50),
            )

            def publish() -> None:
                assert use_case.run().error is None
                with store.begin() as unit_of_work:
                    removed = unit_of_work.upkeep.remove_published(store.clock.read() - RETENTION, 200)
                    unit_of_work.commit()
                self.removed.append(removed)

            yield publish


@contextmanager
def going_on(work: Work) -> Iterator[None]:
    """Two of each at work until the end of the block."""
    stop = Event()

    def repeat(role: Callable[[], AbstractContextManager[Callable[[], None]]]) -> None:
        with role() as step:
            while not stop.is_set():
                step()

    roles = [work.silence, *[work.closer, work.visitor, work.publisher] * 2]
    with ThreadPoolExecutor(len(roles)) as threads:
        working = [threads.submit(repeat, role) for role in roles]
        try:
            yield
        finally:
            stop.set()
    for one in working:
        one.result()


def violations_in(audit: PostgresActivityAudit) -> list[Finding]:
    """What an audit finds that judges up to the last moment for which events are kept."""
    now = audit.clock.read()
    terms = AuditTerms(
        overdue_before=now - timedelta(minutes=24),
        rows_kept_since=now - timedelta(days=365),
        events_kept_for=RETENTION,
    )
    found = [finding for part in audit.examine(terms) for finding in part.findings]
    return [finding for finding in found if finding.kind not in WARNINGS]


@pytest.mark.slow
def test_nothing_is_found_while_all_are_at_work(database: str) -> None:
    """Rows are closed, linked and switched, events added, marked and removed, between any two of its statements."""
    tables = AuditedTables(database)
    work = Work(tables)
    audits = 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    with going_on(work), closing(Sizes(page_rows=200, closed_rows_max=500).audit_of(database)) as audit:
        while audits < AUDITS or tables.closed() < CLOSED_ROWS or sum(work.removed) < REMOVED_EVENTS:
            assert violations_in(audit) == []
            audits += 1
            assert time.monotonic() < deadline, (audits, tables.counts(), sum(work.removed))

"""A database whose rows real closers have closed, to be spoilt by SQL and audited."""

from contextlib import closing
from datetime import timedelta
from uuid import UUID, uuid4

from attrs import frozen

from adapters.in_memory.observation import NoObservation
from adapters.postgres.auditing import CLOSED_ROWS_MAX, ODD_ROWS_MAX, PAGE_ROWS, PostgresActivityAudit
from adapters.postgres.store import PostgresActivityStore
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.audit_activity import AuditOptions, AuditReport, AuditUseCase
from application.close_idle_activity import CloserUseCase
from application.contracts.closer import StopAfter
from application.options import CloserOptions
from application.ports.activity_audit import Finding, RowKind
from tests.end_to_end.activity_tables import ActivityTables

RETENTION = timedelta(days=7)

_ADD_ACTIVE = """
    with session as (
        insert into user_activity.sessions (id, anonymous_id, user_id, status, created_at, last_activity_at)
        values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'Active', now() - interval '1 hour', now())
        returning id, anonymous_id
    )
    insert into user_activity.property_object_views
        (id, property_object_id, session_id, anonymous_id, view_source, status, created_at, last_activity_at)
    select gen_random_uuid(), gen_random_uuid(), id, anonymous_id, 'Map', 'Active', now() - interval '1 hour', now()
    from session
    returning session_id, id"""
_COPY_EVENT = """
    insert into user_activity.outbox (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload,
                                      correlation_id, occurred_at)
    select %(copy)s, aggregate_type, %(row)s, event_type, contract_version, topic, payload, correlation_id, occurred_at
    from user_activity.outbox where id = %(id)s"""


@frozen(kw_only=True)
class Audited:
    """A row, and the event of a closed one."""

    kind: RowKind
    id: UUID
    event_id: UUID | None = None

    @property
    def table(self) -> str:
        """Where it is."""
        return f"user_activity.{'sessions' if self.kind is RowKind.SESSION else 'property_object_views'}"


@frozen(kw_only=True)
class Visit:
    """A session with one view."""

    session: Audited
    view: Audited

    def row(self, kind: RowKind) -> Audited:
        """One of the two."""
        return self.session if kind is RowKind.SESSION else self.view


@frozen(kw_only=True)
class Sizes:
    """In what portions an audit reads."""

    page_rows: int = PAGE_ROWS
    closed_rows_max: int = CLOSED_ROWS_MAX
    odd_rows_max: int = ODD_ROWS_MAX

    def audit_of(self, dsn: str) -> PostgresActivityAudit:
        """One that reads so."""
        return PostgresActivityAudit(
            dsn, page_rows=self.page_rows, closed_rows_max=self.closed_rows_max, odd_rows_max=self.odd_rows_max
        )


class AuditedTables(ActivityTables):
    """The tables of a database that was adopted so long ago; None: when it was in fact."""

    def __init__(self, dsn: str, *, adopted: str | None = "30 days") -> None:
        super().__init__(dsn)
        if adopted is not None:
            self.adopt(adopted)

    def adopt(self, ago: str) -> None:
        """The database was adopted so long ago."""
        self.execute(f"update user_activity.activity_closer_adoption set adopted_at = now() - interval '{ago}'")

    def close(self) -> None:
        """Closes what is stale, by the real closer."""
        with closing(PostgresActivityStore(self.dsn)) as store:
            ended = CloserUseCase(
                store=store,
                identifiers=Uuid7Identifiers(),
                observation=NoObservation(),
                cancellation=StopAfter(None),
                options=CloserOptions(),
            ).run()
        assert ended.error is None

    def closed_visits(self, count: int, *, views_silent: str | None = None) -> list[Visit]:
        """Visits that a closer has closed: views that are as silent as their sessions by themselves, before them."""
        before = {row[0] for row in self.execute("select id from user_activity.sessions")}
        self.add_sessions(count, views=1, views_silent=views_silent)
        self.close()
        rows = self.execute(
            """select session.id, view.id, session_event.id, view_event.id
               from user_activity.sessions as session
               join user_activity.property_object_views as view on view.session_id = session.id
               join user_activity.outbox as session_event on session_event.aggregate_id = session.id
               join user_activity.outbox as view_event on view_event.aggregate_id = view.id"""
        )
        visits = [_visit(*row) for row in rows if row[0] not in before]
        assert len(visits) == count
        return visits

    def active_visit(self) -> Visit:
        """A visit of this moment, signed in."""
        [(session, view)] = self.execute(_ADD_ACTIVE)
        return _visit(session, view)

    def copy_event(self, row: Audited, *, of: UUID) -> UUID:
        """Adds the event of a row once more, as that of another row; answers its id."""
        copy = uuid4()
        self.execute(_COPY_EVENT, id=row.event_id, row=of, copy=copy)
        return copy

    def audit(
        self,
        *,
        dsn: str | None = None,
        retention: timedelta | None = RETENTION,
        sizes: Sizes | None = None,
    ) -> AuditReport:
        """What an audit comes to, with all that it finds."""
        tables = (sizes or Sizes()).audit_of(dsn or self.dsn)
        options = AuditOptions(
            inactivity_threshold=timedelta(minutes=12), outbox_retention=retention, examples_max=100_000
        )
        with closing(tables):
            return AuditUseCase(audit=tables, options=options, observe=lambda _: None).run()


def findings_of(report: AuditReport) -> list[Finding]:
    """All of them, by kind, then in the order in which they were found."""
    return [finding for found in report.found.values() for finding in found.examples]


def _visit(session: UUID, view: UUID, session_event: UUID | None = None, view_event: UUID | None = None) -> Visit:
    return Visit(
        session=Audited(kind=RowKind.SESSION, id=session, event_id=session_event),
        view=Audited(kind=RowKind.PROPERTY_OBJECT_VIEW, id=view, event_id=view_event),
    )

"""Looking through the tables while others work on them.

Each check is one statement, so that one snapshot shows it both sides of what is committed together. Tables are walked
over in ranges of ids, a short transaction each, so that no snapshot is held for long.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from attrs import frozen

from adapters.postgres.store import ConnectedStore
from adapters.postgres.transaction import Transaction, TransactionOptions, Values
from application.event_contract import CONTRACT_VERSION, PROPERTY_OBJECT_VIEW_ENDED, SESSION_ENDED
from application.ports.activity_audit import AuditTerms, Examined, Finding, FindingKind, RowKind
from application.ports.store_errors import TransactionRefused

PAGE_ROWS: Final = 10_000
"""Rows of a range; its checks take some tenths of a second."""
CLOSED_ROWS_MAX: Final = 500_000
"""Closed rows whose events are looked for at once: each time the whole outbox is read."""
ODD_ROWS_MAX: Final = 50_000
"""Of those, the ones without just one event that are answered at once; where there are more, the rest is asked for."""

_FIRST_ID: Final = UUID(int=0)
_LAST_ID: Final = UUID(int=2**128 - 1)

Parameters = Mapping[str, object]

_CONTRACT: Final[Parameters] = {
    "contract_version": CONTRACT_VERSION,
    "session_aggregate_type": SESSION_ENDED.aggregate_type,
    "session_event_type": SESSION_ENDED.event_type,
    "session_topic": SESSION_ENDED.topic,
    "view_aggregate_type": PROPERTY_OBJECT_VIEW_ENDED.aggregate_type,
    "view_event_type": PROPERTY_OBJECT_VIEW_ENDED.event_type,
    "view_topic": PROPERTY_OBJECT_VIEW_ENDED.topic,
}


@frozen(kw_only=True)
class _Table:
    """What is asked of a table."""

    name: str
    next_range: Callable[[Transaction, Parameters], Sequence[Values]]
    """Of the next range: its rows, those of them that are closed and need an event, its last id (None without rows)."""
    check: Callable[[Transaction, Parameters], list[Finding]]
    odd_rows: Callable[[Transaction, Parameters], Sequence[Sequence[Values]]]
    """The closed rows of a range that have not just one event; and the time, asked after that."""
    row_kind: RowKind


class PostgresActivityAudit(ConnectedStore):
    """Reads what the role of readers may read (deploy/roles.sql)."""

    def __init__(
        self,
        dsn: str,
        *,
        options: TransactionOptions | None = None,
        page_rows: int = PAGE_ROWS,
        closed_rows_max: int = CLOSED_ROWS_MAX,
        odd_rows_max: int = ODD_ROWS_MAX,
    ) -> None:
        # Not prepared: each range is planned for itself, which takes less than a hundredth of its time.
        super().__init__(dsn, options=options, prepared_statements="off")
        self._page_rows = page_rows
        self._closed_rows_max = closed_rows_max
        self._odd_rows_max = odd_rows_max

    def examine(self, terms: AuditTerms) -> Iterator[Examined]:
        parameters = self._parameters(terms)
        yield from self._repeated_sessions()
        for table in (_SESSIONS, _VIEWS):
            yield from self._rows(table, parameters, terms)
        yield from self._events(parameters)

    def _parameters(self, terms: AuditTerms) -> Parameters:
        with self._reading() as transaction:
            adoption, [(now,)] = transaction.fetch_all_partially(("audit_read_adoption", {}), ("read_clock", {}))
        if not adoption:
            reason = "user_activity.activity_closer_adoption has lost its row: drop the table, and migrate again"
            raise TransactionRefused(kind="no_adoption", reason=reason)
        [(adopted_at,)] = adoption
        return {
            **_CONTRACT,
            "adopted_at": adopted_at,
            "ended_since": None if terms.events_kept_for is None else max(adopted_at, now - terms.events_kept_for),
            "overdue_before": terms.overdue_before,
            "rows_kept_since": terms.rows_kept_since,
        }

    def _repeated_sessions(self) -> Iterator[Examined]:
        first: UUID | None = _FIRST_ID
        while first is not None:
            with self._reading() as transaction:
                rows = transaction.fetch("audit_repeated_sessions", first=first, limit=self._page_rows)
            yield Examined(what=_SESSIONS.name, rows=0, findings=_findings(RowKind.SESSION, rows))
            first = _next_id(rows[-1][1]) if len(rows) == self._page_rows else None

    def _rows(self, table: _Table, parameters: Parameters, terms: AuditTerms) -> Iterator[Examined]:
        first: UUID | None = _FIRST_ID
        closed, closed_first = 0, first
        while first is not None:
            with self._reading() as transaction:
                asked = {**parameters, "first": first, "limit": self._page_rows}
                [(rows, closed_rows, last)] = table.next_range(transaction, asked)
                last = last or _LAST_ID
                findings = table.check(transaction, {**asked, "last": last})
            yield Examined(what=table.name, rows=rows, findings=findings)
            first = _next_id(last) if rows == self._page_rows else None
            closed += closed_rows
            if closed and (closed >= self._closed_rows_max or first is None):
                yield from self._odd_rows(table, {**parameters, "last": last}, closed_first, terms)
                closed, closed_first = 0, first

    def _odd_rows(
        self, table: _Table, parameters: Parameters, first: UUID | None, terms: AuditTerms
    ) -> Iterator[Examined]:
        assert terms.events_kept_for is not None, "or no row would need an event"
        while first is not None:
            with self._reading() as transaction:
                asked = {**parameters, "first": first, "limit": self._odd_rows_max}
                rows, [(now,)] = table.odd_rows(transaction, asked)
            # Whose event may have been removed before the statement began, or while it was waiting to begin.
            kept = [row for row in rows if row[1] >= now - terms.events_kept_for]
            yield Examined(what=table.name, rows=0, findings=_of_odd_rows(table.row_kind, kept))
            first = _next_id(rows[-1][0]) if len(rows) == self._odd_rows_max else None

    def _events(self, parameters: Parameters) -> Iterator[Examined]:
        first: UUID | None = _FIRST_ID
        while first is not None:
            with self._reading() as transaction:
                [(rows, last)] = transaction.fetch("audit_next_events", first=first, limit=self._page_rows)
                asked = {**parameters, "first": first, "last": last}
                of_sessions, of_views = transaction.fetch_all_partially(
                    ("audit_session_events", asked), ("audit_view_events", asked)
                )
            findings = [
                *_findings(RowKind.SESSION, of_sessions),
                *_findings(RowKind.PROPERTY_OBJECT_VIEW, of_views),
            ]
            yield Examined(what="events", rows=rows, findings=findings)
            first = _next_id(last) if rows == self._page_rows else None

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        """A short transaction that can change nothing."""
        transaction = Transaction(self._connections, self._unguarded_options)
        transaction.begin()
        try:
            transaction.send("audit_read_only")
            yield transaction
            transaction.commit()
        finally:
            transaction.roll_back()


def _check_sessions(transaction: Transaction, parameters: Parameters) -> list[Finding]:
    return _findings(RowKind.SESSION, transaction.fetch("audit_sessions", **parameters))


def _check_views(transaction: Transaction, parameters: Parameters) -> list[Finding]:
    alone, under_sessions = transaction.fetch_all_partially(
        ("audit_views", parameters), ("audit_active_views_of_inactive_sessions", parameters)
    )
    return _findings(RowKind.PROPERTY_OBJECT_VIEW, [*alone, *under_sessions])


_SESSIONS: Final = _Table(
    name="sessions",
    row_kind=RowKind.SESSION,
    next_range=lambda transaction, asked: transaction.fetch("audit_next_sessions", **asked),
    check=_check_sessions,
    odd_rows=lambda transaction, asked: transaction.fetch_all_partially(
        ("audit_events_of_sessions", asked), ("read_clock", {})
    ),
)
_VIEWS: Final = _Table(
    name="views",
    row_kind=RowKind.PROPERTY_OBJECT_VIEW,
    next_range=lambda transaction, asked: transaction.fetch("audit_next_views", **asked),
    check=_check_views,
    odd_rows=lambda transaction, asked: transaction.fetch_all_partially(
        ("audit_events_of_views", asked), ("read_clock", {})
    ),
)


def _findings(row_kind: RowKind, rows: Sequence[Values]) -> list[Finding]:
    """From a kind, a row's id, and, where events are concerned, their ids and differences."""
    return [
        Finding(
            kind=FindingKind(kind),
            row_kind=row_kind,
            row_id=row_id,
            event_ids=tuple(event[0]) if event else (),
            differences=tuple(event[1] or ()) if event else (),
        )
        for kind, row_id, *event in rows
    ]


def _of_odd_rows(row_kind: RowKind, rows: Sequence[Values]) -> list[Finding]:
    """From a row's id, the end of its row, and the ids of its events."""
    return [
        Finding(
            kind=FindingKind.CLOSED_ROW_WITH_SEVERAL_EVENTS if event_ids else FindingKind.CLOSED_ROW_WITHOUT_EVENT,
            row_kind=row_kind,
            row_id=row_id,
            event_ids=tuple(event_ids or ()),
        )
        for row_id, _ended_at, event_ids in rows
    ]


def _next_id(last: UUID) -> UUID | None:
    return None if last == _LAST_ID else UUID(int=last.int + 1)

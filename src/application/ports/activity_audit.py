"""Looking through all that is stored for what must never be there."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from attrs import frozen

from application.ports.clock import Clock


class FindingKind(StrEnum):
    """What an audit finds; the values are its names for programs."""

    ACTIVE_VIEW_OF_INACTIVE_SESSION = "active_view_of_inactive_session"
    """INV-LV-007; the row is the view."""
    REPEATED_ACTIVE_SESSION = "repeated_active_session"
    """Another Active session of the device was active later (specification §6)."""
    OVERDUE_ACTIVE_ROW = "overdue_active_row"
    """Silent for longer than 2 x InactivityThreshold, and not closed, for whatever reason (specification §9)."""
    ACTIVE_ROW_WITH_END = "active_row_with_end"
    """It has a closing time or a duration."""
    CLOSED_ROW_WITHOUT_ENDED_AT = "closed_row_without_ended_at"
    CLOSED_ROW_WITHOUT_DURATION = "closed_row_without_duration"
    NEGATIVE_DURATION = "negative_duration"
    WRONG_DURATION = "wrong_duration"
    """Not LastActivityAt - CreatedAt (specification §2)."""
    CLOSED_ROW_WITHOUT_EVENT = "closed_row_without_event"
    """INV-SES-005."""
    CLOSED_ROW_WITH_SEVERAL_EVENTS = "closed_row_with_several_events"
    """INV-SES-006, INV-LV-008."""
    EVENT_OF_ROW_NOT_CLOSED = "event_of_row_not_closed"
    EVENT_OF_MISSING_ROW = "event_of_missing_row"
    EVENT_DIFFERS_FROM_ROW = "event_differs_from_row"
    """The event does not say what its row says (specification §7, D-10, D-11)."""
    ENDED_BEFORE_LAST_ACTIVITY = "ended_before_last_activity"
    """A clock ran ahead: the closer's promises are kept."""


class RowKind(StrEnum):
    """Which table a row is of, by the name that its events have for it (`aggregate_type`, specification §7)."""

    SESSION = "Session"
    PROPERTY_OBJECT_VIEW = "PropertyObjectView"


@frozen(kw_only=True)
class Finding:
    """Something that must not be, by ids alone: nothing personal is in it."""

    kind: FindingKind
    row_kind: RowKind
    row_id: UUID
    event_ids: tuple[UUID, ...] = ()
    differences: tuple[str, ...] = ()
    """What an event says otherwise than its row, by the names of the contract."""


@frozen(kw_only=True)
class AuditTerms:
    """By what to judge; times are the store's."""

    overdue_before: datetime
    """An Active row that was active last before it is overdue."""
    rows_kept_since: datetime
    """The service itself may have removed closed rows that ended earlier: their events are no findings."""
    events_kept_for: timedelta | None
    """Events of rows that ended longer ago may have been delivered and removed; None: any event may have been."""


@frozen(kw_only=True)
class Examined:
    """A part of what is stored has been looked through."""

    what: str
    rows: int
    findings: Sequence[Finding]


class ActivityAudit(Protocol):
    """Looks through a store that is in use, without changing or locking anything in it.

    What a transaction changes together is judged together, so that nobody's work at the same time makes a finding.
    Rows that ended before the store was adopted, and events that occurred before, are not judged: they are the work of
    others.
    """

    @property
    def clock(self) -> Clock:
        """The store's time."""

    def examine(self, terms: AuditTerms) -> Iterator[Examined]:
        """Looks through everything, part by part, in bounded memory. Raises StoreError."""

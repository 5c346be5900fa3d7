"""Claiming rows that have gone silent, so that exactly one worker closes each (D-03, D-04)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from attrs import frozen

from domain.closing import HangingView, OpenSession

Row_co = TypeVar("Row_co", covariant=True)


@frozen(kw_only=True)
class RowReference:
    """A row by id, and where it stands in the order of a run: by last activity, then by id."""

    id: UUID
    last_activity_at: str
    """The store's own text: handed back, never parsed, so that a time that cannot be loaded can be passed (D-05)."""


@frozen(kw_only=True)
class UnreadableRow:
    """A row that was claimed, but whose values cannot be loaded (D-05)."""

    id: UUID
    reason: str
    """One line; nothing personal is in it."""


@frozen(kw_only=True)
class Claim(Generic[Row_co]):
    """Rows locked by this transaction until it ends, each Active and stale under its lock."""

    rows: tuple[Row_co, ...]
    unreadable: tuple[UnreadableRow, ...] = ()
    deferred: tuple[UUID, ...] = ()
    """Sessions left for the next tick, since somebody else holds one of their Active views (D-03)."""


@frozen(kw_only=True)
class ViewPage:
    """A page of phase A: claimed views, and where the next page begins."""

    claim: Claim[HangingView]
    references: tuple[RowReference, ...]
    """All rows of the page in the order of the run, unreadable ones included."""


class Claiming(Protocol[Row_co]):
    """Rows by id, for both phases. Locked rows are skipped, not waited for."""

    def claim(self, ids: Sequence[UUID], cutoff: datetime) -> Claim[Row_co]:
        """Locks those of the rows that are still Active and stale."""

    def page(self, cutoff: datetime, after: RowReference | None, limit: int) -> Sequence[RowReference]:
        """Up to `limit` candidates that come after `after`, oldest first; not locked, no values loaded."""

    def newest(self, cutoff: datetime) -> UUID | None:
        """The row that a run would come to last; not locked."""

    def count(self, cutoff: datetime) -> int:
        """How many rows are still stale."""


class HangingViews(Claiming[HangingView], Protocol):
    """Phase A: Active views whose own last activity is before the cutoff."""

    def claim_page(self, cutoff: datetime, after: RowReference | None, limit: int) -> ViewPage:
        """Locks up to `limit` views that come after `after`, oldest first."""


class StaleSessions(Claiming[OpenSession], Protocol):
    """Phase B: Active sessions whose last activity is before the cutoff.

    `claim` locks the sessions first, then, in a later statement, their Active views. The order matters: only a
    statement that begins under the session's lock sees every view opened before it.
    """

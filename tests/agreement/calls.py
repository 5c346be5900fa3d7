"""What hands call, and what of the answers must be the same in every store.

Left out of the comparison is what the ports leave to the store: the order of rows that are claimed by their ids, of
events of one lease, the text of a reference, the spelling of JSON.
"""

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from application.ports.deliveries import Held, Lease, PendingMessage, Refused
from application.ports.outbox import OutboxMessage
from application.ports.outbox_store import OutboxUnitOfWork
from application.ports.row_claiming import Claim, RowReference
from application.ports.unit_of_work import UnitOfWork
from application.record_ended import record_ended
from domain.closing import Ended, HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.agreement.hand import Action, Hand
from tests.agreement.sides import NOW, Place

Row = Session | PropertyObjectView

CUTOFF: Final = NOW - timedelta(minutes=12)
ALL_ACTIVE: Final = NOW + timedelta(days=1)
"""A cutoff before which every row was last active."""
CORRELATION_ID: Final = UUID(int=0xC0)
CAUSE: Final = "msg_size_too_large"


@frozen
class Claimed:
    """A claim, whatever order its rows came in."""

    rows: frozenset[HangingView | OpenSession]
    deferred: frozenset[UUID]

    @classmethod
    def by(cls, claim: Claim[HangingView] | Claim[OpenSession]) -> "Claimed":
        assert not claim.unreadable, "no row is bad"
        return cls(frozenset(claim.rows), frozenset(claim.deferred))


class Given:
    """Ids that were chosen before, so that both stores get the same."""

    def __init__(self, ids: Sequence[UUID]) -> None:
        self._ids = iter(ids)

    def new(self, at: datetime) -> UUID:
        """The next."""
        return next(self._ids)


def change(make: Callable[[UnitOfWork], None]) -> Action:
    """A change that has been made by the time of the answer."""

    def call(work: UnitOfWork, _: Hand) -> None:
        make(work)
        # Whatever is asked, it is answered after what was only sent before; the answer would tell of others, who may
        # have been let go at the same moment.
        work.stale_sessions.count(CUTOFF)

    return call


def close(ended: Sequence[Ended], event_ids: Sequence[UUID]) -> Action:
    """Closed rows and their events."""
    return change(
        lambda work: record_ended(
            work, ended, identifiers=Given(event_ids), correlation_id=CORRELATION_ID, trace_parent=None
        )
    )


def look(after: UUID | None) -> Action:
    """All that is seen without a lock, after a row that some page has shown."""

    def call(work: UnitOfWork, hand: Hand) -> object:
        place = hand.references.get(after) if after else None
        return [
            (_page(rows.page(cutoff, place, limit), hand), rows.newest(cutoff), rows.count(cutoff))
            for rows in (work.stale_sessions, work.hanging_views)
            for cutoff, limit in ((CUTOFF, 1), (ALL_ACTIVE, 100))
        ]

    return call


def claim_page(after: UUID | None, limit: int) -> Action:
    """A page of phase A, after a row that some page has ended with."""

    def call(work: UnitOfWork, hand: Hand) -> object:
        page = work.hanging_views.claim_page(CUTOFF, hand.references.get(after) if after else None, limit)
        return _page(page.references, hand), page.claim.rows

    return call


def claim_views(ids: Sequence[UUID]) -> Action:
    """Phase A by ids."""
    return lambda work, _: Claimed.by(work.hanging_views.claim(ids, CUTOFF))


def claim_sessions(ids: Sequence[UUID]) -> Action:
    """Phase B."""
    return lambda work, _: Claimed.by(work.stale_sessions.claim(ids, CUTOFF))


def lease(lease: Lease, *, limit: int, held: Held) -> Action:
    """Events for a publisher."""

    def call(work: OutboxUnitOfWork, _: Hand) -> object:
        leased = work.deliveries.lease(lease, limit=limit, held=held)
        return {one.message.id: _pending(one) for one in leased if isinstance(one, PendingMessage)}

    return call


def record(make: Callable[[OutboxUnitOfWork], object]) -> Action:
    """A change in the outbox that has been made by the time of the answer."""

    def call(work: OutboxUnitOfWork, hand: Hand) -> object:
        return make(work), look_at_outbox(work)

    return call


def look_at_outbox(work: OutboxUnitOfWork) -> object:
    """What an operator sees."""
    status = work.upkeep.status()
    dead = [evolve(one, message=_document(one.message)) for one in work.upkeep.dead(None, 100)]
    return evolve(status, dead=dict(status.dead)), dead, [work.deliveries.count_due(at) for at in (NOW, ALL_ACTIVE)]


def refused(event_id: UUID, *, refusals: int, next_attempt_at: datetime | None) -> Action:
    """An event cannot be sent as it is."""
    one = Refused(message_id=event_id, refusals=refusals, cause=CAUSE, next_attempt_at=next_attempt_at)
    return record(lambda work: work.deliveries.record_refused([one], NOW))


def committed(place: Place, session_ids: Collection[UUID], view_ids: Collection[UUID]) -> object:
    """All that is there for everybody."""
    with place.begin_publishing() as work:
        outbox = look_at_outbox(work)
    return (
        list(map(place.session, session_ids)),
        list(map(place.view, view_ids)),
        sorted(map(_document, place.messages()), key=lambda message: message.id),
        outbox,
    )


def _page(references: Sequence[RowReference], hand: Hand) -> list[UUID]:
    hand.references.update((reference.id, reference) for reference in references)
    return [reference.id for reference in references]


def _document(message: OutboxMessage) -> OutboxMessage:
    return evolve(message, payload=json.dumps(json.loads(message.payload), sort_keys=True))


def _pending(pending: PendingMessage) -> PendingMessage:
    return evolve(pending, message=_document(pending.message))

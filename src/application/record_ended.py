"""Putting closed rows and their events into one transaction."""

from collections.abc import Sequence
from uuid import UUID

from application.event_contract import message_of
from application.ports.identifiers import Identifiers
from application.ports.unit_of_work import UnitOfWork
from domain.closing import Ended, PropertyObjectViewEnded, SessionEnded


def record_ended(
    unit_of_work: UnitOfWork,
    ended: Sequence[Ended],
    *,
    identifiers: Identifiers,
    correlation_id: UUID,
    trace_parent: str | None,
) -> None:
    """Adds the closed rows, and one event each, to the transaction (INV-SES-005)."""
    views = [one.view for one in ended if isinstance(one, PropertyObjectViewEnded)]
    sessions = [one.session for one in ended if isinstance(one, SessionEnded)]
    messages = [
        message_of(
            one,
            message_id=identifiers.new(one.ended_at),
            correlation_id=correlation_id,
            trace_parent=trace_parent,
        )
        for one in ended
    ]
    # Views before their session: an Inactive session never has an Active view, not even within (INV-LV-007).
    unit_of_work.views.close(views)
    unit_of_work.sessions.close(sessions)
    unit_of_work.outbox.append(messages)

"""The transactional outbox."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen


@frozen(kw_only=True)
class OutboxMessage:
    """A row of `outbox` (specification §6): an event, serialised once, as it will be delivered."""

    id: UUID
    """The event's id."""
    aggregate_type: str
    aggregate_id: UUID
    event_type: str
    contract_version: int
    topic: str
    payload: str = field(repr=False)
    """JSON text; holds personal data, so it is kept out of every other text."""
    correlation_id: UUID
    """The run, or the command, that closed the row (D-11)."""
    trace_parent: str | None
    """W3C trace context of the closing, if one was recorded."""
    occurred_at: datetime
    """`EndedAt` of the row (D-11)."""


class Outbox(Protocol):
    """The outbox as one transaction sees it."""

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        """Adds the messages to this transaction: they exist if and only if it commits."""

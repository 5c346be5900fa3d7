"""The outbox as its operator sees it, and the removal of what is no longer needed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from adapters.postgres.rows import message_of
from adapters.postgres.transaction import Transaction, Values
from application.ports.outbox_upkeep import DeadMessage, OutboxStatus

_STAND_IN_TIME: Final = datetime.max.replace(tzinfo=UTC)
_STAND_INS: Final = (
    UUID(int=0),
    "",
    UUID(int=0),
    "",
    0,
    "",
    "null",
    UUID(int=0),
    None,
    _STAND_IN_TIME,
)
"""What is shown of an event in place of values that are missing or out of range: such events are dead, too."""


class PostgresOutboxUpkeep:
    """What an operator asks, in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def status(self) -> OutboxStatus:
        [(pending, waiting, oldest_pending_at)], dead = self._transaction.fetch_all_partially(
            ("summarize_pending_events", {}), ("count_dead_events", {})
        )
        return OutboxStatus(
            pending=pending,
            waiting=waiting,
            oldest_pending_at=oldest_pending_at,
            dead={row[0] or "": row[1] for row in dead},
        )

    def dead(self, after: UUID | None, limit: int) -> Sequence[DeadMessage]:
        rows = self._transaction.fetch_partially("list_dead_events", after=after, limit=limit)
        return [_dead_message_of(row) for row in rows]

    def find_dead(self, message_id: UUID) -> DeadMessage | None:
        rows = self._transaction.fetch_partially("find_dead_event", id=message_id)
        return _dead_message_of(rows[0]) if rows else None

    def retry(self, message_ids: Sequence[UUID]) -> int:
        return _count(self._transaction.fetch("retry_dead_events", ids=list(message_ids)))

    def discard(self, message_ids: Sequence[UUID]) -> int:
        return _count(self._transaction.fetch("discard_dead_events", ids=list(message_ids)))

    def remove_published(self, before: datetime, limit: int) -> int:
        return _count(self._transaction.fetch("remove_published_events", before=before, limit=limit))

    def remove_occurred(self, before: datetime, limit: int) -> int:
        return _count(self._transaction.fetch("remove_occurred_events", before=before, limit=limit))


def _count(rows: Sequence[Values]) -> int:
    [(count,)] = rows
    return int(count)


def _dead_message_of(row: Values) -> DeadMessage:
    shown = tuple(stand_in if value is None else value for value, stand_in in zip(row, _STAND_INS, strict=False))
    return DeadMessage(
        message=message_of(shown), refusals=row[10], cause=row[11] or "", dead_at=row[12] or _STAND_IN_TIME
    )

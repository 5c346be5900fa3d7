"""The outbox as its operator sees it."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from application.ports.outbox_upkeep import DeadMessage, OutboxStatus
from sqlite_store.rows import message_of, moment_of, since_epoch
from sqlite_store.transaction import Transaction


class SqliteOutboxUpkeep:
    """What an operator asks, in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def status(self) -> OutboxStatus:
        [(pending, waiting, oldest)] = self._transaction.read(
            """
            select count(*), count(next_attempt_at), min(occurred_at) from outbox
            where published_at is null and dead_at is null
            """
        )
        dead = self._transaction.read("select cause, count(*) from outbox where dead_at is not null group by cause")
        return OutboxStatus(
            pending=pending,
            waiting=waiting,
            oldest_pending_at=None if oldest is None else moment_of(oldest),
            dead={cause or "": count for cause, count in dead},
        )

    def dead(self, after: UUID | None, limit: int) -> Sequence[DeadMessage]:
        rows = self._transaction.read(
            "select * from outbox where dead_at is not null and id > :after order by id limit :limit",
            after=after.bytes if after else b"",
            limit=limit,
        )
        return [_dead_message_of(row) for row in rows]

    def find_dead(self, message_id: UUID) -> DeadMessage | None:
        rows = self._transaction.read(
            "select * from outbox where id = :id and dead_at is not null", id=message_id.bytes
        )
        return _dead_message_of(rows[0]) if rows else None

    def retry(self, message_ids: Sequence[UUID]) -> int:
        return self._transaction.write(
            """
            update outbox set refusals = 0, cause = null, next_attempt_at = null, dead_at = null
            where id = :id and dead_at is not null
            """,
            [{"id": message_id.bytes} for message_id in message_ids],
        )

    def discard(self, message_ids: Sequence[UUID]) -> int:
        return self._transaction.write(
            "delete from outbox where id = :id and dead_at is not null",
            [{"id": message_id.bytes} for message_id in message_ids],
        )

    def remove_published(self, before: datetime, limit: int) -> int:
        return self._transaction.write(
            """
            delete from outbox where id in
                (select id from outbox where published_at < :before order by published_at limit :limit)
            """,
            [{"before": since_epoch(before), "limit": limit}],
        )

    def remove_occurred(self, before: datetime, limit: int) -> int:
        return self._transaction.write(
            """
            delete from outbox where id in
                (select id from outbox where occurred_at < :before order by id limit :limit)
            """,
            [{"before": since_epoch(before), "limit": limit}],
        )


def _dead_message_of(row: sqlite3.Row) -> DeadMessage:
    return DeadMessage(
        message=message_of(row), refusals=row["refusals"], cause=row["cause"] or "", dead_at=moment_of(row["dead_at"])
    )

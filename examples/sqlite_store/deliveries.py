"""Events on their way out of the outbox, leased one by one."""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from application.ports.deliveries import Held, Lease, PendingMessage, Refused
from sqlite_store.rows import message_of, since_epoch
from sqlite_store.transaction import Transaction


class SqliteDeliveries:
    """Events that have to be delivered."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage]:
        rows = self._transaction.read_locked(
            """
            select * from outbox
            where published_at is null and dead_at is null
              and (next_attempt_at is null or next_attempt_at <= :now)
              and (leased_until is null or leased_until <= :now)
              and topic not in (select value from json_each(:held_topics))
              and hex(id) not in (select value from json_each(:held_ids))
            order by id limit :limit
            """,
            now=since_epoch(lease.begins),
            held_topics=json.dumps(list(held.topics)),
            held_ids=json.dumps([event_id.hex.upper() for event_id in held.event_ids]),
            limit=limit,
        )
        self._transaction.write_each(
            "update outbox set lease_id = :lease, leased_until = :ends where id = :id",
            [{"id": row["id"], "lease": lease.id.bytes, "ends": since_epoch(lease.ends)} for row in rows],
        )
        return [PendingMessage(message=message_of(row), refusals=row["refusals"]) for row in rows]

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        self._transaction.write(
            "update outbox set published_at = :at, dead_at = null where id = :id and published_at is null",
            [{"id": message_id.bytes, "at": since_epoch(at)} for message_id in message_ids],
        )

    def record_refused(self, refused: Sequence[Refused], at: datetime) -> None:
        self._transaction.write(
            """
            update outbox
            set refusals = :refusals, cause = :cause, next_attempt_at = :next_attempt_at, dead_at = :dead_at
            where id = :id and published_at is null and dead_at is null
            """,
            [
                {
                    "id": one.message_id.bytes,
                    "refusals": one.refusals,
                    "cause": one.cause,
                    "next_attempt_at": since_epoch(one.next_attempt_at) if one.next_attempt_at else None,
                    "dead_at": None if one.next_attempt_at else since_epoch(at),
                }
                for one in refused
            ],
        )

    def release(self, lease: Lease) -> None:
        self._transaction.write(
            "update outbox set lease_id = null, leased_until = null where lease_id = :lease",
            [{"lease": lease.id.bytes}],
        )

    def count_due(self, now: datetime) -> int:
        [(count,)] = self._transaction.read(
            """
            select count(*) from outbox
            where published_at is null and dead_at is null and (next_attempt_at is null or next_attempt_at <= :now)
            """,
            now=since_epoch(now),
        )
        return int(count)

"""Leasing events by slices of the outbox.

Not the events themselves are leased but slices of the outbox, of which there are sixteen, by their rows in
`outbox_slices`. So an event is written once on its way out: when it has been delivered.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from adapters.postgres.rows import is_whole_message, message_of
from adapters.postgres.transaction import Transaction, Values
from application.ports.deliveries import Held, Lease, PendingMessage, Refused, UnreadableMessage

SLICES: Final = 16
"""An event's slice is the last four bits of its id; statements and the index `ix_outbox_pending` reckon it as well."""
LEASED_MAX: Final = 4
"""Slices of one lease, so that several publishers, with a few leases each, find work side by side.

All sixteen at once would be 13 % faster, since the events of a page would lie side by side, for one publisher alone.
"""
LEASES_PER_PASS: Final = 100
"""What is due behind the places where reading goes on waits no longer than this, however large the backlog is."""
FROM_THE_BEGINNING: Final = [UUID(int=0)] * SLICES


class SliceProgress:
    """How far a process has read in each slice.

    Slices are read on from where the last page ended, in the order of ids: so the dead index entries, which a held
    snapshot keeps, are not walked over for each page (beside 100,000 of them a round of 200 new events took 950 ms when
    each lease began at the beginning, and 115 ms now). This is no high-water mark: before it is said that nothing is
    due, and after some leases in any case, all is looked at from the beginning. So what was committed late, given back,
    or is due by now comes up.
    """

    def __init__(self) -> None:
        self._starts = list(FROM_THE_BEGINNING)
        self._leases = 0

    @property
    def starts(self) -> list[UUID]:
        """Of each slice the id from which to read on."""
        return list(self._starts)

    def note(self, slices: Sequence[int], event_ids: Sequence[UUID], page_length: int) -> None:
        """A page of each of these slices has been read, with these events in the order of ids."""
        lengths = Counter(event_id.int % SLICES for event_id in event_ids)
        last = {event_id.int % SLICES: event_id for event_id in event_ids}
        for number in slices:
            if number in last:
                following = UUID(int=(last[number].int + 1) % 2**128)
                # A short page that was read from the beginning has shown that nothing is left before the old start.
                is_full = lengths[number] == page_length
                self._starts[number] = following if is_full else max(following, self._starts[number])
        self._leases += 1
        if self._leases % LEASES_PER_PASS == 0:
            self._starts = list(FROM_THE_BEGINNING)


class PostgresDeliveries:
    """Events on their way out."""

    def __init__(self, transaction: Transaction, progress: SliceProgress) -> None:
        self._transaction = transaction
        self._progress = progress

    def lease(self, lease: Lease, *, limit: int, held: Held) -> Sequence[PendingMessage | UnreadableMessage]:
        sought = {
            "lease": lease.id,
            "now": lease.begins,
            "held_topics": list(held.topics),
            "held_ids": list(held.event_ids),
        }
        taken = {"ends": lease.ends, "turn": lease.id.int % SLICES, "slices_max": min(limit, LEASED_MAX)}
        starts = self._progress.starts
        while True:
            # Both statements are under way before either is answered.
            leased, rows = self._transaction.fetch_all_partially(
                ("lease_slices", sought | taken | {"starts": starts}),
                ("read_due_events", sought | {"starts": starts, "limit": limit}),
            )
            if leased:
                self._progress.note([row[0] for row in leased], [row[0] for row in rows], limit // len(leased))
                if rows:
                    return list(map(_leased_message, rows))
                self.release(lease)  # others have recorded them meanwhile: there may be more
            elif starts != FROM_THE_BEGINNING:
                starts = FROM_THE_BEGINNING
            else:
                return []

    def record_delivered(self, message_ids: Sequence[UUID], at: datetime) -> None:
        if message_ids:
            self._transaction.send("record_delivered", ids=list(message_ids), at=at)

    def record_refused(self, refused: Sequence[Refused], at: datetime) -> None:
        if refused:
            self._transaction.send(
                "record_refused",
                ids=[one.message_id for one in refused],
                refusals=[one.refusals for one in refused],
                causes=[one.cause for one in refused],
                next_attempts_at=[one.next_attempt_at for one in refused],
                at=at,
            )

    def release(self, lease: Lease) -> None:
        self._transaction.send("release_slices", lease=lease.id)

    def count_due(self, now: datetime) -> int:
        [(count,)] = self._transaction.fetch("count_due_events", now=now)
        return int(count)


def _leased_message(row: Values) -> PendingMessage | UnreadableMessage:
    if is_whole_message(row):
        return PendingMessage(message=message_of(row), refusals=row[10])
    return UnreadableMessage(id=row[0], refusals=row[10])

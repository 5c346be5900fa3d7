"""The two stores that must agree, each with hands at work on it."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.store import InMemoryActivityStore
from adapters.postgres.connections import Connections
from adapters.postgres.deliveries import SliceProgress
from adapters.postgres.outbox_store import PostgresOutboxUnitOfWork
from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import Transaction, TransactionOptions
from application.contracts.subject import StoreSubject
from application.ports.activity_store import ActivityStore
from application.ports.outbox_store import OutboxUnitOfWork
from application.ports.unit_of_work import UnitOfWork
from tests.agreement.hand import Action, Hand, Work
from tests.contracts.in_memory_subject import InMemorySubject
from tests.contracts.postgres_subject import PostgresSubject

CLIENTS: Final = ("Ann", "Ben", "Cem")
"""Commands and workers: they change sessions and views."""
PUBLISHERS: Final = ("Pia", "Quin")
"""They, and operators, have to do with the outbox."""
NOW: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)
"""The time of both stores, whatever the database's clock says."""
PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.003
"""How often it is looked whether a call that has not ended waits for a lock."""
LOCK_WAIT_MAX: Final = timedelta(seconds=PATIENCE_SECONDS)
DEADLOCK_TIMEOUT: Final = "1ms"

_WAITING: Final = """
select pid, pg_blocking_pids(pid)
from pg_stat_activity
where datname = current_database()
  and pid in (select pid from pg_locks where not granted and locktype in ('transactionid', 'tuple'))
"""
_CLEAR: Final = """
delete from refused;
delete from user_activity.outbox;
delete from user_activity.property_object_views;
delete from user_activity.sessions;
update user_activity.outbox_slices set lease = null, leased_until = null;
"""


class Place(StoreSubject, Protocol):
    """A store, a look behind it, and its outbox from the publisher's side."""

    def begin_publishing(self) -> OutboxUnitOfWork:
        """A unit of work of a publisher that has not read anything before."""

    def waiting(self) -> int:
        """How many transactions wait for a row lock, and will go on waiting while nobody does anything."""


class InMemoryPlace(InMemorySubject):
    """The store in memory."""

    def __init__(self, store: type[InMemoryActivityStore] = InMemoryActivityStore) -> None:
        super().__init__()
        self.store = store(refuses=lambda row: row.id in self._refused, lock_wait_max=LOCK_WAIT_MAX)

    def begin_publishing(self) -> OutboxUnitOfWork:
        return self.store.outbox_store().begin()


class PostgresPlace(PostgresSubject):
    """A database, to be used for one history after the other."""

    def __init__(self, dsn: str) -> None:
        dsn = make_conninfo(dsn, options=f"-c deadlock_timeout={DEADLOCK_TIMEOUT}")
        super().__init__(dsn)
        self._options = TransactionOptions(statement_timeout=2 * LOCK_WAIT_MAX, lock_timeout=LOCK_WAIT_MAX)
        self._publishers = Connections(dsn)
        self.store = PostgresActivityStore(dsn, options=self._options)
        self._watch = psycopg.connect(dsn, autocommit=True)

    def begin_publishing(self) -> OutboxUnitOfWork:
        return PostgresOutboxUnitOfWork(Transaction(self._publishers, self._options), SliceProgress())

    def waiting(self) -> int:
        # A backend that has been let go is not in pg_locks any more, though pg_stat_activity may show it as waiting.
        waiting = {pid: blocking for pid, blocking in self._watch.execute(_WAITING).fetchall() if blocking}
        return 0 if any(_is_deadlocked(pid, waiting) for pid in waiting) else len(waiting)

    def clear(self) -> None:
        """Takes all rows away; nobody is at work."""
        self._watch.execute(_CLEAR)

    def close(self) -> None:
        super().close()
        self._publishers.close()
        self._watch.close()


def _is_deadlocked(pid: int, blocking: Mapping[int, Sequence[int]]) -> bool:
    reached, ahead = set[int](), [*blocking[pid]]
    while ahead:
        if (one := ahead.pop()) not in reached:
            reached.add(one)
            ahead.extend(blocking.get(one, ()))
    return pid in reached


class Side:
    """A store and the hands on it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.hands = {name: Hand() for name in (*CLIENTS, *PUBLISHERS)}
        self.commands: ActivityStore = _AtRest(place)
        """The store as the commands have it: its time stands still."""

    def do(self, name: str, action: Action, begin: Callable[[], Work] | None = None) -> None:
        """Somebody does something in their unit of work, which begins as theirs do, or by `begin`."""
        hand = self.hands[name]
        theirs = self.place.begin_publishing if name in PUBLISHERS else self.place.store.begin
        hand.do(begin or theirs, partial(_act, action, hand))

    def settle(self) -> None:
        """Waits until every call has ended or waits for a lock."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while busy := [hand.call for hand in self.hands.values() if hand.call is not None and hand.is_busy]:
            wait(busy, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            if not any(call.done() for call in busy) and self.place.waiting() == len(busy):
                return
            assert time.monotonic() < deadline, "a call neither ends nor waits for a row"

    def leave(self) -> None:
        """Ends everything that is under way, and rolls it back."""
        while True:
            self.settle()
            free = [hand for hand in self.hands.values() if hand.is_open and not hand.is_busy]
            if not free:
                break
            for hand in free:
                hand.roll_back()
        for hand in self.hands.values():
            hand.dismiss()


def _act(action: Action, hand: Hand, work: object) -> object:
    return action(work, hand)


class _AtRest:
    """A store whose clock shows the same time on both sides."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.clock = SettableClock(NOW)

    def begin(self) -> UnitOfWork:
        return self._place.store.begin()

    def close(self) -> None:
        pass

"""Stores in memory that are wrong on purpose, each in one way; what cannot disagree proves nothing."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final

from adapters.in_memory.row_locks import LockMode
from adapters.in_memory.store import InMemoryActivityStore
from adapters.in_memory.tables import Tables
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryUnitOfWork
from tests.simulation.broken_variants import BROKEN_VARIANTS

SEEN_AT_THE_PORTS: Final = (
    "closes without a guard",
    "leaves held views behind",
    "locks too weakly",
    "ignores that a session is held",
    "takes the cutoff for stale",
    "passes over the next",
    "returns to passed views",
    "ignores that a view is held",
    "names nobody",
    "reads without locking",
    "forgets open views",
    "writes events apart",
)
"""Those wrong variants of the simulation that are wrong in one call, whatever else is done."""


class KeepsWhatIsRolledBack(Transaction):
    """A rollback that comes too late."""

    def roll_back(self) -> None:
        if self._is_open:
            self.commit()


class WaitsForNobody(Transaction):
    """Takes a lock if it is free, and goes on if it is not."""

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        self.try_lock(row, mode)


class HoldsNothing(Transaction):
    """Waits for a lock, and lets it go with the statement."""

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        super().lock(row, mode)
        self._tables.locks.release_all(self)


class SeesOneMomentOnly(Transaction):
    """Sees what was committed when it began (REPEATABLE READ)."""

    def begin(self) -> None:
        super().begin()
        now = self._tables
        self._tables = Tables(refuses=now.refuses, lock_wait_seconds_max=1)
        self._tables.sessions, self._tables.views = dict(now.sessions), dict(now.views)
        self._tables.messages, self._tables.deliveries = now.messages, now.deliveries
        self._tables.mutex, self._tables.locks = now.mutex, now.locks
        self._present = now

    def commit(self) -> None:
        self._tables = self._present
        super().commit()


class LetsViewsInAnyway(Transaction):
    """An insert of a view takes no lock on its session."""

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        if mode is LockMode.UPDATE:
            super().lock(row, mode)


def _of_transactions(kind: type[Transaction]) -> type[InMemoryActivityStore]:
    class Broken(InMemoryActivityStore):
        def transaction(self) -> Transaction:
            return kind(self._tables)

    return Broken


def _of_roles(roles: Callable[[Transaction], InMemoryUnitOfWork]) -> type[InMemoryActivityStore]:
    class Broken(InMemoryActivityStore):
        def begin(self) -> InMemoryUnitOfWork:
            return roles(self.transaction())

    return Broken


BROKEN_STORES: Final[Mapping[str, type[InMemoryActivityStore]]] = {
    "keeps what is rolled back": _of_transactions(KeepsWhatIsRolledBack),
    "waits for nobody": _of_transactions(WaitsForNobody),
    "holds nothing": _of_transactions(HoldsNothing),
    "sees one moment only": _of_transactions(SeesOneMomentOnly),
    "lets views in anyway": _of_transactions(LetsViewsInAnyway),
    **{name: _of_roles(BROKEN_VARIANTS[name].roles) for name in SEEN_AT_THE_PORTS},
}

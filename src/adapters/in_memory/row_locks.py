"""Row locks as PostgreSQL has them: held to the end of the transaction, waited for or skipped, deadlocks found."""

from collections.abc import Callable, Hashable
from enum import Enum, auto
from threading import Condition

from application.ports.store_errors import LockTimeout, TransactionRefused

Transaction = object


class LockMode(Enum):
    """The two strengths that the races of this system tell apart."""

    KEY_SHARE = auto()
    """What an insert takes on the row that its foreign key names; any number of transactions may hold it."""
    UPDATE = auto()
    """`FOR UPDATE`: excludes every other holder."""


class RowLocks:
    """Who holds which row. All calls are made under the store's mutex, which waiting lets go."""

    def __init__(self, mutex: Condition, *, wait_seconds_max: float) -> None:
        self._mutex = mutex
        self._wait_seconds_max = wait_seconds_max
        self._holders: dict[Hashable, dict[Transaction, LockMode]] = {}
        self._awaited: dict[Transaction, tuple[Hashable, LockMode]] = {}

    def try_lock(self, transaction: Transaction, row: Hashable, mode: LockMode) -> bool:
        """Takes the lock if that is possible at once (`SKIP LOCKED`)."""
        if self._rivals(transaction, row, mode):
            return False
        holders = self._holders.setdefault(row, {})
        if holders.get(transaction) is not LockMode.UPDATE:
            holders[transaction] = mode
        return True

    def lock(self, transaction: Transaction, row: Hashable, mode: LockMode) -> None:
        """Takes the lock, waiting for it. Raises TransactionRefused for a deadlock, LockTimeout for a long wait."""
        if self.try_lock(transaction, row, mode):
            return
        self._awaited[transaction] = (row, mode)
        try:
            if self._is_deadlocked(transaction):
                raise TransactionRefused(kind="40P01", reason="deadlock detected")
            if not self._wait_until(lambda: not self._rivals(transaction, row, mode)):
                raise LockTimeout(kind="55P03", reason="the row lock was not released in time")
        finally:
            del self._awaited[transaction]
        assert self.try_lock(transaction, row, mode), "nobody came in between: the mutex is held"

    def release_all(self, transaction: Transaction) -> None:
        """Lets go of everything that the transaction holds."""
        for row in [row for row, holders in self._holders.items() if transaction in holders]:
            del self._holders[row][transaction]
            if not self._holders[row]:
                del self._holders[row]
        self._mutex.notify_all()

    def waiting(self) -> int:
        """How many transactions wait for a lock at this moment; not those that could have it and are about to go on."""
        with self._mutex:
            return sum(bool(self._rivals(waiter, *awaited)) for waiter, awaited in self._awaited.items())

    def _wait_until(self, is_free: Callable[[], bool]) -> bool:
        return self._mutex.wait_for(is_free, self._wait_seconds_max)

    def _rivals(self, transaction: Transaction, row: Hashable, mode: LockMode) -> list[Transaction]:
        return [
            holder
            for holder, held in self._holders.get(row, {}).items()
            if holder is not transaction and LockMode.UPDATE in {held, mode}
        ]

    def _is_deadlocked(self, transaction: Transaction) -> bool:
        """Whether the transactions that this one waits for wait, directly or not, for this one."""
        waiting, seen = [transaction], set[Transaction]()
        while waiting:
            awaited = self._awaited.get(waiter := waiting.pop())
            for rival in self._rivals(waiter, *awaited) if awaited else ():
                if rival is transaction:
                    return True
                if rival not in seen:
                    seen.add(rival)
                    waiting.append(rival)
        return False

"""The store in memory, on which each statement is a step of whoever runs it."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.row_locks import LockMode
from adapters.in_memory.store import InMemoryActivityStore, InMemoryOutboxStore
from adapters.in_memory.tables import Row, Tables
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork, InMemoryUnitOfWork
from tests.simulation.turns import Turns

LOCK_PATIENCE_STEPS: Final = 25
"""Turns for which a row lock is waited for; then the transaction fails as by PostgreSQL's lock_timeout."""

Roles = Callable[[Transaction], InMemoryUnitOfWork]
OutboxRoles = Callable[[Transaction], InMemoryOutboxUnitOfWork]


class SteppingTransaction(Transaction):
    """Pauses before each statement, while it waits for a lock, and before it hears that its commit went through."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        super().__init__(tables)
        self._turns = turns

    def begin(self) -> None:
        super().begin()
        if self._turns.running is not None:
            self._turns.running.begun += 1

    @contextmanager
    def statement(self) -> Iterator[None]:
        self._turns.pause()
        with super().statement():
            yield

    def commit(self) -> None:
        super().commit()
        if self._turns.running is not None:
            self._turns.running.committed += 1
        self._turns.pause()

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        for _ in range(LOCK_PATIENCE_STEPS):
            if self.try_lock(row, mode):
                return
            self._wait_a_turn()
        super().lock(row, mode)

    def _wait_a_turn(self) -> None:
        self._tables.mutex.release()
        try:
            self._turns.pause(waiting=True)
        finally:
            self._tables.mutex.acquire()


class SteppingStore(InMemoryActivityStore):
    """A store whose transactions take turns; `roles` says what a transaction can do."""

    def __init__(
        self,
        turns: Turns,
        *,
        clock: SettableClock,
        refuses: Callable[[Row], bool],
        roles: Roles = InMemoryUnitOfWork,
    ) -> None:
        super().__init__(clock=clock, refuses=refuses, lock_wait_max=timedelta(0))
        self._turns = turns
        self._roles = roles

    def begin(self) -> InMemoryUnitOfWork:
        return self._roles(self.transaction())

    def transaction(self) -> SteppingTransaction:
        return SteppingTransaction(self._tables, self._turns)

    def is_held(self, row_id: UUID) -> bool:
        """Whether some transaction holds the row's lock."""
        probe = Transaction(self._tables)
        probe.begin()
        with probe.statement():
            is_free = probe.try_lock(row_id)
        probe.roll_back()
        return not is_free


class SteppingOutboxStore(InMemoryOutboxStore):
    """The same store from the publishers' side."""

    def __init__(self, store: SteppingStore, *, roles: OutboxRoles = InMemoryOutboxUnitOfWork) -> None:
        super().__init__(store.clock, store.transaction)
        self._roles = roles

    def begin(self) -> InMemoryOutboxUnitOfWork:
        return self._roles(self._transaction())

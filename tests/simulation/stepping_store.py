"""The store in memory, on which each statement is a step of whoever runs it."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.row_locks import LockMode
from adapters.in_memory.store import InMemoryActivityStore
from adapters.in_memory.tables import Row, Tables
from adapters.in_memory.transaction import Transaction
from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork, InMemoryUnitOfWork
from tests.simulation.hosts import HostClock
from tests.simulation.turns import Call, Place, Turns

LOCK_PATIENCE_STEPS: Final = 10
"""Turns for which a row lock is waited for; then the transaction fails as by PostgreSQL's lock_timeout."""

Roles = Callable[[Transaction], InMemoryUnitOfWork]
OutboxRoles = Callable[[Transaction], InMemoryOutboxUnitOfWork]


class SteppingTransaction(Transaction):
    """Pauses before each statement, while it waits for a lock, and before it hears that its commit went through."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        super().__init__(tables)
        self._turns = turns
        self._next = Place.STATEMENT

    def begin(self) -> None:
        super().begin()
        if self._turns.running is not None:
            self._turns.running.begun += 1

    @contextmanager
    def statement(self) -> Iterator[None]:
        self._turns.pause(self._next)
        with super().statement():
            yield

    def commit(self) -> None:
        self._next = Place.COMMIT
        super().commit()
        if self._turns.running is not None:
            self._turns.running.committed += 1
        self._turns.pause(Place.ANSWER)

    def lock(self, row: Hashable, mode: LockMode = LockMode.UPDATE) -> None:
        for _ in range(LOCK_PATIENCE_STEPS):
            if self.try_lock(row, mode):
                return
            self._wait_a_turn()
        super().lock(row, mode)

    def _wait_a_turn(self) -> None:
        self._tables.mutex.release()
        try:
            self._turns.pause(Place.LOCK)
        finally:
            self._tables.mutex.acquire()


class SteppingStore(InMemoryActivityStore):
    """A store whose transactions take turns."""

    def __init__(self, turns: Turns, *, clock: SettableClock, refuses: Callable[[Row], bool]) -> None:
        super().__init__(clock=clock, refuses=refuses, lock_wait_max=timedelta(0))
        self._turns = turns
        self.tables: Final = self._tables
        """What is committed."""

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


class HostedStore:
    """The store as a process has it: with the process's clock; `roles` says what a transaction can do."""

    def __init__(self, store: SteppingStore, turns: Turns, *, clock: HostClock, roles: Roles) -> None:
        self.clock = clock
        self._store = store
        self._turns = turns
        self._roles = roles

    def begin(self) -> InMemoryUnitOfWork:
        unit_of_work = self._roles(self._store.transaction())
        _tell_calls(vars(unit_of_work), self._turns)
        return unit_of_work

    def close(self) -> None:
        pass


class HostedOutboxStore:
    """The same store from a publisher's side."""

    def __init__(self, store: SteppingStore, turns: Turns, *, clock: HostClock, roles: OutboxRoles) -> None:
        self.clock = clock
        self._store = store
        self._turns = turns
        self._roles = roles

    def begin(self) -> InMemoryOutboxUnitOfWork:
        unit_of_work = self._roles(self._store.transaction())
        _tell_calls(vars(unit_of_work), self._turns)
        return unit_of_work

    def close(self) -> None:
        pass


class _ToldRole:
    """A role of a transaction, of which each call is remembered for the history."""

    def __init__(self, role: object, name: str, turns: Turns) -> None:
        self._role = role
        self._name = name
        self._turns = turns

    def __getattr__(self, method: str) -> Callable[..., object]:
        action: Callable[..., object] = getattr(self._role, method)

        def call(*arguments: object, **named: object) -> object:
            told = Call(self._name, method, (*arguments, *named.values()))
            return self._turns.call(told, partial(action, *arguments, **named))

        return call


def _tell_calls(unit_of_work: dict[str, object], turns: Turns) -> None:
    for name, role in unit_of_work.items():
        if not name.startswith("_"):
            unit_of_work[name] = _ToldRole(role, name, turns)

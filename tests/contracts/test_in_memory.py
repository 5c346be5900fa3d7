"""The adapters in memory keep every contract, row locking included."""

import pytest

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.observation import NoObservation
from application.contracts.activity_rows import ActivityRowsContract
from application.contracts.clock import ClockContract
from application.contracts.closer import CloserContract, OnlineCommandsContract
from application.contracts.deliveries import DeliveriesContract
from application.contracts.identifiers import IdentifiersContract
from application.contracts.outbox import OutboxContract
from application.contracts.outbox_upkeep import OutboxUpkeepContract
from application.contracts.row_claiming import RowClaimingContract
from application.contracts.row_locking import RowLockingContract
from application.contracts.side_by_side import SideBySideContract
from application.contracts.subject import StoreSubject
from application.contracts.unit_of_work import UnitOfWorkContract
from application.ports.identifiers import Identifiers
from application.ports.outbox_store import OutboxStore
from application.ports.run_observation import RunObservation
from tests.contracts.event_schemas import EventsAreValid
from tests.contracts.in_memory_subject import InMemorySubject


class InMemory:
    """Supplies the subject."""

    subject: StoreSubject
    outbox: OutboxStore
    identifiers: Identifiers
    observation: RunObservation

    @pytest.fixture(autouse=True)
    def _subject(self) -> None:
        subject = InMemorySubject()
        self.subject, self.outbox = subject, subject.store.outbox_store()
        self.identifiers = CountingIdentifiers()
        self.observation = NoObservation()


class TestClock(ClockContract):
    clock = SettableClock()


class TestIdentifiers(IdentifiersContract):
    identifiers = CountingIdentifiers()


class TestUnitOfWork(InMemory, UnitOfWorkContract): ...


class TestOutbox(InMemory, OutboxContract): ...


class TestActivityRows(InMemory, ActivityRowsContract): ...


class TestRowClaiming(InMemory, RowClaimingContract): ...


class TestRowLocking(InMemory, RowLockingContract): ...


class TestCloser(InMemory, EventsAreValid, CloserContract): ...


class TestOnlineCommands(InMemory, EventsAreValid, OnlineCommandsContract): ...


class TestSideBySide(InMemory, EventsAreValid, SideBySideContract): ...


class TestDeliveries(InMemory, DeliveriesContract): ...


class TestOutboxUpkeep(InMemory, OutboxUpkeepContract): ...

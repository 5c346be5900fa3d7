"""The adapters of PostgreSQL keep every contract, row locking included."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from adapters.in_memory.observation import NoObservation
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.contracts.activity_rows import ActivityRowsContract
from application.contracts.clock import ClockContract
from application.contracts.closer import CloserContract, OnlineCommandsContract
from application.contracts.deliveries import DeliveriesContract
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
from tests.contracts.postgres_subject import PostgresSubject


class Postgres:
    """Supplies the subject."""

    subject: StoreSubject
    outbox: OutboxStore
    identifiers: Identifiers
    observation: RunObservation

    @pytest.fixture(autouse=True)
    def _subject(self, database: str) -> Iterator[None]:
        with closing(PostgresSubject(database)) as subject:
            self.subject, self.outbox = subject, subject.outbox
            self.identifiers = Uuid7Identifiers()
            self.observation = NoObservation()
            yield


class TestClock(Postgres, ClockContract):
    @pytest.fixture(autouse=True)
    def _clock(self, _subject: None) -> None:
        self.clock = self.subject.store.clock


class TestUnitOfWork(Postgres, UnitOfWorkContract): ...


class TestOutbox(Postgres, OutboxContract): ...


class TestActivityRows(Postgres, ActivityRowsContract): ...


class TestRowClaiming(Postgres, RowClaimingContract): ...


class TestRowLocking(Postgres, RowLockingContract): ...


class TestCloser(Postgres, EventsAreValid, CloserContract): ...


class TestOnlineCommands(Postgres, EventsAreValid, OnlineCommandsContract): ...


class TestSideBySide(Postgres, EventsAreValid, SideBySideContract): ...


class TestDeliveries(Postgres, DeliveriesContract): ...


class TestOutboxUpkeep(Postgres, OutboxUpkeepContract): ...

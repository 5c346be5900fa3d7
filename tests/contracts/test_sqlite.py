"""The example of a third store keeps every contract but the chapter on row locks, of which SQLite has none."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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
from application.contracts.side_by_side import SideBySideContract
from application.contracts.subject import StoreSubject
from application.contracts.unit_of_work import UnitOfWorkContract
from application.ports.identifiers import Identifiers
from application.ports.outbox_store import OutboxStore
from application.ports.run_observation import RunObservation
from sqlite_store.clock import HostClock
from tests.contracts.event_schemas import EventsAreValid
from tests.contracts.sqlite_subject import SqliteSubject


class Sqlite:
    """Supplies the subject."""

    subject: StoreSubject
    outbox: OutboxStore
    identifiers: Identifiers
    observation: RunObservation

    @pytest.fixture(autouse=True)
    def _subject(self, tmp_path: Path) -> Iterator[None]:
        with closing(SqliteSubject(tmp_path / "activity.sqlite")) as subject:
            self.subject, self.outbox = subject, subject.outbox
            self.identifiers = Uuid7Identifiers()
            self.observation = NoObservation()
            yield


class TestClock(ClockContract):
    clock = HostClock()


class TestUnitOfWork(Sqlite, UnitOfWorkContract): ...


class TestOutbox(Sqlite, OutboxContract): ...


class TestActivityRows(Sqlite, ActivityRowsContract): ...


class TestRowClaiming(Sqlite, RowClaimingContract): ...


class TestCloser(Sqlite, EventsAreValid, CloserContract): ...


class TestOnlineCommands(Sqlite, EventsAreValid, OnlineCommandsContract): ...


class TestSideBySide(Sqlite, EventsAreValid, SideBySideContract): ...


class TestDeliveries(Sqlite, DeliveriesContract): ...


class TestOutboxUpkeep(Sqlite, OutboxUpkeepContract): ...

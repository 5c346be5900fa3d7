"""The stores that the settings ask for, and what is said where it cannot be had (specification §4)."""

from contextlib import closing

import pytest
from typed_settings import Secret

from adapters.in_memory.store import InMemoryActivityStore, InMemoryOutboxStore
from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.store import PostgresActivityStore
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal
from bootstrap.store_factory import make_outbox_store, make_store

NOT_A_FACTORY = "a text"


class ForeignStore(InMemoryActivityStore):
    """A store of somebody else's, which remembers what it was made for."""

    def __init__(self, database_url: str | None) -> None:
        super().__init__()
        self.database_url = database_url

    @classmethod
    def make(cls, database_url: str | None) -> "ForeignStore":
        """Make one; a factory may be a method as well."""
        return cls(database_url)


def test_postgresql_is_the_default() -> None:
    """Without `store` the database address makes a store on PostgreSQL, and nothing is connected yet."""
    settings = Settings(database_url=Secret("host=127.0.0.1 port=1"))
    with closing(make_store(settings, StopSignal())) as store:
        assert isinstance(store, PostgresActivityStore)


def test_postgresql_needs_an_address() -> None:
    """BR-58: the setting that is missing is named."""
    with pytest.raises(ExpectedError, match="ACTIVITY_CLOSER_DATABASE_URL") as refused:
        make_store(Settings(), StopSignal())
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION


@pytest.mark.parametrize("attribute", ["ForeignStore", "ForeignStore.make"])
@pytest.mark.parametrize("database_url", [None, "postgresql://closer:geheim@db/activity"])
def test_a_foreign_store_is_made_by_its_factory(attribute: str, database_url: str | None) -> None:
    """The factory gets the database address as it was given, password included, or None."""
    settings = Settings(
        store=f"{__name__}:{attribute}", database_url=None if database_url is None else Secret(database_url)
    )
    store = make_store(settings, StopSignal())
    assert isinstance(store, ForeignStore)
    assert store.database_url == database_url


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("nowhere.to_be_found:factory", "No module named 'nowhere'"),
        (f"{__name__}:nothing_of_the_kind", "has no attribute 'nothing_of_the_kind'"),
        (f"{__name__}:ForeignStore.nothing", "has no attribute 'nothing'"),
        (f"{__name__}:NOT_A_FACTORY", "is not callable"),
    ],
)
def test_a_store_that_cannot_be_had(store: str, reason: str) -> None:
    """Wrong configuration in one line, which names the store and what is wrong with it."""
    with pytest.raises(ExpectedError) as refused:
        make_store(Settings(store=store, database_url=Secret("password=geheim")), StopSignal())
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    [line] = refused.value.lines
    assert repr(store) in line
    assert reason in line
    assert "\n" not in line
    assert "geheim" not in line


def no_store(_database_url: str | None) -> None:
    """A factory that forgets its return."""


def test_what_is_no_store_is_refused_by_name() -> None:
    """The line says what came and what it lacks, not where in the program it failed."""
    with pytest.raises(ExpectedError, match=r"gave NoneType.*lacks clock, begin") as refused:
        make_store(Settings(store=f"{__name__}:no_store"), StopSignal())
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION


def test_the_outbox_of_postgresql_is_the_default() -> None:
    """The publisher's store is made of the same settings, and connects to nothing yet; a missing address is named."""
    settings = Settings(database_url=Secret("host=127.0.0.1 port=1"))
    with closing(make_outbox_store(settings, StopSignal())) as store:
        assert isinstance(store, PostgresOutboxStore)
    with pytest.raises(ExpectedError, match="ACTIVITY_CLOSER_DATABASE_URL"):
        make_outbox_store(Settings(store=f"{__name__}:ForeignStore"), StopSignal())


class ForeignOutbox(InMemoryOutboxStore):
    """An outbox of somebody else's, which remembers what it was made for."""

    def __init__(self, database_url: str | None) -> None:
        store = InMemoryActivityStore()
        super().__init__(store.clock, store.transaction)
        self.database_url = database_url


@pytest.mark.parametrize("database_url", [None, "postgresql://closer:geheim@db/activity"])
def test_a_foreign_outbox_is_made_by_its_factory(database_url: str | None) -> None:
    """As a foreign store is; its setting is `outbox_store`, and so it is called where it is wrong."""
    secret = None if database_url is None else Secret(database_url)
    store = make_outbox_store(Settings(outbox_store=f"{__name__}:ForeignOutbox", database_url=secret), StopSignal())
    assert isinstance(store, ForeignOutbox)
    assert store.database_url == database_url
    for factory in ("NOT_A_FACTORY", "nothing_of_the_kind", "no_store", "failing_factory"):
        with pytest.raises(ExpectedError, match=f"outbox_store '{__name__}:{factory}'") as refused:
            make_outbox_store(Settings(outbox_store=f"{__name__}:{factory}"), StopSignal())
        assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION


def test_the_other_side_of_a_store_is_no_outbox() -> None:
    """The likeliest mistake, one factory for both settings, is told before anything is done with it."""
    wrong = f"{__name__}:ForeignStore"
    with pytest.raises(ExpectedError, match="lacks deliveries in its units of work") as refused:
        make_outbox_store(Settings(outbox_store=wrong), StopSignal())
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    with pytest.raises(ExpectedError, match="lacks sessions in its units of work"):
        make_store(Settings(store=f"{__name__}:ForeignOutbox"), StopSignal())


def failing_factory(_database_url: str | None) -> ForeignStore:
    """A factory with a defect."""
    raise RuntimeError("anon-7f3a")


def test_a_factory_that_fails_is_named() -> None:
    """Where it failed is said, and not its text, which may quote anything."""
    with pytest.raises(ExpectedError, match="cannot be made: RuntimeError at") as refused:
        make_store(Settings(store=f"{__name__}:failing_factory"), StopSignal())
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    assert "anon-7f3a" not in str(refused.value)

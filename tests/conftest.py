"""Fixtures for what needs PostgreSQL or Kafka: one for the session, a database for the test, one for the test alone."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType

import pytest
from hypothesis import settings

from adapters.embedded import EmbeddedPostgres, temporary_data_directory
from tests.brokers import Broker, StartBroker, running_broker, started_broker
from tests.databases import OwnServer, PostgresServer, bin_directory, running_server

# A busy machine is no fault of the code: examples have no deadline of their own, the test has.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server; with pytest-xdist each worker has its own."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database with the whole schema, to copy from; nobody connects to it."""
    from adapters.postgres.migrations import migrate  # noqa: PLC0415 (tests without a database need no migrations)

    name = postgres_server.create_database()
    migrate(postgres_server.dsn(name))
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def empty_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The connection string of a new empty database."""
    name = postgres_server.create_database()
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.fixture
def database(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The connection string of a new database with the whole schema and no rows."""
    name = postgres_server.create_database(migrated_template)
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    """Start an embedded server for this test alone, to stop, restart or crash; wherever the session's server is."""
    with ExitStack() as servers:

        def start(*, durable: bool = False, settings: Mapping[str, str] = MappingProxyType({})) -> EmbeddedPostgres:
            folder = servers.enter_context(temporary_data_directory())
            server = EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=durable, settings=settings)
            return servers.enter_context(server)

        yield start


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The session's broker, for tests with topics of their own; with pytest-xdist each worker has its own."""
    with running_broker() as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[StartBroker]:
    """Start a broker for this test alone, with the product's topics, or to stop, restart or crash."""
    with ExitStack() as brokers:
        yield lambda: brokers.enter_context(started_broker())

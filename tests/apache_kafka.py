"""A real Apache Kafka for the tests: one node, broker and controller in one (KRaft), from a folder of its jars."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from adapters.embedded import EmbeddedBroker
from adapters.embedded.loopback_port import free_port

# It is started for a few tests and takes few messages: what makes it start soon and stay small counts.
_JVM_OPTIONS: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# After a crash it waits until its former self is given up: 5 s instead of 12 s.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


def apache_kafka(libraries: Path, folder: Path) -> EmbeddedBroker:
    """Return a broker that keeps its data in the folder, over stops and crashes; it is not started yet."""
    return EmbeddedBroker(command=partial(_command, libraries, folder, free_port()))


def _command(libraries: Path, folder: Path, controller_port: int, port: int) -> Sequence[str | Path]:
    settings = folder / "server.properties"
    if not settings.exists():
        for name, content in _formatted_data(libraries).items():
            file = folder / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        settings.write_text(_SETTINGS.format(port=port, controller_port=controller_port, folder=folder))
    return [*_program(libraries, "kafka.Kafka"), settings]


@cache
def _formatted_data(libraries: Path) -> Mapping[str, bytes]:
    """Return the files of a new data folder. They are the same for each, and it takes 2 s to make them."""
    with tempfile.TemporaryDirectory() as name:
        settings = Path(name, "server.properties")
        settings.write_text(_SETTINGS.format(port=free_port(), controller_port=free_port(), folder=name))
        formatting = ["format", "--cluster-id=activity-closer", f"--config={settings}"]
        subprocess.run(
            [*_program(libraries, "kafka.tools.StorageTool"), *formatting], check=True, stdout=subprocess.DEVNULL
        )
        data = Path(name, "data")
        return {str(file.relative_to(data)): file.read_bytes() for file in data.rglob("*") if file.is_file()}


def _program(libraries: Path, main_class: str) -> Sequence[str]:
    java = shutil.which("java")
    if java is None:
        raise FileNotFoundError("Apache Kafka needs a program `java` on the search path")
    return [java, *_JVM_OPTIONS, "-cp", str(libraries.resolve() / "*"), main_class]

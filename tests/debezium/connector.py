"""Debezium's connector as a process of its own, configured by `deploy/debezium`, that says what Kafka would get."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Final, Self

from attrs import frozen

LIBRARIES_VARIABLE: Final = "ACTIVITY_CLOSER_TEST_DEBEZIUM_LIBS"
DEPLOYMENT: Final = Path(__file__).resolve().parents[2] / "deploy" / "debezium"
_RUNNER: Final = Path(__file__).with_name("RunRouter.java")
_HEARTBEAT_PREFIX: Final = "__debezium-heartbeat."
_PATIENCE_SECONDS: Final = 60.0
# It lives for seconds, so compiling well does not pay: 2.6 s to the first record, not 3.3.
_JAVA: Final = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


@frozen(kw_only=True)
class KafkaRecord:
    """What a consumer would see of a record, as text."""

    topic: str
    key: str
    value: str
    headers: Sequence[tuple[str, str | None]]
    """By name: their order means nothing."""


class Connector:
    """A running connector; leaving the `with` block kills it.

    `folder` gets its offsets and its log. `overrides` are keys of its configuration.
    """

    def __init__(self, *, port: int, user: str, folder: Path, overrides: Mapping[str, str]) -> None:
        self._log = folder / "connector.log"
        self._records: list[KafkaRecord] = []
        self._is_running = True
        self._changed = Condition()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *_JAVA,
                    "-cp",
                    f"{os.environ[LIBRARIES_VARIABLE]}/*",
                    str(_RUNNER),
                    str(DEPLOYMENT / "connector.json"),
                    str(folder / "offsets"),
                    *(f"{name}={value}" for name, value in overrides.items()),
                ],
                env={
                    "PATH": os.environ["PATH"],
                    "OUTBOX_DATABASE_HOST": "127.0.0.1",
                    "OUTBOX_DATABASE_PORT": str(port),
                    "OUTBOX_DATABASE_NAME": "postgres",
                    "OUTBOX_DATABASE_USER": user,
                    "OUTBOX_DATABASE_PASSWORD": "not looked at",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        self._reader = Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_for(self, count: int) -> list[KafkaRecord]:
        """Waits for so many records, and returns all since it was started; heartbeats do not count."""
        self._wait_until(lambda: len(self._records) >= count)
        return list(self._records)

    def stop(self) -> list[KafkaRecord]:
        """Stops it in order, and returns all the records since it was started."""
        self._command()
        self._wait_until(lambda: not self._is_running)
        return list(self._records)

    def start(self) -> None:
        """Starts it again, with the offsets that it stopped with."""
        self._records.clear()
        self._is_running = True
        self._command()

    def _command(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: condition() or not self._reader.is_alive(), _PATIENCE_SECONDS)
            assert condition(), f"{self._records}\n{self._log.read_text(encoding='utf-8')}"

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            for line in stdout:
                with self._changed:
                    self._take(line.strip())
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take(self, line: str) -> None:
        if not line:
            self._is_running = False
            return
        said = json.loads(line)
        if not said["topic"].startswith(_HEARTBEAT_PREFIX):
            headers = sorted((name, text) for name, text in said.pop("headers"))
            self._records.append(KafkaRecord(**said, headers=headers))

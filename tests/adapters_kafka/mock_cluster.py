"""The mock cluster that librdkafka brings along: brokers that speak the protocol, and answer as they are told to.

Only librdkafka's C interface (rdkafka_mock.h) reaches it, so it is called there.
"""

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import confluent_kafka

_PRODUCER = 0
_BROKER_ID = 1

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_INTEGER = ctypes.c_int
_SIZE = ctypes.c_size_t


class Request(IntEnum):
    """Kinds of requests, by their numbers in the protocol."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22


class MockCluster(AbstractContextManager["MockCluster"]):
    """A cluster of one broker, with one topic of two partitions."""

    topic = "test.topic"

    def __init__(self) -> None:
        configuration = _function("conf_new", _POINTER)()
        error = ctypes.create_string_buffer(512)
        set_property = _function("conf_set", _INTEGER, _POINTER, _TEXT, _TEXT, _TEXT, _SIZE)
        set_property(configuration, b"log_level", b"0", error, len(error))
        new = _function("new", _POINTER, _INTEGER, _POINTER, _TEXT, _SIZE)
        self._client = new(_PRODUCER, configuration, error, len(error))
        assert self._client, error.value
        self._cluster = _function("mock_cluster_new", _POINTER, _POINTER, _INTEGER)(self._client, 1)
        self.bootstrap_servers: str = _function("mock_cluster_bootstraps", _TEXT, _POINTER)(self._cluster).decode()
        self.create_topic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _function("mock_cluster_destroy", None, _POINTER)(self._cluster)
        _function("destroy", None, _POINTER)(self._client)

    def create_topic(self) -> None:
        """Make the topic again."""
        create = _function("mock_topic_create", _INTEGER, _POINTER, _TEXT, _INTEGER, _INTEGER)
        assert create(self._cluster, self.topic.encode(), 2, 1) == 0

    def delete_topic(self) -> None:
        """Take the topic away, with all that is in it."""
        assert _function("mock_topic_delete", _INTEGER, _POINTER, _TEXT)(self._cluster, self.topic.encode()) == 0

    def answer(self, request: Request, *errors: int) -> None:
        """Answer the next requests of a kind with these errors, one each."""
        codes = (ctypes.c_int * len(errors))(*errors)
        push = _function("mock_push_request_errors_array", None, _POINTER, ctypes.c_int16, _SIZE, _POINTER)
        push(self._cluster, request, len(errors), codes)

    def set_topic_error(self, error: int) -> None:
        """Say so whenever somebody asks for the topic; 0 is no error."""
        _function("mock_topic_set_error", None, _POINTER, _TEXT, _INTEGER)(self._cluster, self.topic.encode(), error)

    def stop(self) -> None:
        """Break all connections, and take no new ones."""
        assert _function("mock_broker_set_down", _INTEGER, _POINTER, ctypes.c_int32)(self._cluster, _BROKER_ID) == 0

    def start(self) -> None:
        """Take connections again; nothing was forgotten."""
        assert _function("mock_broker_set_up", _INTEGER, _POINTER, ctypes.c_int32)(self._cluster, _BROKER_ID) == 0

    def answer_after(self, milliseconds: int) -> None:
        """Let each answer take so long."""
        set_rtt = _function("mock_broker_set_rtt", _INTEGER, _POINTER, ctypes.c_int32, _INTEGER)
        assert set_rtt(self._cluster, _BROKER_ID, milliseconds) == 0


def _function(name: str, result: type[Any] | None, *parameters: type[Any]) -> Callable[..., Any]:
    function = _library()[f"rd_kafka_{name}"]
    function.restype, function.argtypes = result, parameters
    return function


@cache
def _library() -> ctypes.CDLL:
    """Return librdkafka as the package brings it along, on Linux and on macOS."""
    package = Path(confluent_kafka.__file__).parent
    folders = [package.parent / "confluent_kafka.libs", package / ".dylibs"]
    [path] = [path for folder in folders for path in folder.glob("librdkafka*")]
    return ctypes.CDLL(str(path))

"""How the log's lines look."""

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from io import StringIO
from typing import Any, Final, Literal, TextIO, cast

import orjson
import structlog

LEVELS: Final = logging.getLevelNamesMapping()


def configure_logging(
    *, line_format: Literal["json", "console", "auto"], level: str, stream: TextIO | None = sys.stderr
) -> None:
    """Sets up every logger of the process; once, at its start.

    `auto` is for a person where the stream is a terminal, and JSON elsewhere. `level` is a name such as `info`.
    """
    stream = stream or StringIO()  # a process that was started without a stderr has nobody to tell
    is_console = line_format == "console" or (line_format == "auto" and stream.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _most_telling_first,
            structlog.dev.ConsoleRenderer(colors=stream.isatty())
            if is_console
            else structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _UnfailingStream(stream))),
        cache_logger_on_first_use=True,
    )


class _UnfailingStream:
    """A log that cannot be written, on a full disk or a closed pipe, must not end the work that it is about."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _most_telling_first(_logger: object, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    return {"timestamp": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event"), **event}


def _json(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()

"""A private PostgreSQL server and a private Kafka broker for the demo and the tests: no installation, no service.

Linux and macOS; Windows is not supported. Clients of PostgreSQL connect over a Unix socket in a folder that only the
owner may enter, as superuser `postgres` and without a password; those of the broker over a port of 127.0.0.1. The
servers end with the process that started them, however that one ends.
"""

import os

if os.name == "nt":
    raise ImportError("the embedded servers run on Linux and macOS, not on Windows")

from adapters.embedded.account import temporary_data_directory
from adapters.embedded.broker import EmbeddedBroker
from adapters.embedded.errors import EmbeddedBrokerError, EmbeddedPostgresError, EmbeddedServerError
from adapters.embedded.server import EmbeddedPostgres, StopMode

__all__ = [
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "EmbeddedServerError",
    "StopMode",
    "temporary_data_directory",
]

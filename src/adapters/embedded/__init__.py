"""A private PostgreSQL server for the demo and the tests: no installation, no service, no network port.

Linux and macOS; Windows is not supported. Clients connect over a Unix socket in a folder that only the owner may enter,
as superuser `postgres` and without a password. The server ends with the process that started it, however that one ends.
"""

import os

if os.name == "nt":
    raise ImportError("the embedded PostgreSQL runs on Linux and macOS, not on Windows")

from adapters.embedded.account import temporary_data_directory
from adapters.embedded.errors import EmbeddedPostgresError
from adapters.embedded.guarded_process import StopMode
from adapters.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "StopMode", "temporary_data_directory"]

"""A process that owns an embedded server: `owner.py DATA_DIRECTORY [BIN_DIRECTORY]`.

Prints the connection string, then at each SIGINT whether the server still answers; it lives until its input ends.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

import psycopg

from adapters.embedded import EmbeddedPostgres


def say(line: str) -> None:
    """Print a line, also from a signal handler that interrupts another line."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main(data_directory: str, bin_directory: str | None = None) -> None:
    """Start the server and keep it."""
    server = EmbeddedPostgres(
        Path(data_directory), bin_directory=Path(bin_directory) if bin_directory else None, durable=False
    )

    def answer(_number: int, _frame: FrameType | None) -> None:
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("SELECT 1")
        say("still answers")

    with server:
        signal.signal(signal.SIGINT, answer)
        say(server.dsn())
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

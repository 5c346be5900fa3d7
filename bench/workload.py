"""The rows that each contender gets, and the check of what it made of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.resources import files

import psycopg
from attrs import frozen
from psycopg import sql

from adapters.embedded import EmbeddedPostgres
from adapters.postgres.migrations import migrate

DATABASE = "bench"


class Data(StrEnum):
    """How the stale sessions' views look."""

    NATURAL = "natural"
    """Stale with their session: phase A closes the views, phase B the bare session."""
    FRESH = "fresh"
    """Fresh: phase B closes the session together with its views."""


class WrongResult(Exception):
    """A contender did not do its work; its figures mean nothing."""


@frozen(kw_only=True)
class Workload:
    """Stale sessions, each with some open views, beside a tenth as many live ones."""

    sessions: int
    views: int
    """For each session."""
    data: Data


def statement(name: str, **values: object) -> str:
    """Return the text of `sql/<name>.sql` with the values put in."""
    return (files("bench") / "sql" / f"{name}.sql").read_text(encoding="utf-8").format(**values)


@contextmanager
def filled_database(server: EmbeddedPostgres, workload: Workload) -> Iterator[str]:
    """Yield the connection string of a new database with the whole schema and the rows, and drop it at the end."""
    name = sql.Identifier(DATABASE)
    dsn = server.dsn(DATABASE)
    with psycopg.connect(server.dsn(), autocommit=True) as maintenance:
        maintenance.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            migrate(dsn)
            _fill(dsn, workload)
            yield dsn
        finally:
            maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _fill(dsn: str, workload: Workload) -> None:
    fill = statement(
        "fill",
        sessions=workload.sessions,
        views=workload.views,
        has_fresh_views=workload.data is Data.FRESH,
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(fill.encode())  # several statements at once are one transaction
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def check(dsn: str) -> None:
    """Compare every row and every event with what must have become of the filled rows. Raises WrongResult."""
    with psycopg.connect(dsn) as connection:
        faults = connection.execute(statement("find_faults").encode()).fetchall()
    if faults:
        raise WrongResult("; ".join(f"{times} {kind}" for kind, times in faults))

"""What a version consists of: statements that each commit on their own, and remarks."""

import io
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import psycopg
from alembic.runtime.migration import MigrationContext
from attrs import frozen
from sqlalchemy.exc import DBAPIError

from adapters.postgres.migrations.catalog import Catalog
from adapters.postgres.migrations.errors import translated_errors

LOCK_TIMEOUT: Final = "2s"
# Building an index concurrently queues nobody behind it, so it may wait long for old transactions to end.
CONCURRENT_LOCK_TIMEOUT: Final = "10min"
_TRIES_MAX: Final = 4
_PAUSE_BETWEEN_TRIES_SECONDS: Final = 1.0


@frozen(kw_only=True)
class Step:
    """One change: a statement, or several that commit together, without a final semicolon."""

    statement: str
    says: str  # what it does, in words of the present participle: "adding column …"
    concurrent: bool = False  # … index concurrently: never blocks traffic, but waits for old transactions


@frozen(kw_only=True)
class Remark:
    """Something found and left as it is, or left out, that the operator should know."""

    text: str


class StepRunner(Protocol):
    """Carries a version's steps out, one after the other."""

    catalog: Catalog

    def run(self, steps: Iterable[Step | Remark]) -> None:
        """Carry out the steps in order."""


class LiveRunner:
    """Carries steps out on the database, saying each."""

    def __init__(self, context: MigrationContext, catalog: Catalog, say: Callable[[str], None]) -> None:
        self.catalog = catalog
        self.done: list[str] = []
        self.remarks: list[str] = []
        self._context = context
        self._say = say

    def run(self, steps: Iterable[Step | Remark]) -> None:
        """Carry out the steps in order.

        Raises LockTimeout when a table stays locked by others through some tries, and the other errors of
        this package.
        """
        for step in steps:
            if isinstance(step, Remark):
                self._say(step.text)
                self.remarks.append(step.text)
            else:
                self._say(step.says)
                with translated_errors(step.says):
                    self._execute(step)
                self.done.append(step.says)

    def _execute(self, step: Step) -> None:
        self._context.execute(_set_lock_timeout(step))
        for tries_left in reversed(range(_TRIES_MAX)):
            try:
                return self._context.execute(step.statement)
            except DBAPIError as error:
                # A short wait, again and again: behind a DDL statement that waits, all traffic on the table waits.
                if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or step.concurrent or not tries_left:
                    raise
            self._say(f"{step.says}: the table is in use, trying again")
            time.sleep(_PAUSE_BETWEEN_TRIES_SECONDS)
        return None


class ScriptRunner:
    """Writes steps down as an SQL script."""

    def __init__(self, context: MigrationContext, catalog: Catalog, script: io.StringIO) -> None:
        self.catalog = catalog
        self._context = context
        self._script = script

    def run(self, steps: Iterable[Step | Remark]) -> None:
        """Write the steps in order, remarks as comments."""
        for step in steps:
            if isinstance(step, Remark):
                self._script.write(f"-- {step.text}\n\n")
            else:
                self._script.write(f"-- {step.says}\n")
                self._context.execute(_set_lock_timeout(step))
                self._context.execute(step.statement)


def _set_lock_timeout(step: Step) -> str:
    return f"set lock_timeout = '{CONCURRENT_LOCK_TIMEOUT if step.concurrent else LOCK_TIMEOUT}'"

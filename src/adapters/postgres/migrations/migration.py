"""Bring a database to the newest version, say where it stands, or write down what would be done."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import Script, ScriptDirectory
from attrs import evolve, frozen
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import NullPool, create_engine

from adapters.postgres.migrations import adoption
from adapters.postgres.migrations.adoption import (
    dropping,
    left_out_for_repetitions,
    one_active_session_steps,
    schema_step,
)
from adapters.postgres.migrations.adoption_time import adoption_time_steps
from adapters.postgres.migrations.catalog import SCHEMA, VERSION_TABLE, Catalog, qualified
from adapters.postgres.migrations.delivery import delivery_findings, delivery_steps
from adapters.postgres.migrations.errors import MigrationFailed, MigrationRefused, translated_errors
from adapters.postgres.migrations.guard import sole_migration
from adapters.postgres.migrations.shape import ONE_ACTIVE_SESSION
from adapters.postgres.migrations.steps import LOCK_TIMEOUT, LiveRunner, Remark, ScriptRunner, Step, StepRunner

_OPTIONS: Final[dict[str, Any]] = {
    "version_table": VERSION_TABLE,
    "version_table_schema": SCHEMA,
    # Statements commit one by one: an index cannot be built concurrently otherwise.
    "transactional_ddl": False,
}
_UNIQUE_VIOLATION: Final = "23505"
_SCRIPT_HEAD: Final = """\
-- to be run by psql with ON_ERROR_STOP, not in a single transaction
set statement_timeout = 0;

"""


@frozen(kw_only=True)
class SchemaStatus:
    """Where a database stands."""

    current: str | None  # None: not migrated
    newest: str  # the newest version that this program knows
    pending: tuple[str, ...]  # the versions that `migrate` would apply, oldest first
    missing: tuple[
        str, ...
    ] = ()  # what a migrated schema lacks, or has too much for its settings: `migrate` would do it


@frozen(kw_only=True)
class MigrationReport:
    """What a run did."""

    version_before: str | None
    version: str
    done: tuple[str, ...]  # one line for each change, in order; empty: there was nothing to do
    remarks: tuple[str, ...]  # what was left out, or found different and left as it is


def _say_nothing(_line: str) -> None:
    """Let what happens be known by the report alone."""


def migrate(dsn: str, say: Callable[[str], None] = _say_nothing, *, has_publisher: bool = True) -> MigrationReport:
    """Bring the database of this libpq URL or DSN to the newest version; `say` hears of each thing as it is done.

    Without a publisher of ours, which is where somebody else reads the outbox, what only it needs is not added, and its
    indexes are dropped.

    Raises MigrationRefused before anything is changed, DatabaseUnavailable, RightMissing, LockTimeout or
    MigrationFailed; whatever the moment of a failure, the next run completes the work.
    """
    with (
        _connected(dsn, autocommit=False) as guard,
        translated_errors("migrating"),
        sole_migration(guard, say),
        _connected(dsn, autocommit=True) as connection,
    ):
        _prepare_session(connection)
        catalog = Catalog(connection)
        before = _status(catalog)
        scripts = _fit_for(catalog, before, has_publisher=has_publisher)
        engine = create_engine("postgresql+psycopg://", creator=lambda: connection, poolclass=NullPool)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as work:
            context = MigrationContext.configure(work, opts=_OPTIONS | {"fn": _upgrades(scripts)})
            runner = LiveRunner(context, catalog, say)
            _run_pending(context, runner, scripts)
            runner.run(_repairs(catalog, before))
            _run_one_active_session(runner)
            runner.run(delivery_steps(catalog, has_publisher=has_publisher))
        report = MigrationReport(
            version_before=before.current,
            version=before.newest,
            done=tuple(runner.done),
            remarks=tuple(runner.remarks),
        )
    say(_summary(report))
    return report


def status(dsn: str, *, has_publisher: bool = True) -> SchemaStatus:
    """Say where the database stands, changing nothing.

    Raises DatabaseUnavailable, RightMissing or MigrationFailed.
    """
    with _connected(dsn, autocommit=True) as connection, translated_errors("reading the schema's version"):
        catalog = Catalog(connection)
        found = _status(catalog)
        if found.current is None or any(_findings(catalog, has_publisher=has_publisher)):
            return found
        repairs = [
            *_repairs(catalog, found),
            *one_active_session_steps(catalog),
            *delivery_steps(catalog, has_publisher=has_publisher),
        ]
        return evolve(found, missing=tuple(step.says for step in repairs if isinstance(step, Step)))


def sql(dsn: str, *, has_publisher: bool = True) -> str:
    """Return the statements that `migrate` would run on this database as it is now, changing nothing.

    To be run by psql, not in a single transaction. Raises what `migrate` raises before it changes anything.
    """
    with _connected(dsn, autocommit=True) as connection, translated_errors("reading the catalogs"):
        connection.execute("set session characteristics as transaction read only")
        catalog = Catalog(connection)
        before = _status(catalog)
        scripts = _fit_for(catalog, before, has_publisher=has_publisher)
        script = io.StringIO()
        options = _OPTIONS | {
            "fn": _upgrades(scripts),
            "as_sql": True,
            "starting_rev": before.current,
            "output_buffer": script,
        }
        context = MigrationContext.configure(dialect_name="postgresql+psycopg", opts=options)
        runner = ScriptRunner(context, catalog, script)
        _run_pending(context, runner, scripts)
        runner.run(_repairs(catalog, before))
        runner.run(one_active_session_steps(catalog))
        runner.run(delivery_steps(catalog, has_publisher=has_publisher))
    if not script.tell():
        return f"-- nothing to do: {SCHEMA} is at version {before.newest}\n"
    # A run that was interrupted may have left the version table behind, empty.
    statements = script.getvalue().replace(
        f"CREATE TABLE {qualified(VERSION_TABLE)}", f"CREATE TABLE IF NOT EXISTS {qualified(VERSION_TABLE)}"
    )
    return f"{_SCRIPT_HEAD}{statements}"


@contextmanager
def _connected(dsn: str, *, autocommit: bool) -> Iterator[psycopg.Connection[Any]]:
    if not _is_well_formed(dsn):
        raise MigrationRefused(["the database address is malformed, must be a libpq URL or DSN"])
    with translated_errors("connecting to the database"):
        connection: psycopg.Connection[Any] = psycopg.connect(
            dsn, autocommit=autocommit, application_name="activity-closer migrate", client_encoding="UTF8"
        )
    try:
        yield connection
    finally:
        connection.close()


def _is_well_formed(dsn: str) -> bool:
    # Asked first, because libpq's own message may quote a part of the password.
    try:
        port = str(conninfo_to_dict(dsn).get("port", ""))
    except psycopg.ProgrammingError:
        return False
    return not port.replace(",", "") or port.replace(",", "").isdecimal()


def _prepare_session(connection: psycopg.Connection[Any]) -> None:
    connection.execute("set statement_timeout = 0")
    connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
    # A killed client's index build ends with it, instead of running on beside the next run. Where the server's system
    # cannot do that, the next run waits for the build.
    with suppress(psycopg.errors.InvalidParameterValue):
        connection.execute("set client_connection_check_interval = '1s'")


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(Path(__file__).parent)


def _status(catalog: Catalog) -> SchemaStatus:
    scripts = {script.revision: script for script in _scripts().walk_revisions()}  # newest first
    newest = next(iter(scripts))
    current = catalog.version()
    if current not in scripts and current is not None:
        return SchemaStatus(current=current, newest=newest, pending=())
    known = list(scripts)
    later = known if current is None else known[: known.index(current)]
    return SchemaStatus(current=current, newest=newest, pending=tuple(reversed(later)))


def _findings(catalog: Catalog, *, has_publisher: bool) -> Iterator[str]:
    yield from adoption.findings(catalog)
    if has_publisher:
        yield from delivery_findings(catalog)


def _fit_for(catalog: Catalog, before: SchemaStatus, *, has_publisher: bool) -> list[Script]:
    """Return the pending versions, or refuse with all that speaks against any of them."""
    if not before.pending and before.current != before.newest:
        unknown = f"{SCHEMA} is at version {before.current}, this program knows versions up to {before.newest}"
        raise MigrationRefused([f"{unknown}: use the program that migrated it, or a newer one"])
    directory = _scripts()
    scripts = [directory.get_revision(version) for version in before.pending]
    if findings := list(_findings(catalog, has_publisher=has_publisher)):
        raise MigrationRefused(findings)
    return scripts


def _upgrades(scripts: list[Script]) -> Callable[[Any, MigrationContext], Iterable[MigrationStep]]:
    revision_map = _scripts().revision_map
    return lambda _current, _context: [MigrationStep.upgrade_from_script(revision_map, script) for script in scripts]


def _run_pending(context: MigrationContext, runner: StepRunner, scripts: list[Script]) -> None:
    if not scripts:
        return
    if not runner.catalog.schema_exists():
        runner.run([schema_step()])
    context.run_migrations(runner=runner)


def _repairs(catalog: Catalog, before: SchemaStatus) -> Iterator[Step | Remark]:
    """Adds again what a schema that was migrated earlier has lost since."""
    if before.current is not None:
        yield from adoption.steps(catalog)
    if not before.pending:
        yield from adoption_time_steps(catalog)


def _run_one_active_session(runner: LiveRunner) -> None:
    try:
        runner.run(one_active_session_steps(runner.catalog))
    except MigrationFailed as error:
        if error.sqlstate != _UNIQUE_VIOLATION:
            raise
        # A second Active session came in while the index was being built.
        runner.run([dropping(ONE_ACTIVE_SESSION)])
        runner.run([left_out_for_repetitions(runner.catalog.repeated_active_anonymous_id_count())])


def _summary(report: MigrationReport) -> str:
    if report.done:
        return f"{SCHEMA} is at version {report.version}"
    return f"{SCHEMA} is at version {report.version}: nothing to do"

"""`activity-closer migrate`: the schema brought to the version that this program needs (specification §6)."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
import orjson
from attrs import asdict

from adapters.postgres import migrations
from adapters.postgres.migrations import (
    DatabaseUnavailable,
    LockTimeout,
    MigrationError,
    MigrationRefused,
    RightMissing,
    SchemaStatus,
)
from bootstrap.cli.options import output_option, settings_options
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Delivery, Settings


@click.command()
@click.option("--status", "only_status", is_flag=True, help="Show the version of the schema, and change nothing.")
@click.option("--sql", "only_sql", is_flag=True, help="Print the statements that would be run, and change nothing.")
@output_option
@settings_options
def migrate(*, settings: Settings, only_status: bool, only_sql: bool, output: str) -> None:
    """Create the schema user_activity, or add what is missing in it; running it again changes nothing.

    What only a publisher needs is left out, and taken away, where Debezium delivers the events (--delivery debezium).
    Connect directly, not through a transaction pooler, as a login that may create tables there.
    """
    if only_status and only_sql:
        raise click.UsageError("--status and --sql exclude each other")
    database_url = settings.required_database_url()
    has_publisher = settings.delivery is Delivery.PUBLISHER
    with _expected_errors():
        if only_sql:
            click.echo(migrations.sql(database_url, has_publisher=has_publisher), nl=False)
        elif only_status:
            _show(migrations.status(database_url, has_publisher=has_publisher), output)
        else:
            report = migrations.migrate(database_url, _say, has_publisher=has_publisher)
            if output == "json":
                click.echo(orjson.dumps(asdict(report)))


def _say(line: str) -> None:
    click.echo(line, err=True)


def _show(status: SchemaStatus, output: str) -> None:
    if output == "json":
        click.echo(orjson.dumps(asdict(status)))
        return
    click.echo(f"current version: {status.current or 'not migrated'}")
    click.echo(f"newest version:  {status.newest}")
    click.echo(f"pending:         {', '.join(status.pending) or 'nothing'}")
    for missing in status.missing:
        click.echo(f"to be done:      {missing}")


@contextmanager
def _expected_errors() -> Iterator[None]:
    """Gives each way a migration fails its exit code."""
    try:
        yield
    except MigrationRefused as error:
        raise ExpectedError(*error.findings, exit_code=ExitCode.WRONG_CONFIGURATION) from None
    except DatabaseUnavailable as error:
        raise ExpectedError(str(error), exit_code=ExitCode.UNAVAILABLE) from None
    except RightMissing as error:
        raise ExpectedError(str(error), exit_code=ExitCode.MISSING_RIGHT) from None
    except LockTimeout as error:
        raise ExpectedError(str(error), exit_code=ExitCode.TRY_AGAIN_LATER) from None
    except MigrationError as error:
        raise ExpectedError(str(error), exit_code=ExitCode.UNEXPECTED_FAILURE) from None

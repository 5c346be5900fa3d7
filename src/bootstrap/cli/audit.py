"""`activity-closer audit`: whether a database keeps the rules, while others work on it (specification §10)."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import click
import orjson

from adapters.postgres.auditing import PostgresActivityAudit
from adapters.postgres.transaction import TransactionOptions
from application.audit_activity import WARNINGS, AuditOptions, AuditReport, AuditUseCase
from application.ports.activity_audit import Finding
from application.ports.store_errors import StoreError
from bootstrap.cli.options import output_option, settings_options
from bootstrap.cli.store_failures import expected_error
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Delivery, Settings

SECONDS_BETWEEN_PROGRESS: Final = 5.0


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many findings of a kind to show; all are counted.",
)
@output_option
@settings_options
def audit(*, settings: Settings, limit: int, output: str) -> ExitCode:
    """Look for what must not be in the database: rows and events that break the specification's rules.

    Safe at any time: it only reads, in short statements, and what closers, publishers and visitors do meanwhile is no
    finding. The role activity_reader is enough. Findings are told by the ids of rows and events.

    Rows that ended before the database was adopted are not judged. Whether a closed row has its event is judged as long
    as the event must be there (--outbox-retention has to be the publisher's), and not with --delivery debezium.

    The exit code is 3 if a rule is broken; warnings alone leave it 0.
    """
    if settings.store is not None:
        raise ExpectedError(
            f"store is {settings.store}: audit knows the tables of PostgreSQL only (ACTIVITY_CLOSER_STORE)",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        )
    is_emptied_by_others = settings.delivery is Delivery.DEBEZIUM
    options = AuditOptions(
        inactivity_threshold=settings.inactivity_threshold,
        outbox_retention=None if is_emptied_by_others else settings.outbox_retention,
        examples_max=limit,
    )
    tables = PostgresActivityAudit(
        settings.required_database_url(),
        options=TransactionOptions(statement_timeout=settings.statement_timeout, lock_timeout=settings.lock_timeout),
    )
    try:
        with closing(tables):
            report = AuditUseCase(audit=tables, options=options, observe=Progress(tables.clock.monotonic)).run()
    except StoreError as error:
        raise expected_error(error) from None
    _say_examined(report.examined)
    if output == "json":
        click.echo(orjson.dumps(_described(report)))
    else:
        _show(report)
    return ExitCode.FINDINGS if report.violations else ExitCode.SUCCESS


class Progress:
    """Says now and then how much has been looked through."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._said_at = monotonic()

    def __call__(self, examined: Mapping[str, int]) -> None:
        """So much has been by now."""
        if self._monotonic() - self._said_at >= SECONDS_BETWEEN_PROGRESS:
            self._said_at = self._monotonic()
            _say_examined(examined)


def _say_examined(examined: Mapping[str, int]) -> None:
    click.echo("looked through: " + ", ".join(f"{rows} {what}" for what, rows in examined.items()), err=True)


def _show(report: AuditReport) -> None:
    for kind, found in report.found.items():
        click.echo(f"{'warning' if kind in WARNINGS else 'violation'}: {kind}: {found.count}")
        for finding in found.examples:
            click.echo(f"  {_line(finding)}")
        if 0 < len(found.examples) < found.count:
            click.echo(f"  and {found.count - len(found.examples)} more")
    click.echo(f"violations: {report.violations}, warnings: {report.warnings}")


def _line(finding: Finding) -> str:
    line = f"{finding.row_kind} {finding.row_id}"
    if finding.event_ids:
        line += f", events {' '.join(map(str, finding.event_ids))}"
    if finding.differences:
        line += f" ({', '.join(finding.differences)})"
    return line


def _described(report: AuditReport) -> dict[str, object]:
    return {
        "violations": report.violations,
        "warnings": report.warnings,
        "examined": report.examined,
        "findings": [
            {
                "kind": kind,
                "isWarning": kind in WARNINGS,
                "count": found.count,
                "examples": [
                    {
                        "aggregateType": finding.row_kind,
                        "aggregateId": finding.row_id,
                        "eventIds": finding.event_ids,
                        "differences": finding.differences,
                    }
                    for finding in found.examples
                ],
            }
            for kind, found in report.found.items()
        ],
    }

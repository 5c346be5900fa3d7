"""`activity-closer run`: the worker (specification §10)."""

from contextlib import closing

import click
import orjson

from adapters.structlog import configure_logging
from application.close_idle_activity import CloserRun
from application.ports.run_observation import RunOutcome
from application.ports.store_errors import ConnectingCancelled, StoreError
from bootstrap.cli.options import settings_options
from bootstrap.cli.store_failures import expected_error
from bootstrap.container import Container
from bootstrap.exit_codes import ExitCode
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal


@click.command()
@click.option("--once", is_flag=True, help="Do one run, print its report as one line of JSON, and end.")
@settings_options
def run(*, settings: Settings, once: bool) -> ExitCode:
    """Close idle sessions and views, a run at each polling interval, until SIGTERM or SIGINT.

    With --once the exit code tells how the run went: 0 done, 3 some rows failed and stay Active, 69 the database is
    unavailable or a table is missing, 75 another instance holds the single-instance lock, or somebody a table, 77 a
    right is missing.
    """
    configure_logging(line_format=settings.log_format.value, level=settings.log_level.value)
    stop = StopSignal()
    stop.listen()
    container = Container(settings=settings, stop=stop)
    with closing(container.store()):
        if once:
            return _run_once(container)
        container.worker().work()
    return ExitCode.SUCCESS


def _run_once(container: Container) -> ExitCode:
    try:
        ended = container.closer().run()
    except ConnectingCancelled:
        return ExitCode.SUCCESS  # ended in order
    except StoreError as error:
        raise expected_error(error) from None
    report = ended.report
    click.echo(orjson.dumps({"jobRunId": report.job_run_id} | report.summary()))
    if ended.error is not None:
        raise expected_error(ended.error)
    return _exit_code(ended)


def _exit_code(ended: CloserRun) -> ExitCode:
    if ended.report.outcome is RunOutcome.SKIPPED:
        return ExitCode.TRY_AGAIN_LATER
    if ended.report.failed_items:
        return ExitCode.FINDINGS
    if ended.report.outcome is RunOutcome.FAILED:
        return ExitCode.UNEXPECTED_FAILURE
    return ExitCode.SUCCESS

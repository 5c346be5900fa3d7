"""`activity-closer publish`: the publisher (specification §10)."""

from contextlib import closing

import click
import orjson

from adapters.structlog import configure_logging
from application.drain_outbox import Drain, Drained
from application.ports.publish_observation import PublishOutcome
from bootstrap.cli.options import settings_options
from bootstrap.cli.store_failures import expected_error
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.publisher_container import PublisherContainer
from bootstrap.settings import Delivery, Settings
from bootstrap.stop_signal import StopSignal


@click.command()
@click.option("--once", is_flag=True, help="Deliver what is due, print a report as one line of JSON, and end.")
@settings_options
def publish(*, settings: Settings, once: bool) -> ExitCode:
    """Deliver the events of the outbox to Kafka, each at least once, until SIGTERM or SIGINT.

    Any number of publishers may work side by side. Where the brokers are, and how to log in there, are properties of
    librdkafka: ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS is bootstrap.servers, and so on; or the section [kafka] of the
    settings file.

    With --once the exit code tells how it went: 0 nothing that is due is left, 3 events were refused or set aside, or a
    topic takes none, 69 the database or the broker is unavailable, or a table is missing, 75 other publishers keep what
    is left, or somebody holds a table, 77 a right is missing.
    """
    _require_to_be_the_publisher(settings)
    configure_logging(line_format=settings.log_format.value, level=settings.log_level.value)
    stop = StopSignal()
    stop.listen()
    container = PublisherContainer(settings=settings, stop=stop)
    with closing(container.store()), closing(container.sender()):
        if once:
            return publish_once(container.drain())
        container.publisher().work()
    return ExitCode.SUCCESS


def _require_to_be_the_publisher(settings: Settings) -> None:
    if settings.delivery is not Delivery.PUBLISHER:
        raise ExpectedError(
            "delivery is debezium: its connector delivers the events, and publish would deliver each of them again; set"
            " ACTIVITY_CLOSER_DELIVERY=publisher, migrate, and stop the connector, if publish is to do it",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        )


def publish_once(drain: Drain) -> ExitCode:
    """Drain the outbox, and print the report."""
    drained = drain.run()
    click.echo(orjson.dumps(drained.report.summary() | {"pendingEvents": drained.pending}))
    if drained.error is not None:
        raise expected_error(drained.error)
    return _exit_code(drained)


def _exit_code(drained: Drained) -> ExitCode:
    report = drained.report
    if report.outcome is PublishOutcome.BROKER_UNAVAILABLE:
        raise ExpectedError(
            f"the broker is unavailable: {report.unconfirmed} events may not have arrived and stay pending; the log has"
            " the cause",
            exit_code=ExitCode.UNAVAILABLE,
        )
    if report.outcome is not PublishOutcome.COMPLETED:
        return ExitCode.SUCCESS  # ended in order
    if drained.is_given_up:
        raise ExpectedError(
            f"{drained.left} events are left that other publishers have leased: try again later",
            exit_code=ExitCode.TRY_AGAIN_LATER,
        )
    has_findings = report.refused or report.dead or report.unrecorded or report.held_topics
    return ExitCode.FINDINGS if has_findings else ExitCode.SUCCESS

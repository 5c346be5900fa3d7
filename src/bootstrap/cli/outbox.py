"""`activity-closer outbox`: how the outbox stands, and what its operator may do about it (specification §10)."""

from datetime import timedelta
from typing import Any, Final

import click
import orjson

from bootstrap.cli.dead_events import dead
from bootstrap.cli.opened_outbox import connectors_outbox, publishers_outbox
from bootstrap.cli.options import output_option, settings_options
from bootstrap.durations import parse_duration, render_duration
from bootstrap.exit_codes import ExitCode
from bootstrap.settings import Settings

REMOVAL_LIMIT: Final = 2_000
"""Events that are removed in one transaction, so that nobody waits for it."""

_SECOND: Final = timedelta(seconds=1)


@click.group()
def outbox() -> None:
    """See how the outbox stands, deal with dead events, remove old ones."""


outbox.add_command(dead)


@outbox.command()
@output_option
@settings_options
def status(*, settings: Settings, output: str) -> ExitCode:
    """Show how many events are pending, and how many dead.

    Pending events have to be delivered yet; waiting ones of them were refused, and wait for their next attempt. Dead
    events were refused too often and were set aside: see `outbox dead`. Ends with 3 when there are dead events.
    """
    with publishers_outbox(settings) as store:
        now = store.clock.read()
        with store.begin() as unit_of_work:
            found = unit_of_work.upkeep.status()
    # An event of this very moment may be younger than the time that was read before it.
    age = None if found.oldest_pending_at is None else max(now - found.oldest_pending_at, timedelta(0))
    if output == "json":
        report = {
            "pendingEvents": found.pending,
            "waitingEvents": found.waiting,
            "oldestPendingAgeSeconds": None if age is None else age // _SECOND,
            "deadEvents": dict(found.dead),
        }
        click.echo(orjson.dumps(report))
    else:
        click.echo(f"pending:         {found.pending}")
        click.echo(f"  waiting:       {found.waiting}")
        click.echo(f"oldest pending:  {'none' if age is None else render_duration(age // _SECOND * _SECOND)}")
        click.echo(f"dead:            {sum(found.dead.values())}")
        for cause, events in sorted(found.dead.items()):
            click.echo(f"  {cause}: {events}")
    return ExitCode.FINDINGS if found.dead else ExitCode.SUCCESS


class _Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@outbox.command()
@click.option("--older-than", type=_Duration(), required=True, help="How old an event must be, such as 7d.")
@output_option
@settings_options
def prune(*, settings: Settings, older_than: timedelta, output: str) -> None:
    """Remove old events of an outbox that Debezium reads.

    Its connector reads events from the database's log, which keeps them until they were read: once the connector runs,
    an event may be removed at any time. Removes 2,000 events a transaction. Refused with delivery = publisher: a
    publisher removes by itself what it delivered.
    """
    removed_events = 0
    with connectors_outbox(settings) as store:
        before = store.clock.read() - older_than
        while True:
            with store.begin() as unit_of_work:
                removed = unit_of_work.upkeep.remove_occurred(before, REMOVAL_LIMIT)
                unit_of_work.commit()
            removed_events += removed
            if removed < REMOVAL_LIMIT:
                break
    click.echo(orjson.dumps({"removedEvents": removed_events}) if output == "json" else f"removed: {removed_events}")

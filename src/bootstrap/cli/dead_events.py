"""`activity-closer outbox dead`: the events that were set aside after too many refusals."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import click
import orjson

from application.ports.outbox_store import OutboxStore
from application.ports.outbox_upkeep import DeadMessage, OutboxUpkeep
from bootstrap.cli.opened_outbox import publishers_outbox
from bootstrap.cli.options import output_option, settings_options
from bootstrap.exit_codes import ExitCode
from bootstrap.settings import Settings

NAME_LENGTH_MAX: Final = 249
"""Of a topic that Kafka can have."""
PAGE_LIMIT: Final = 500
"""Events that are read, or changed, in one transaction."""


@click.group()
def dead() -> None:
    """Deal with events that were refused too often.

    An event is refused for what it is: too large, or of an impossible topic, say. The cause is the broker's name for
    it. Put it right there, and let the event be sent again; or discard it.
    """


@dead.command("list")
@output_option
@settings_options
def show_list(*, settings: Settings, output: str) -> None:
    """List the dead events. Payloads are left out; JSON is an object a line.

    A line has id, time of death, refusals, cause, type, the id of the session or view, and topic.
    """
    with publishers_outbox(settings) as store:
        for page in _pages(store):
            for event in page:
                click.echo(orjson.dumps(_described(event)) if output == "json" else _line(event))


@dead.command()
@click.argument("event_id", metavar="ID", type=click.UUID)
@click.option("--payload", "with_payload", is_flag=True, help="Show the payload, which may hold personal data.")
@output_option
@settings_options
def show(*, settings: Settings, event_id: UUID, with_payload: bool, output: str) -> ExitCode:
    """Show all that is known of a dead event. Its payload may hold personal data: it is left out unless asked for."""
    with publishers_outbox(settings) as store, store.begin() as unit_of_work:
        event = unit_of_work.upkeep.find_dead(event_id)
    if event is None:
        return _unknown([event_id])
    description = _described(event)
    if with_payload:
        # As it stands: parsing would round its numbers.
        description["payload"] = orjson.Fragment(event.message.payload) if output == "json" else event.message.payload
    if output == "json":
        click.echo(orjson.dumps(description))
    else:
        width = max(map(len, description)) + 1
        for name, value in description.items():
            click.echo(f"{name + ':':<{width}}  {'none' if value is None else value}")
    return ExitCode.SUCCESS


def _for_some_or_all(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its events: ids, or all."""
    of_ids = click.argument("event_ids", metavar="[ID]...", nargs=-1, type=click.UUID)
    of_all = click.option("--all", "is_all", is_flag=True, help="All events that are dead now.")
    return of_ids(of_all(command))


@dead.command()
@_for_some_or_all
@output_option
@settings_options
def retry(*, settings: Settings, event_ids: tuple[UUID, ...], is_all: bool, output: str) -> ExitCode:
    """Let dead events be sent again, from the first attempt."""
    _require_ids_or_all(event_ids, is_all)
    with publishers_outbox(settings) as store:
        chosen = _all(store) if is_all else _named(store, event_ids)
        changed = _change(store, chosen, lambda upkeep, ids: upkeep.retry(ids))
    click.echo(orjson.dumps({"retriedEvents": changed}) if output == "json" else f"to be sent again: {changed}")
    return _unknown(set(event_ids).difference(*chosen))


@dead.command()
@_for_some_or_all
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
@output_option
@settings_options
def discard(
    *, settings: Settings, event_ids: tuple[UUID, ...], is_all: bool, is_confirmed: bool, output: str
) -> ExitCode:
    """Remove dead events for good: their consumers will never get them. Asks, unless --yes is given."""
    _require_ids_or_all(event_ids, is_all)
    if not is_confirmed and not sys.stdin.isatty():
        raise click.UsageError("discarding is for good: where nobody can be asked, confirm it with --yes")
    changed = 0
    with publishers_outbox(settings) as store:
        chosen = _all(store) if is_all else _named(store, event_ids)
        events = sum(map(len, chosen))
        if events and (is_confirmed or click.confirm(f"Remove {events} dead events for good?", err=True)):
            changed = _change(store, chosen, lambda upkeep, ids: upkeep.discard(ids))
    click.echo(orjson.dumps({"discardedEvents": changed}) if output == "json" else f"discarded: {changed}")
    return _unknown(set(event_ids).difference(*chosen))


def _require_ids_or_all(event_ids: Sequence[UUID], is_all: bool) -> None:
    if bool(event_ids) is is_all:
        raise click.UsageError("give the ids of events, or --all")


def _pages(store: OutboxStore) -> Iterator[Sequence[DeadMessage]]:
    """All dead events in the order of their ids, each page as a transaction of its own sees it."""
    after: UUID | None = None
    while True:
        with store.begin() as unit_of_work:
            page = unit_of_work.upkeep.dead(after, PAGE_LIMIT)
        if not page:
            return
        yield page
        after = page[-1].message.id


def _all(store: OutboxStore) -> list[list[UUID]]:
    """The ids of all events that are dead now, in pages: what dies while somebody is asked was not meant."""
    return [[event.message.id for event in page] for page in _pages(store)]


def _named(store: OutboxStore, event_ids: Sequence[UUID]) -> list[list[UUID]]:
    """Those of the ids that are of dead events, as a page."""
    with store.begin() as unit_of_work:
        return [[one for one in sorted(set(event_ids)) if unit_of_work.upkeep.find_dead(one) is not None]]


def _change(
    store: OutboxStore, pages: Sequence[Sequence[UUID]], change: Callable[[OutboxUpkeep, Sequence[UUID]], int]
) -> int:
    """Do something to events, page by page; answer how many were dead yet."""
    changed = 0
    for page in pages:
        with store.begin() as unit_of_work:
            changed += change(unit_of_work.upkeep, page)
            unit_of_work.commit()
    return changed


def _unknown(event_ids: Collection[UUID]) -> ExitCode:
    """Name the ids that no dead event has."""
    for event_id in sorted(event_ids):
        click.echo(f"no dead event has the id {event_id}", err=True)
    return ExitCode.FINDINGS if event_ids else ExitCode.SUCCESS


def _described(event: DeadMessage) -> dict[str, object]:
    """All but the payload, which may hold personal data."""
    message = event.message
    return {
        "id": str(message.id),
        "deadAt": _moment(event.dead_at),
        "cause": event.cause,
        "refusals": event.refusals,
        "topic": message.topic,
        "eventType": message.event_type,
        "contractVersion": message.contract_version,
        "aggregateType": message.aggregate_type,
        "aggregateId": str(message.aggregate_id),
        "correlationId": str(message.correlation_id),
        "traceParent": message.trace_parent,
        "occurredAt": _moment(message.occurred_at),
    }


def _line(event: DeadMessage) -> str:
    message = event.message
    return "  ".join(
        (
            str(message.id),
            _moment(event.dead_at),
            f"{event.refusals:>2}",
            f"{event.cause:<20}",
            _printable(message.event_type),
            str(message.aggregate_id),
            _printable(message.topic),
        )
    )


def _printable(name: str) -> str:
    """A name as it may stand in a line, whatever somebody put into the row."""
    shown = name[:NAME_LENGTH_MAX]
    return shown if shown.isprintable() else ascii(shown)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

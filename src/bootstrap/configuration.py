"""Reads all sources of settings and judges them together (specification §4)."""

from collections.abc import Mapping

from attrs import frozen

from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.kafka_properties import KAFKA, parse_value
from bootstrap.setting import SETTINGS, Setting
from bootstrap.setting_sources import Given, Origin, Source, from_command_line, from_environment, from_file
from bootstrap.settings import ContradictionError, Settings

_LONGEST_QUOTE = 100


@frozen(kw_only=True)
class Configuration:
    """The settings in force, and where each comes from, by its name; `kafka.…` is a property of librdkafka."""

    settings: Settings
    sources: Mapping[str, Source]


def configure(*, environment: Mapping[str, str], command_line: Mapping[str, str | bool | None]) -> Configuration:
    """Return the settings: the command line over the environment over the settings file over the defaults.

    Raises ExpectedError (wrong configuration) with a line for each thing that is wrong, all at once. No line quotes a
    secret.
    """
    problems: list[str] = []
    given = {**from_environment(environment, problems), **from_command_line(command_line)}
    if "config" in given and given["config"].text.strip():
        given = {**from_file(given["config"], problems), **given}
    sources = {name: Source(origin=Origin.DEFAULT) for name in SETTINGS}
    sources |= {name: given[name].source for name in (*SETTINGS, *sorted(given)) if name in given}
    kafka: dict[str, str] = {}
    values: dict[str, object] = {KAFKA: kafka}
    for name, value in given.items():
        try:
            if name in SETTINGS:
                values[name] = SETTINGS[name].parse(value.text)
            else:
                own_name = name.removeprefix(f"{KAFKA}.")
                kafka[own_name] = parse_value(own_name, value.text)
        except ValueError:
            problems.append(_refusal(SETTINGS.get(name), value))
    settings = None
    if not problems:
        try:
            settings = Settings(**values)  # type: ignore[arg-type]  # each value was converted to its attribute's type
        except ContradictionError as error:
            problems += [f"{sources[name].name or name}: {problem}" for name, problem in error.problems.items()]
    if settings is None:
        raise ExpectedError(*problems, exit_code=ExitCode.WRONG_CONFIGURATION)
    return Configuration(settings=settings, sources=sources)


def _refusal(setting: Setting | None, given: Given) -> str:
    if setting is None:
        return f"{given.source.name} must be a text that is not empty, for librdkafka"
    line = f"{given.source.name} must be {setting.allowed}"
    if setting.option.is_secret:
        return f"{line} (what was given is not shown: it may hold a password)"
    quoted = repr(given.text)
    return f"{line}, not {quoted if len(quoted) <= _LONGEST_QUOTE else quoted[:_LONGEST_QUOTE] + '…'}"

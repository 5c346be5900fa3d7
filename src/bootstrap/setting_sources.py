"""Where settings come from: the settings file, the environment, the command line (specification §4)."""

import re
import tomllib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import field, frozen

from bootstrap.kafka_properties import KAFKA, KNOWN, KafkaProperty, properties_named_by
from bootstrap.setting import PREFIX, SETTINGS, Setting

_NOT_OURS = re.compile(
    # for the test suite
    r"TEST_.*"
    # what Kubernetes sets in every pod beside a Service that is called activity-closer, or activity-closer-kafka…
    r"|(KAFKA_(\w+_)?)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)

_TEXT_LENGTH_MAX = 1_000_000  # whoever names an endless file by mistake is told, and not waited for


class Origin(StrEnum):
    """The kinds of source, each stronger than the one before."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


@frozen(kw_only=True)
class Source:
    """Where a value comes from: the kind of source, and the name under which the user gave it."""

    origin: Origin
    name: str | None = None


@frozen(kw_only=True)
class Given:
    """A setting's text as given, which may hold a secret, and its source."""

    text: str = field(repr=False)
    source: Source


class UnreadableSourceError(Exception):
    """A source that cannot be used; its message names it and says why."""


def from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    """Return what the `ACTIVITY_CLOSER_…` variables set; unknown and unreadable ones are added to `problems`."""
    ours = {name for name in environment if name.startswith(PREFIX) and not _NOT_OURS.fullmatch(name, len(PREFIX))}
    settings: list[Setting | KafkaProperty] = [*SETTINGS.values(), *properties_named_by(ours)]
    known = {setting.variable for setting in settings}
    known |= {setting.file_variable for setting in settings if setting.file_variable}
    meant = known | {KafkaProperty(own_name).variable for own_name in KNOWN}
    problems += [
        f"unknown environment variable {name}{_suggestion(name.upper().replace('.', '_'), meant)}"
        for name in sorted(ours - known)
    ]
    given: dict[str, Given] = {}
    for setting in settings:
        try:
            given.update(_from_variables(setting, environment))
        except UnreadableSourceError as error:
            problems.append(str(error))
    return given


def _from_variables(setting: Setting | KafkaProperty, environment: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    text = environment.get(setting.variable)
    name = setting.variable
    if setting.file_variable and (path := environment.get(setting.file_variable)) is not None:
        if text is not None:
            raise UnreadableSourceError(f"{name} and {setting.file_variable} are both set; only one of them is allowed")
        name = f"{setting.file_variable} ({path})"
        text = re.sub(r"\r?\n\Z", "", _text_of(path, named_by=setting.file_variable))
    if text is not None:
        yield setting.name, Given(text=text, source=Source(origin=Origin.ENVIRONMENT, name=name))


def from_file(config: Given, problems: list[str]) -> dict[str, Given]:
    """Return what the settings file sets: `snake_case` keys at its top level, or `kebab-case` ones, and `[kafka]`.

    An unreadable file and unknown keys are added to `problems`.
    """
    path = config.text.strip()
    known = SETTINGS.keys() - {"config"}
    try:
        entries = tomllib.loads(_text_of(path, named_by=config.source.name))
    except UnreadableSourceError as error:
        problems.append(str(error))
        return {}
    except ValueError as error:  # tomllib's own error is one, and a number of thousands of digits raises another
        problems.append(f"{config.source.name}: {path} is not a TOML file: {error}")
        return {}
    except RecursionError:
        problems.append(f"{config.source.name}: {path} is not a settings file: it is nested too deeply")
        return {}
    given: dict[str, Given] = {}
    for key, value in entries.items():
        name = key.replace("-", "_")
        if name == KAFKA and isinstance(value, dict):
            given.update(_from_kafka_section(value, path, problems))
        elif name == KAFKA:
            problems.append(f"{key} in {path} must be a section, [{KAFKA}], of librdkafka's properties")
        elif isinstance(value, dict):
            problems.append(
                f"unknown section [{key}] in {path}; keys stand at the top of the file, only librdkafka's in [{KAFKA}]"
            )
        elif name not in known:
            problems.append(f"unknown key {key!r} in {path}{_suggestion(name, known)}")
        elif name in given:
            problems.append(f"{name} is set twice in {path}")
        else:
            # Read as text like the other sources, so that one rule judges them all.
            given[name] = Given(text=str(value), source=Source(origin=Origin.FILE, name=f"{key} in {path}"))
    return given


def _from_kafka_section(section: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Given]:
    """Return what `[kafka]` sets: TOML reads a dotted key that is not quoted as tables within tables."""
    given: dict[str, Given] = {}
    entries = deque((f"{KAFKA}.{key}", value) for key, value in section.items())
    while entries:
        name, value = entries.popleft()
        if isinstance(value, dict):
            entries.extend((f"{name}.{key}", each) for key, each in value.items())
        elif name in given:
            problems.append(f"{name} is set twice in {path}")
        elif isinstance(value, str | int | float):  # a truth value is an integer, too
            text = str(value).lower() if isinstance(value, bool) else str(value)
            given[name] = Given(text=text, source=Source(origin=Origin.FILE, name=f"{name} in {path}"))
        else:
            problems.append(f"{name} in {path} must be a text, a number, true or false")
    return given


def from_command_line(options: Mapping[str, str | bool | None]) -> dict[str, Given]:
    """Return what the options of the command line set; None is an option that was not given."""
    given: dict[str, Given] = {}
    for name, value in options.items():
        flag = SETTINGS[name].flag
        if value is False:
            flag = flag.replace("--", "--no-", 1)
        if value is not None:
            given[name] = Given(text=str(value), source=Source(origin=Origin.COMMAND_LINE, name=flag))
    return given


def _text_of(path: str, *, named_by: str | None) -> str:
    try:
        with Path(path).open(encoding="utf-8") as source:
            text = source.read(_TEXT_LENGTH_MAX + 1)
        if len(text) <= _TEXT_LENGTH_MAX:
            return text
        reason = f"it is longer than {_TEXT_LENGTH_MAX} characters"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a path"
    raise UnreadableSourceError(f"{named_by}: cannot read {path!r}: {reason}")


def _suggestion(name: str, known: Collection[str]) -> str:
    # The prefix is the same everywhere and would make everything look alike.
    close = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], 1, 0.5)
    prefix = PREFIX if name.startswith(PREFIX) else ""
    return f"; did you mean {prefix}{close[0]}?" if close else ""

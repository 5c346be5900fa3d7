"""One setting as its user meets it: its names, its help, what is allowed, and how its text is read."""

import operator
import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import cattrs
from attrs import Attribute, fields_dict, frozen
from typed_settings import Secret, default_converter
from typed_settings.cls_utils import deep_options
from typed_settings.constants import CLICK_METADATA_KEY
from typed_settings.types import OptionInfo

from bootstrap.database_url import masked_database_url
from bootstrap.durations import DURATION_FORMS, LONGEST_DURATION, parse_duration, render_duration
from bootstrap.settings import ALLOWED, Settings, limits

PREFIX = "ACTIVITY_CLOSER_"
"""How the names of our environment variables begin."""

LARGEST_NUMBER = 999_999_999


def _converter() -> cattrs.Converter:
    converter = default_converter(resolve_paths=False)
    assert isinstance(converter, cattrs.Converter)  # not typed-settings' own, since cattrs is there
    converter.register_structure_hook(timedelta, lambda text, _type: parse_duration(text))
    converter.register_structure_hook(int, lambda text, _type: _parse_integer(text))
    return converter


def _parse_integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        raise ValueError("not a whole number")
    return int(text)


@frozen(kw_only=True)
class Setting:
    """A setting's description, taken from its attribute in `Settings`."""

    option: OptionInfo
    attribute: "Attribute[Any]"

    @property
    def name(self) -> str:
        """Its name in the settings file and in Python."""
        return self.option.name

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.name.upper()

    @property
    def file_variable(self) -> str | None:
        """The environment variable that names a file with its value.

        The settings file has none: who writes `ACTIVITY_CLOSER_CONFIG_FILE` means `ACTIVITY_CLOSER_CONFIG`.
        """
        return None if self.name == "config" else f"{self.variable}_FILE"

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """What it means, in one sentence."""
        return str(self.option.metadata[CLICK_METADATA_KEY]["help"])

    @property
    def allowed(self) -> str:
        """What is allowed, as it continues "must be …"."""
        if self.option.cls is bool:
            return "on or off"
        if self.option.cls is timedelta:
            return f"a duration (such as {DURATION_FORMS}) {self.range}"
        if self.option.cls is int:
            return f"a whole number {self.range}"
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        return str(self.attribute.metadata[ALLOWED])

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that are allowed, where it takes a few of them."""
        kind: Any = self.option.cls  # not always a class: `str | None`
        return tuple(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else ()

    @property
    def range(self) -> str:
        """The smallest and the largest value of a number or a duration."""
        bounds = {limit.compare_func: self.render(limit.bound) for limit in limits(self.attribute.validator)}
        largest = LARGEST_NUMBER if self.option.cls is int else LONGEST_DURATION
        high = bounds.get(operator.le, self.render(largest))
        if operator.gt in bounds:
            return f"above {bounds[operator.gt]}, up to {high}"
        return f"from {bounds.get(operator.ge, '0s')} to {high}"

    def parse(self, text: str) -> Any:
        """Return the value that `text` means; surrounding blanks are fine.

        Raises ValueError when it is not allowed. Its message may quote the text and is not fit for a secret.
        """
        text = text.strip()
        if not text:
            raise ValueError("empty")
        value: Any = _CONVERTER.structure(text.lower() if self.choices else text, self.option.cls)
        if self.attribute.validator:
            self.attribute.validator(None, self.attribute, value)
        return value

    def render(self, value: object) -> Any:
        """Return `value` as people and JSON show it: durations in one form, passwords masked."""
        if isinstance(value, timedelta):
            return render_duration(value)
        if isinstance(value, Secret):
            return masked_database_url(value.get_secret_value())
        return value if value is None or isinstance(value, int) else str(value)


_CONVERTER = _converter()

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        option.name: Setting(option=option, attribute=fields_dict(Settings)[option.name])
        for option in deep_options(Settings)
        if option.name != "kafka"
    }
)
"""All settings by name, in the order in which they are shown; those apart that pass through to librdkafka."""

"""Durations as people write them: `12m`, `1m30s`, `PT12M`, `00:12:00` (specification §4).

The resolution is a millisecond, that of PostgreSQL's timeouts, so that no duration above zero is rounded to zero there.
"""

import re
from datetime import timedelta

DURATION_FORMS = "12m, 90s, 1m30s, PT12M or 00:12:00"
"""The accepted forms, for messages and help."""

LONGEST_DURATION = timedelta(days=365)
"""Anything longer is a slip of the pen, and would overflow clocks and timers."""

_DIGITS = "[0-9]{1,9}"
_FRACTION = r"(?:\.(?P<fraction>[0-9]{1,7}))?"  # .NET writes seven digits
_FORMS = (
    # 1d2h3m4s5ms
    re.compile(
        rf"(?=.)(?:(?P<days>{_DIGITS})d)?(?:(?P<hours>{_DIGITS})h)?(?:(?P<minutes>{_DIGITS})m)?"
        rf"(?:(?P<seconds>{_DIGITS})s)?(?:(?P<milliseconds>{_DIGITS})ms)?"
    ),
    # ISO 8601: P1DT2H3M4.005S
    re.compile(
        rf"P(?=.)(?:(?P<days>{_DIGITS})D)?"
        rf"(?:T(?=.)(?:(?P<hours>{_DIGITS})H)?(?:(?P<minutes>{_DIGITS})M)?(?:(?P<seconds>{_DIGITS}){_FRACTION}S)?)?"
    ),
    # .NET TimeSpan: 1.02:03:04.0050000
    re.compile(
        rf"(?:(?P<days>{_DIGITS})\.)?(?P<hours>[01]?[0-9]|2[0-3]):(?P<minutes>[0-5][0-9]):(?P<seconds>[0-5][0-9])"
        + _FRACTION
    ),
)
_MILLISECONDS_OF = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "milliseconds": 1}
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration(text: str) -> timedelta:
    """Return the duration that `text` means; surrounding blanks are fine.

    Raises ValueError for anything else: a bare number says no unit, `12.5` and `NaN` mean nothing.
    """
    for form in _FORMS:
        if match := form.fullmatch(text.strip()):
            parts = match.groupdict()
            fraction = (parts.pop("fraction", None) or "").ljust(3, "0")
            if fraction[3:].strip("0"):
                break
            milliseconds = int(fraction[:3]) + sum(_MILLISECONDS_OF[unit] * int(parts[unit] or 0) for unit in parts)
            if milliseconds > LONGEST_DURATION // timedelta(milliseconds=1):
                break
            return timedelta(milliseconds=milliseconds)
    raise ValueError(f"not a duration: {text!r}; write it like {DURATION_FORMS}")


def render_duration(duration: timedelta) -> str:
    """Return the one canonical form, such as `12m` or `1m30s`, which `parse_duration` reads back.

    Raises ValueError for a negative duration or one finer than a millisecond.
    """
    milliseconds, finer = divmod(duration, timedelta(milliseconds=1))
    if finer or milliseconds < 0:
        raise ValueError(f"a duration is a whole number of milliseconds, not {duration!r}")
    rendered = ""
    for unit, milliseconds_of_unit in _UNITS.items():
        count, milliseconds = divmod(milliseconds, milliseconds_of_unit)
        if count:
            rendered += f"{count}{unit}"
    return rendered or "0s"

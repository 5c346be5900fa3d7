"""Durations as people write them (specification §4)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.durations import LONGEST_DURATION, parse_duration, render_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12m", 720),
        ("90s", 90),
        ("1m30s", 90),
        ("PT12M", 720),
        ("00:12:00", 720),
        (" 12m\n", 720),
        ("250ms", 0.25),
        ("1d2h3m4s5ms", 93784.005),
        ("P1DT2H3M4.005S", 93784.005),
        ("1.02:03:04.0050000", 93784.005),
        ("0s", 0),
        ("PT0S", 0),
        ("00:00:00", 0),
    ],
)
def test_each_form_means_the_same_time(text: str, seconds: float) -> None:
    """Unit form, ISO 8601 and .NET TimeSpan are accepted, surrounding blanks included."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "9",
        "12.5",
        "NaN",
        "inf",
        "-1m",
        "12",
        "m",
        "12 m",
        "30s1m",
        "1.5m",
        "P",
        "PT",
        "P1DT",
        "12:00",
        "24:00:00",
        "00:60:00",
        "00:00:60",
        "00:00:00.0000001",
        "PT0.0001S",
        "366d",
        "9999999999d",
        "\u0661m",
        "12m\x00",
    ],
)
def test_anything_else_is_refused_with_the_accepted_forms(text: str) -> None:
    """A bare number, NaN, nothing, `12.5` and whatever else is no duration are refused, and the message says how."""
    with pytest.raises(ValueError, match=r"12m, 90s, 1m30s, PT12M or 00:12:00"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST_DURATION))
def test_the_rendered_form_is_read_back(duration: timedelta) -> None:
    """Rendering loses nothing: every duration in whole milliseconds comes back from its canonical form."""
    whole = duration // timedelta(milliseconds=1) * timedelta(milliseconds=1)
    assert parse_duration(render_duration(whole)) == whole


@pytest.mark.parametrize("text", ["12m", "1m30s", "1h", "0s", "1d", "2s500ms"])
def test_the_canonical_form_is_the_short_one(text: str) -> None:
    """A duration is shown with its largest units and without zeros."""
    assert render_duration(parse_duration(text)) == text


@pytest.mark.parametrize("duration", [timedelta(seconds=-1), timedelta(microseconds=1)])
def test_what_has_no_canonical_form_is_refused(duration: timedelta) -> None:
    """Rendering never rounds: a negative duration, or one finer than a millisecond, is an error."""
    with pytest.raises(ValueError, match="whole number of milliseconds"):
        render_duration(duration)

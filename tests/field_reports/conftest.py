"""The scenario of a test, and the check that ends each of them."""

import logging
from collections.abc import Iterator
from contextlib import closing
from io import StringIO

import pytest
import structlog

from adapters.structlog import configure_logging
from tests.field_reports.aftermath import assert_all_is_well
from tests.field_reports.scenario import Scenario


@pytest.fixture
def log() -> Iterator[StringIO]:
    """The program's log, everything in it."""
    stream = StringIO()
    configure_logging(line_format="json", level="debug", stream=stream)
    yield stream
    structlog.reset_defaults()


@pytest.fixture
def scenario(
    database: str, log: StringIO, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[Scenario]:
    """A migrated database without rows; after the test, what holds after every scenario is checked."""
    caplog.set_level(logging.DEBUG)
    with closing(Scenario(database)) as scenario:
        yield scenario
        assert_all_is_well(scenario, [log.getvalue(), caplog.text, *capfd.readouterr()])

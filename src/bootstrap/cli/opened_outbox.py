"""The outbox as the commands of its operator open it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from application.ports.outbox_store import OutboxStore
from application.ports.store_errors import StoreError
from bootstrap.cli.store_failures import expected_error
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Delivery, Settings
from bootstrap.stop_signal import StopSignal
from bootstrap.store_factory import make_outbox_store


@contextmanager
def publishers_outbox(settings: Settings) -> Iterator[OutboxStore]:
    """Open the outbox of a publisher; a store that does not serve ends the command with its exit code."""
    _require(
        settings, Delivery.PUBLISHER, "its connector leaves no mark on an event, so nobody knows which ones are pending"
    )
    with _opened(settings) as store:
        yield store


@contextmanager
def connectors_outbox(settings: Settings) -> Iterator[OutboxStore]:
    """Open the outbox of Debezium's connector, as `publishers_outbox` does that of a publisher."""
    _require(
        settings,
        Delivery.DEBEZIUM,
        "it removes by itself what it delivered longer than outbox_retention ago, and what has not been delivered must"
        " stay",
    )
    with _opened(settings) as store:
        yield store


def _require(settings: Settings, delivery: Delivery, reason: str) -> None:
    if settings.delivery is not delivery:
        raise ExpectedError(
            f"delivery is {settings.delivery}: {reason} (ACTIVITY_CLOSER_DELIVERY)",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        )


@contextmanager
def _opened(settings: Settings) -> Iterator[OutboxStore]:
    try:
        with closing(make_outbox_store(settings, StopSignal())) as store:
            yield store
    except StoreError as error:
        raise expected_error(error) from None

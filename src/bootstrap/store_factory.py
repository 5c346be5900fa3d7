"""The store that the settings ask for."""

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Cancellation
from application.ports.store_errors import StoreError
from bootstrap.defects import described_without_its_text
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Settings


def make_store(settings: Settings, cancellation: Cancellation) -> ActivityStore:
    """PostgreSQL, or what `store` names.

    A factory of somebody else's is called with the database URL, or None if none is set, and answers an ActivityStore.
    Raises ExpectedError if it cannot be had.
    """
    if settings.store is not None:
        store: ActivityStore = made_by("store", settings.store, settings)
        return store
    return PostgresActivityStore(
        settings.required_database_url(),
        options=TransactionOptions(
            statement_timeout=settings.statement_timeout,
            lock_timeout=settings.lock_timeout,
            is_single_instance=settings.single_instance,
        ),
        prepared_statements=settings.prepared_statements.value,
        is_cancelled=cancellation.requested,
    )


def made_by(setting: str, name: str, settings: Settings) -> Any:
    """What the factory makes that a setting names; raises ExpectedError if it is not there, or makes no store."""
    database_url = None if settings.database_url is None else settings.database_url.get_secret_value()
    try:
        store = _factory(setting, name)(database_url)
    except ExpectedError:
        raise
    except StoreError as error:  # whose reason is made to be shown
        raise ExpectedError(
            f"{setting} {name!r} cannot be made: {error.reason}", exit_code=ExitCode.WRONG_CONFIGURATION
        ) from None
    except Exception as error:  # somebody else's code: whatever it raises is about the setting
        raise ExpectedError(
            f"{setting} {name!r} cannot be made: {described_without_its_text(error)}",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        ) from None
    if missing := [part for part in ("clock", "begin", "close") if not hasattr(store, part)]:
        raise ExpectedError(
            f"{setting} {name!r} gave {type(store).__name__}, which is no store: it lacks {', '.join(missing)}",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        )
    return store


def _factory(setting: str, name: str) -> Callable[[str | None], object]:
    module_name, _, attribute = name.partition(":")
    try:
        factory = attrgetter(attribute)(import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise ExpectedError(
            f"{setting} {name!r} cannot be loaded: {error}; it must name a callable as module:factory, in a module"
            " that is installed or on PYTHONPATH",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        ) from None
    if not callable(factory):
        raise ExpectedError(f"{setting} {name!r} is not callable", exit_code=ExitCode.WRONG_CONFIGURATION)
    return cast("Callable[[str | None], object]", factory)

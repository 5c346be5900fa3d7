"""The store that the settings ask for."""

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import cast

from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Cancellation
from bootstrap.defects import described_without_its_text
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.settings import Settings


def make_store(settings: Settings, cancellation: Cancellation) -> ActivityStore:
    """PostgreSQL, or what `store` names.

    A factory of somebody else's is called with the database URL, or None if none is set, and answers an ActivityStore.
    Raises ExpectedError if it cannot be had.
    """
    if settings.store is not None:
        return _made_by(settings.store, settings)
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


def _made_by(name: str, settings: Settings) -> ActivityStore:
    database_url = None if settings.database_url is None else settings.database_url.get_secret_value()
    try:
        store = _factory(name)(database_url)
    except ExpectedError:
        raise
    except Exception as error:  # somebody else's code: whatever it raises is about the setting
        raise ExpectedError(
            f"store {name!r} cannot be made: {described_without_its_text(error)}",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        ) from None
    if missing := [part for part in ("clock", "begin", "close") if not hasattr(store, part)]:
        raise ExpectedError(
            f"store {name!r} gave {type(store).__name__}, which is no ActivityStore: it lacks {', '.join(missing)}",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        )
    return store


def _factory(name: str) -> Callable[[str | None], ActivityStore]:
    module_name, _, attribute = name.partition(":")
    try:
        factory = attrgetter(attribute)(import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise ExpectedError(
            f"store {name!r} cannot be loaded: {error}; it must name a callable as module:factory, in a module"
            " that is installed or on PYTHONPATH",
            exit_code=ExitCode.WRONG_CONFIGURATION,
        ) from None
    if not callable(factory):
        raise ExpectedError(f"store {name!r} is not callable", exit_code=ExitCode.WRONG_CONFIGURATION)
    return cast("Callable[[str | None], ActivityStore]", factory)

"""The store that the settings ask for."""

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import cast

from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Cancellation
from application.ports.outbox_store import OutboxStore
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
        return cast("ActivityStore", _made_by("store", settings.store, settings, roles=("sessions", "stale_sessions")))
    return PostgresActivityStore(
        settings.required_database_url(),
        options=_transaction_options(settings),
        prepared_statements=settings.prepared_statements.value,
        is_cancelled=cancellation.requested,
    )


def make_outbox_store(settings: Settings, cancellation: Cancellation) -> OutboxStore:
    """The other side of the store, for those who deliver: PostgreSQL's, or what `outbox_store` names, as above."""
    if settings.outbox_store is not None:
        roles = ("deliveries", "upkeep")
        return cast("OutboxStore", _made_by("outbox_store", settings.outbox_store, settings, roles=roles))
    return PostgresOutboxStore(
        settings.required_database_url(),
        options=_transaction_options(settings),
        prepared_statements=settings.prepared_statements.value,
        is_cancelled=cancellation.requested,
    )


def _transaction_options(settings: Settings) -> TransactionOptions:
    return TransactionOptions(
        statement_timeout=settings.statement_timeout,
        lock_timeout=settings.lock_timeout,
        is_single_instance=settings.single_instance,
    )


def _made_by(setting: str, name: str, settings: Settings, *, roles: Sequence[str]) -> object:
    """What the factory makes that a setting names; its units of work must play these roles."""
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
    missing = [part for part in ("clock", "begin", "close") if not hasattr(store, part)]
    if not missing:
        unit_of_work = cast("ActivityStore", store).begin()
        missing = [f"{role} in its units of work" for role in roles if not hasattr(unit_of_work, role)]
    if missing:
        raise ExpectedError(
            f"{setting} {name!r} gave {type(store).__name__}, which is no such store: it lacks {', '.join(missing)}",
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

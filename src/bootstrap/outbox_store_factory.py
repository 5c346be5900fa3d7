"""The outbox that the settings ask for, from the side of those who deliver it."""

from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.transaction import TransactionOptions
from application.ports.cancellation import Cancellation
from application.ports.outbox_store import OutboxStore
from bootstrap.settings import Settings
from bootstrap.store_factory import made_by


def make_outbox_store(settings: Settings, cancellation: Cancellation) -> OutboxStore:
    """That of PostgreSQL, or what `outbox_store` names; as `make_store` does it."""
    if settings.outbox_store is not None:
        store: OutboxStore = made_by("outbox_store", settings.outbox_store, settings)
        return store
    return PostgresOutboxStore(
        settings.required_database_url(),
        options=TransactionOptions(statement_timeout=settings.statement_timeout, lock_timeout=settings.lock_timeout),
        prepared_statements=settings.prepared_statements.value,
        is_cancelled=cancellation.requested,
    )

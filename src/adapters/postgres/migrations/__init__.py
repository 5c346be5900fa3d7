"""Versioned migrations of the schema `user_activity` (specification §6).

Imported only where somebody migrates: this package alone needs alembic and SQLAlchemy. Each statement commits on its
own, so no lock on the service's tables outlives its statement, and a run that was killed is completed by the next.
Migrate over a direct connection: a transaction pooler would hand the session's settings to others.
"""

from adapters.postgres.migrations.errors import (
    DatabaseUnavailable,
    LockTimeout,
    MigrationError,
    MigrationFailed,
    MigrationRefused,
    RightMissing,
)
from adapters.postgres.migrations.migration import MigrationReport, SchemaStatus, migrate, sql, status

__all__ = [
    "DatabaseUnavailable",
    "LockTimeout",
    "MigrationError",
    "MigrationFailed",
    "MigrationRefused",
    "MigrationReport",
    "RightMissing",
    "SchemaStatus",
    "migrate",
    "sql",
    "status",
]

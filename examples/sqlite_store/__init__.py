"""A store of activity-closer in a file of SQLite: a worked example of an adapter outside of the program.

Each module is named after the port that it implements. Nothing of the program is imported but its domain, its ports and
what is around this package: an adapter knows neither the command line nor another adapter.
"""

from sqlite_store.store import SqliteActivityStore, SqliteOutboxStore, open_outbox_store, open_store

__all__ = ["SqliteActivityStore", "SqliteOutboxStore", "open_outbox_store", "open_store"]

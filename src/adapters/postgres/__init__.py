"""PostgreSQL: the only store of the service."""

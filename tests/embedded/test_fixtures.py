"""What the suite's own databases promise."""

import psycopg

from tests.databases import PostgresServer


def test_an_empty_database_is_empty_and_gone_afterwards(postgres_server: PostgresServer) -> None:
    """A test leaves nothing behind, even when it forgets a connection."""
    name = postgres_server.create_database()
    forgotten = psycopg.connect(postgres_server.dsn(name), autocommit=True)
    tables = forgotten.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    )
    assert tables.fetchone() == (0,)

    postgres_server.drop_database(name)

    with psycopg.connect(postgres_server.superuser_dsn, autocommit=True) as connection:
        assert connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None
    forgotten.close()


def test_a_copy_of_a_template_is_independent_of_it(postgres_server: PostgresServer) -> None:
    """Each test starts from the template's state, whatever tests before it have written."""
    template = postgres_server.create_database()
    with psycopg.connect(postgres_server.dsn(template), autocommit=True) as connection:
        connection.execute("CREATE TABLE written (by text)")
    first, second = (postgres_server.create_database(template) for _ in range(2))
    with psycopg.connect(postgres_server.dsn(first), autocommit=True) as connection:
        connection.execute("INSERT INTO written VALUES ('first')")

    with psycopg.connect(postgres_server.dsn(second), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM written").fetchone() == (0,)

    for name in (template, first, second):
        postgres_server.drop_database(name)


def test_the_empty_database_fixture_accepts_connections(empty_database: str) -> None:
    """The fixture's value is a connection string that any libpq client understands."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_database_fixture_has_the_schema_and_no_rows(database: str) -> None:
    """A test starts on the migrated schema (specification §6)."""
    with psycopg.connect(database, autocommit=True) as connection:
        for table in ("sessions", "property_object_views", "outbox"):
            assert connection.execute(f"SELECT count(*) FROM user_activity.{table}".encode()).fetchone() == (0,)

"""How a database refuses the program, and what the program then says (specification §10)."""

import socket
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.databases import OwnServer
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Ending, run, run_once
from tests.postgres.test_roles import apply_roles, login_role

SECRET = "geheim-7f3a"  # noqa: S105 (nobody's password)


def assert_one_clear_line(ended: Ending, *, exit_code: int, parts: tuple[str, ...]) -> None:
    """What holds for every refusal."""
    assert ended.exit_code == exit_code
    assert len(ended.said) == 1, ended.stderr
    assert not [part for part in parts if part not in ended.said[0]], ended.said
    assert SECRET not in ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize("command", [("run", "--once"), ("migrate",)])
def test_a_wrong_password(own_server: OwnServer, command: tuple[str, ...]) -> None:
    """69, with the server's message and without the password."""
    dsn = own_server().dsn()
    with psycopg.connect(dsn, autocommit=True) as administrator:
        administrator.execute("create role closer login password 'another'")
        row = administrator.execute("show hba_file").fetchone()
        assert row is not None
        access = Path(row[0])
        access.write_text(f"local all closer scram-sha-256\n{access.read_text()}")
        administrator.execute("select pg_reload_conf()")
    parameters = {**conninfo_to_dict(dsn), "user": "closer", "password": SECRET}

    ended = run(*command, database_url=make_conninfo("", **parameters))

    assert_one_clear_line(ended, exit_code=69, parts=('password authentication failed for user "closer"',))
    assert ended.stdout == ()


@pytest.mark.parametrize("command", [("run", "--once"), ("migrate",), ("migrate", "--status"), ("migrate", "--sql")])
def test_a_refused_port(command: tuple[str, ...]) -> None:
    """69, and the address is named."""
    with socket.socket() as taken_by_nobody:
        taken_by_nobody.bind(("127.0.0.1", 0))  # and no listen: it refuses
        port = taken_by_nobody.getsockname()[1]

        ended = run(*command, database_url=f"postgresql://closer:{SECRET}@127.0.0.1:{port}/activity")

    assert_one_clear_line(ended, exit_code=69, parts=("127.0.0.1", str(port), "Connection refused"))
    assert ended.stdout == ()


@pytest.mark.parametrize("command", [("run", "--once"), ("migrate",)])
def test_no_such_database(database: str, command: tuple[str, ...]) -> None:
    """69, with the server's message."""
    ended = run(*command, database_url=make_conninfo(database, dbname="nowhere"))
    assert_one_clear_line(ended, exit_code=69, parts=('database "nowhere" does not exist',))


def test_no_such_host() -> None:
    """69, and the host is named; the name is one that no resolver may know (RFC 6761)."""
    ended = run_once(f"postgresql://closer:{SECRET}@database.invalid/activity")
    assert_one_clear_line(ended, exit_code=69, parts=("database.invalid",))


def test_an_empty_database(empty_database: str) -> None:
    """69 with the hint `migrate`; the run had begun, so its report is there."""
    ended = run_once(empty_database)
    assert_one_clear_line(ended, exit_code=69, parts=("user_activity.", "activity-closer migrate"))
    assert ended.result["outcome"] == "failed"


def test_a_missing_table(database: str) -> None:
    """69 with the hint `migrate`: nothing is closed without its event, whichever table is missing."""
    tables = ActivityTables(database)
    tables.add_sessions(5, views=1)
    tables.execute("alter table user_activity.outbox rename to outbox_of_yesterday")

    ended = run_once(database)

    assert_one_clear_line(ended, exit_code=69, parts=("user_activity.outbox", "activity-closer migrate"))
    assert ended.result["outcome"] == "failed"
    tables.execute("alter table user_activity.outbox_of_yesterday rename to outbox")
    assert tables.closed() == 0
    tables.assert_rules_hold()


@pytest.mark.parametrize(
    ("taken", "table"),
    [
        ("insert on user_activity.outbox", "outbox"),
        ("update (status, ended_at, duration) on user_activity.sessions", "sessions"),
        ("select (filter_snapshot) on user_activity.property_object_views", "property_object_views"),
        ("usage on schema user_activity", "user_activity"),
    ],
)
def test_a_missing_right(database: str, taken: str, table: str) -> None:
    """77, and the thing is named; with all the rights of deploy/roles.sql the same login closes everything."""
    apply_roles(database)
    tables = ActivityTables(database)
    tables.add_sessions(5, views=1)
    with login_role(database, "activity_closer") as login:
        tables.execute(f"revoke {taken} from activity_closer")

        ended = run_once(login)

        assert_one_clear_line(ended, exit_code=77, parts=("a right is missing", table))
        assert ended.result["outcome"] == "failed"
        tables.assert_rules_hold()
        tables.assert_nothing_personal_in(ended.text)
        tables.execute(f"grant {taken} to activity_closer")
        assert run_once(login).exit_code == 0
        assert tables.closed() == 10
        tables.assert_rules_hold()


def test_a_right_that_a_migration_lacks(empty_database: str) -> None:
    """77: a login that may not create a schema, and what the server says."""
    with login_role(empty_database) as login:
        ended = run("migrate", database_url=login)
    assert ended.exit_code == 77
    assert [line for line in ended.said if line.startswith("Error: ")] == ended.said[-1:]
    assert "permission denied" in ended.said[-1]

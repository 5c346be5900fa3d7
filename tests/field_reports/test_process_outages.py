"""BR-02, BR-28, BR-44: the database goes away, and the worker's next tick after it is back is as if it had not."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.embedded import EmbeddedPostgres, StopMode
from tests.databases import OwnServer
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Program, run
from tests.postgres.test_roles import apply_roles, login_role


def migrated(server: EmbeddedPostgres) -> ActivityTables:
    """Return the tables of a server after its migration."""
    assert run("migrate", database_url=server.dsn()).exit_code == 0
    return ActivityTables(server.dsn())


@contextmanager
def worker(tables: ActivityTables, *, database_url: str | None = None, **settings: str) -> Iterator[Program]:
    """Run the worker's loop; whatever happened to it, it still lives, and a signal ends it in order."""
    with Program("run", database_url=database_url or tables.dsn, **settings) as program:
        yield program
        assert program.is_running()
        program.send(signal.SIGTERM)
        ended = program.ending()
        assert (ended.exit_code, ended.said) == (0, [])
        tables.assert_rules_hold()
        tables.assert_nothing_personal_in(ended.text)


def wait_out(program: Program) -> None:
    """Wait for three ticks without a database, of which each says at most two lines."""
    lines, ticks = len(program.log()), len(program.log("job not started"))
    program.wait_for("job not started", count=ticks + 3, kind="connection")
    assert len(program.log()) - lines <= 2 * (len(program.log("job not started")) - ticks)


def assert_closes(program: Program, *, run_number: int, sessions: int) -> None:
    """A run, the first one with a database again, closes everything."""
    completed = program.wait_for("job completed", count=run_number)
    assert (completed["outcome"], completed["closedSessions"]) == ("completed", sessions)
    assert completed["backlogRemaining"] == {"sessions": 0, "views": 0}


def test_a_start_without_a_database(own_server: OwnServer) -> None:
    """BR-44: started while the server is down, the worker waits for it, and its first run then closes everything."""
    server = own_server()
    tables = migrated(server)
    tables.add_sessions(40, views=1)
    server.stop()
    with worker(tables, polling_interval="300ms") as program:
        wait_out(program)
        server.start()
        assert_closes(program, run_number=1, sessions=40)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_goes_away_and_comes_back(own_server: OwnServer, mode: StopMode) -> None:
    """BR-02, BR-44: what became stale meanwhile is closed by the first run after the server is back."""
    server = own_server()
    tables = migrated(server)
    tables.add_sessions(40, views=1)
    with worker(tables, polling_interval="500ms", connections="4") as program:
        assert_closes(program, run_number=1, sessions=40)
        tables.add_sessions(10, silent="11 min 59.5 s", views=1)
        server.stop(mode)
        wait_out(program)
        runs = len(program.log("job completed"))
        server.start()
        assert_closes(program, run_number=runs + 1, sessions=10)


@pytest.mark.parametrize("connections", ["1", "4"])
def test_all_connections_are_ended_between_ticks(database: str, connections: str) -> None:
    """BR-02: idle connections that died cost at most one line of the log and no tick."""
    tables = ActivityTables(database)
    tables.add_sessions(40, views=1, views_silent="1 min")
    with worker(tables, polling_interval="1500ms", connections=connections) as program:
        assert_closes(program, run_number=1, sessions=40)
        tables.add_sessions(10, views=1)
        assert tables.end_backends() >= 1

        assert_closes(program, run_number=2, sessions=10)

        assert not program.log("job not started")
        assert len([line for line in program.log() if line["level"] != "info"]) <= 1


@pytest.mark.parametrize(("refuse", "admit"), [("nologin", "login"), ("connection limit 0", "connection limit -1")])
def test_a_login_that_is_refused_for_a_while(database: str, refuse: str, admit: str) -> None:
    """BR-44: without the right to log in, or with too many connections (53300), the worker waits as in any outage."""
    apply_roles(database)
    tables = ActivityTables(database)
    tables.add_sessions(40, views=1)
    with login_role(database, "activity_closer") as login:
        role = conninfo_to_dict(login)["user"]
        with worker(tables, database_url=login, polling_interval="500ms") as program:
            assert_closes(program, run_number=1, sessions=40)
            tables.add_sessions(10, silent="11 min 59.5 s", views=1)
            tables.execute(f"alter role {role} {refuse}")
            tables.end_backends()
            wait_out(program)
            runs = len(program.log("job completed"))
            tables.execute(f"alter role {role} {admit}")
            assert_closes(program, run_number=runs + 1, sessions=10)


def test_a_server_that_takes_no_writes(own_server: OwnServer) -> None:
    """BR-28: nothing is closed while the server is read-only, the log says so, and the first tick after closes all."""
    tables = migrated(own_server())
    tables.add_sessions(50, views=1)
    tables.execute("alter system set default_transaction_read_only = on")
    tables.execute("select pg_reload_conf()")
    with worker(tables, polling_interval="300ms") as program:
        program.wait_for("job completed", count=3, outcome="failed", closedSessions=0, closedViews=0)
        kinds = {line["kind"] for line in program.log() if line["level"] != "info" and "kind" in line}
        assert kinds == {"read_only"}
        assert tables.closed() == 0
        tables.execute("alter system reset default_transaction_read_only")
        tables.execute("select pg_reload_conf()")

        completed = program.wait_for("job completed", outcome="completed")

        assert (completed["closedSessions"], completed["closedViews"]) == (50, 50)


def test_a_failover_that_leaves_the_old_connections_open(own_server: OwnServer, tmp_path: Path) -> None:
    """BR-28: when the address leads to the new primary, connections to the old one, now read-only, are not kept."""
    old, new = own_server(), own_server()
    address = tmp_path / ".s.PGSQL.5432"
    for server in (old, new):
        migrated(server).add_sessions(50, views=1)
    retired = ActivityTables(old.dsn())
    retired.execute("alter system set default_transaction_read_only = on")
    retired.execute("select pg_reload_conf()")
    address.symlink_to(Path(str(conninfo_to_dict(old.dsn())["host"])) / address.name)
    through_the_address = make_conninfo(new.dsn(), host=str(tmp_path))
    with worker(ActivityTables(new.dsn()), database_url=through_the_address, polling_interval="300ms") as program:
        program.wait_for("job completed", count=2, outcome="failed")
        address.unlink()
        address.symlink_to(Path(str(conninfo_to_dict(new.dsn())["host"])) / address.name)

        completed = program.wait_for("job completed", outcome="completed")

        assert (completed["closedSessions"], completed["closedViews"]) == (50, 50)
        assert retired.closed() == 0


def test_a_schema_that_comes_later(empty_database: str) -> None:
    """Specification §10: the loop never ends for a missing table; after `migrate` the next run closes everything."""
    tables = ActivityTables(empty_database)
    with worker(tables, polling_interval="500ms") as program:
        program.wait_for("job completed", count=2, outcome="failed")
        assert {line["kind"] for line in program.log("transaction failed")} == {"42P01"}
        assert run("migrate", database_url=empty_database).exit_code == 0
        tables.add_sessions(40, views=1)
        program.wait_for("job completed", outcome="completed", closedSessions=40, closedViews=40)


def test_a_right_that_comes_later(database: str) -> None:
    """Specification §10: nor does it end for a missing right; after the grant the next run closes everything."""
    apply_roles(database)
    tables = ActivityTables(database)
    tables.add_sessions(40, views=1)
    tables.execute("revoke insert on user_activity.outbox from activity_closer")
    with (
        login_role(database, "activity_closer") as login,
        worker(tables, database_url=login, polling_interval="500ms") as program,
    ):
        program.wait_for("job completed", count=2, outcome="failed")
        assert tables.closed() == 0
        tables.execute("grant insert on user_activity.outbox to activity_closer")
        completed = program.wait_for("job completed", outcome="completed")
        assert (completed["closedSessions"], completed["closedViews"]) == (40, 40)

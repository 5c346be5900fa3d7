"""The embedded server from its owner's side: start, stop, restart, and errors that help."""

import os
import stat
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.embedded import EmbeddedPostgres, EmbeddedPostgresError, StopMode, temporary_data_directory
from tests.databases import OwnServer, bin_directory


def answer(server: EmbeddedPostgres, statement: str) -> object:
    """Return the one value that the statement gives."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    value: object = row[0]
    return value


def test_a_started_server_answers(own_server: OwnServer) -> None:
    """`start` returns when connections are accepted, in UTC and UTF-8 whatever the machine's settings are."""
    server = own_server()

    assert str(answer(server, "SELECT version()")).startswith("PostgreSQL")
    assert answer(server, "SHOW timezone") == "UTC"
    assert answer(server, "SHOW server_encoding") == "UTF8"


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
@pytest.mark.parametrize("durable", [True, False])
def test_a_restart_keeps_what_was_committed(own_server: OwnServer, mode: StopMode, durable: bool) -> None:
    """After any stop the server starts again on the same data, recovers, and is reached by the same string."""
    server = own_server(durable=durable)
    before = server.dsn()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS value")

    server.stop(mode)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())
    server.start()

    assert server.dsn() == before
    assert answer(server, "SELECT value FROM kept") == 42


def test_a_fast_stop_ends_open_sessions(own_server: OwnServer) -> None:
    """A forgotten connection does not keep the server alive."""
    server = own_server()
    forgotten = psycopg.connect(server.dsn())

    server.stop()

    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()


def test_stop_may_be_said_at_any_time(own_server: OwnServer) -> None:
    """Stopping is idempotent, also for a server that was never started."""
    server = own_server()
    for _ in range(2):
        server.stop()
    with temporary_data_directory() as folder:
        EmbeddedPostgres(folder).stop()


def test_two_servers_live_side_by_side(own_server: OwnServer) -> None:
    """Servers share neither data nor an address."""
    first, second = own_server(), own_server()
    with psycopg.connect(first.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE mine ()")

    assert answer(second, "SELECT to_regclass('mine')") is None


def test_nobody_else_can_connect(own_server: OwnServer) -> None:
    """There is no network address, not even by request, and the socket lies in a folder closed to others.

    Anybody who could connect would be superuser, and could run programs under the owner's account.
    """
    server = own_server(settings={"listen_addresses": "*"})
    socket_directory = Path(str(conninfo_to_dict(server.dsn())["host"]))

    assert answer(server, "SHOW listen_addresses") == ""
    assert stat.S_IMODE(socket_directory.stat().st_mode) == 0o700
    server.stop()
    assert not socket_directory.exists()


def test_settings_reach_the_server(own_server: OwnServer) -> None:
    """Any server parameter can be set, quotes included; without `durable` the costly guarantees are off."""
    server = own_server(settings={"log_line_prefix": "it's %p ", "full_page_writes": "on"})

    assert answer(server, "SHOW log_line_prefix") == "it's %p "
    assert answer(server, "SHOW fsync") == "off"
    assert answer(server, "SHOW full_page_writes") == "on"
    assert answer(own_server(durable=True), "SHOW fsync") == "on"


def test_a_refused_start_shows_the_end_of_the_log(own_server: OwnServer) -> None:
    """The server's own words say what is wrong, below one line that says where."""
    with pytest.raises(EmbeddedPostgresError, match="did not start") as refused:
        own_server(settings={"shared_buffers": "plenty"})

    assert "shared_buffers" in refused.value.log_tail
    assert "\n" not in refused.value.reason
    assert "Traceback" not in str(refused.value)


def test_a_data_folder_serves_one_server_at_a_time() -> None:
    """A second server on the same data is refused and leaves the first one alone."""
    with (
        temporary_data_directory() as folder,
        EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False) as first,
    ):
        with pytest.raises(EmbeddedPostgresError, match=r"postmaster\.pid"):
            EmbeddedPostgres(folder, bin_directory=bin_directory()).start()
        with pytest.raises(EmbeddedPostgresError, match="started already"):
            first.start()

        assert answer(first, "SELECT 1") == 1


def test_somebody_elses_folder_is_left_alone() -> None:
    """A folder that holds something else is refused, not filled."""
    with temporary_data_directory() as folder:
        (folder / "letter.txt").write_text("Dear …")
        with pytest.raises(EmbeddedPostgresError, match=r"letter\.txt.*empty"):
            EmbeddedPostgres(folder, bin_directory=bin_directory()).start()

        assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_a_cluster_that_was_never_finished_is_made_anew() -> None:
    """A first start that was killed does not spoil the folder."""
    with temporary_data_directory() as folder:
        (folder / "cluster.new").mkdir()
        (folder / "cluster.new" / "PG_VERSION").write_text("18\n")
        with EmbeddedPostgres(folder, bin_directory=bin_directory(), durable=False) as server:
            assert answer(server, "SELECT 1") == 1


def test_missing_programs_are_named(tmp_path: Path) -> None:
    """A wrong folder for the programs is said as such."""
    with (
        temporary_data_directory() as folder,
        pytest.raises(EmbeddedPostgresError, match=f"there is no program {tmp_path.resolve()}/initdb"),
    ):
        EmbeddedPostgres(folder, bin_directory=tmp_path).start()


def test_a_file_in_the_place_of_the_data_folder_is_one_line() -> None:
    """What the operating system refuses is told with the folder, not as a traceback."""
    with temporary_data_directory() as folder:
        (folder / "taken").write_text("")
        with pytest.raises(EmbeddedPostgresError, match=r"cannot start PostgreSQL on .*taken"):
            EmbeddedPostgres(folder / "taken", bin_directory=bin_directory()).start()


def test_a_data_folder_behind_a_closed_one(tmp_path: Path) -> None:
    """A home closed to others serves its owner; for root, whose server is not root, the closed folder is named."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(closed / "data", bin_directory=bin_directory(), durable=False)
    if os.geteuid() == 0:
        with pytest.raises(EmbeddedPostgresError, match=r"`nobody`.*cannot enter .*give a data folder outside"):
            server.start()
        return
    with server:
        assert answer(server, "SELECT 1") == 1


def test_the_server_is_not_root(own_server: OwnServer) -> None:
    """Started by root it runs as `nobody`, otherwise as its owner."""
    server = own_server()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE process (user_id text)")
        connection.execute("COPY process FROM PROGRAM 'id -u'")
        row = connection.execute("SELECT user_id::bigint FROM process").fetchone()

    assert row is not None
    assert row[0] != 0
    assert os.geteuid() in {0, row[0]}

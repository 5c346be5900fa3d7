"""The benchmark measures complete work only."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import psycopg
import pytest

from adapters.embedded import EmbeddedPostgres
from bench.contenders import CONTENDERS, Job
from bench.workload import Data, Workload, WrongResult, check, filled_database
from tests.databases import OwnServer, bin_directory


@pytest.fixture
def server(own_server: OwnServer) -> EmbeddedPostgres:
    """A server as the benchmark starts it, but for the syncs."""
    return own_server(durable=False)


@pytest.fixture
def closed_database(server: EmbeddedPostgres, tmp_path: Path) -> Iterator[str]:
    """A database in which a contender has done its work."""
    workload = Workload(sessions=20, views=2, data=Data.FRESH)
    with filled_database(server, workload) as dsn:
        CONTENDERS["L1"](Job(dsn=dsn, workload=workload, pg_bin=bin_directory(), scratch=tmp_path))
        check(dsn)
        yield dsn


@pytest.mark.slow
@pytest.mark.parametrize("data", list(Data))
def test_a_run_measures_every_contender(tmp_path: Path, data: Data) -> None:
    """Each contender does the whole work, is checked, and gets its row in the table and its line of JSON."""
    lines = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "bench", "--sessions=50", f"--data={data}", f"--json={lines}"]
    if bin_directory() is not None:
        command.append(f"--pg-bin={bin_directory()}")

    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    results = [orjson.loads(line) for line in lines.read_bytes().splitlines()]
    assert [result["contender"] for result in results] == list(CONTENDERS)
    assert all(result["seconds"] > 0 for result in results)
    assert all(f"\n| {name} | " in ended.stdout for name in CONTENDERS)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("delete from outbox where id = (select id from outbox limit 1)", "1 closed rows without their event"),
        (
            """create temporary table copied as select * from outbox limit 1;
               update copied set id = gen_random_uuid();
               insert into outbox select * from copied""",
            "1 events too many",
        ),
        ("update outbox set payload = payload - 'userId' where aggregate_type = 'Session'", "20 closed rows without"),
        ("update sessions set duration = duration + interval '1 us' where status = 'Inactive'", "20 stale rows"),
        ("update property_object_views set status = 'Active', ended_at = null, duration = null", "40 stale rows"),
        ("update sessions set status = 'Inactive', ended_at = now() where status = 'Active'", "2 live rows"),
    ],
)
def test_the_check_finds_what_is_wrong(closed_database: str, damage: str, fault: str) -> None:
    """Figures of work that was not done, or not done right, are never shown."""
    with psycopg.connect(closed_database, options="-c search_path=user_activity") as connection:
        connection.execute(damage.encode())

    with pytest.raises(WrongResult, match=fault):
        check(closed_database)

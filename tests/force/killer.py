"""What goes wrong: one misfortune after the other, each of them met in the middle of work."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from adapters.embedded import EmbeddedPostgres
from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.faulty_proxy import FaultyProxy
from tests.end_to_end.program import wait_until
from tests.force.closers import Closers

DELAY_SECONDS: Final = 0.02
SUSPENDED_SECONDS: Final = 1.5
"""Longer than the server lets a transaction stand still."""
SUSPENSIONS_MAX: Final = 30
"""How often to suspend a worker until it stands in a transaction."""
SESSIONS_MEANWHILE: Final = 10
"""So that there is work for it."""
SWALLOW_EACH: Final = 3

_CANCEL: Final = """
    select count(pg_cancel_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name = 'activity-closer' and state = 'active'"""
_STANDING: Final = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'activity-closer' and state = 'idle in transaction'
      and state_change < clock_timestamp() - interval '0.1 s'"""


class Killer:
    """Plays all misfortunes in an order that its seed decides, then in another one, and so on."""

    def __init__(
        self, *, chance: Random, server: EmbeddedPostgres, tables: ActivityTables, closers: Closers, proxy: FaultyProxy
    ) -> None:
        self._chance = chance
        self._server = server
        self._tables = tables
        self._closers = closers
        self._proxy = proxy
        self.tally = Counter[str]()
        """How often each misfortune had its effect."""
        self._deck = self._shuffled()

    @property
    def misfortunes(self) -> dict[str, Callable[[], int]]:
        """By their names; each answers how much it did."""
        return {
            "kill -9": self._kill,
            "suspended": self._suspend,
            "backends ended": self._tables.end_backends,
            "statements cancelled": self._cancel_statements,
            "server stopped at once": self._restart_server,
            "lines cut": self._cut_lines,
            "answers to commits lost": self._swallow,
            "lines slow": self._delay,
        }

    def strike(self) -> str:
        """The next misfortune; answers which."""
        name = next(self._deck)
        self.tally[name] += self.misfortunes[name]()
        return name

    def _shuffled(self) -> Iterator[str]:
        while True:
            names = list(self.misfortunes)
            self._chance.shuffle(names)
            yield from names

    def _kill(self) -> int:
        self._closers.kill(self._chance)
        return 1

    def _suspend(self) -> int:
        """One that stands in a transaction, for as long as the server lets it and longer."""
        for _ in range(SUSPENSIONS_MAX):
            self._tables.add_sessions(SESSIONS_MEANWHILE, views=1)
            closer = self._closers.any(self._chance)
            closer.send(signal.SIGSTOP)
            self._let_pass(0.15)
            [(standing,)] = self._tables.execute(_STANDING)
            if standing:
                self._let_pass(SUSPENDED_SECONDS)
            closer.send(signal.SIGCONT)
            if standing:
                return int(standing)
        return 0

    def _cancel_statements(self) -> int:
        """Those that are under way at some moments: a statement takes but a fraction of a millisecond."""
        return sum(int(count) for _ in range(20) for (count,) in self._tables.execute(_CANCEL))

    def _restart_server(self) -> int:
        self._server.stop("immediate")
        self._server.start()
        return 1

    def _cut_lines(self) -> int:
        before = self._proxy.cut_lines
        self._proxy.cut()
        return self._proxy.cut_lines - before

    def _swallow(self) -> int:
        """Until one was lost, or nobody commits any more."""
        before = self._proxy.swallowed
        self._proxy.swallow_each = SWALLOW_EACH
        self._let_pass(0.3)
        self._proxy.swallow_each = None
        return self._proxy.swallowed - before

    def _delay(self) -> int:
        before = self._proxy.delayed
        self._proxy.delay_seconds = DELAY_SECONDS
        self._let_pass(0.3)
        self._proxy.delay_seconds = 0.0
        return self._proxy.delayed - before

    def _let_pass(self, seconds: float) -> None:
        over_at = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= over_at)

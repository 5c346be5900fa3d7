"""The database's time: the only place of the program that reads it (D-01)."""

import time
from datetime import datetime, timedelta
from typing import cast

from adapters.postgres.connections import Connections
from adapters.postgres.transaction import Transaction, TransactionOptions


class DatabaseClock:
    """Reads the server's clock, and moves the reading on by the host's monotonic clock in between."""

    def __init__(self, connections: Connections, options: TransactionOptions) -> None:
        self._connections = connections
        self._options = options
        self._reading: tuple[datetime, float] | None = None

    def read(self) -> datetime:
        transaction = Transaction(self._connections, self._options)
        transaction.begin()
        # When it was asked, not when the answer came: so the time in between is never behind the database's, and no row
        # ends before an activity that was committed earlier, however slow the line is.
        asked_at = time.monotonic()
        try:
            [(now,)] = transaction.fetch("read_clock")
            transaction.commit()
        finally:
            transaction.roll_back()
        self._reading = (cast("datetime", now), asked_at)
        return self._reading[0]

    def now(self) -> datetime:
        if self._reading is None:
            return self.read()
        read_at, asked_at = self._reading
        return read_at + timedelta(seconds=time.monotonic() - asked_at)

    def monotonic(self) -> float:
        return time.monotonic()

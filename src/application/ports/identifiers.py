"""New ids."""

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Identifiers(Protocol):
    """Makes the ids of runs, events and new rows (D-12)."""

    def new(self, at: datetime) -> UUID:
        """An id that has never been given out; ids made later sort later, to the millisecond of `at`."""

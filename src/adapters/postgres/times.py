"""Times as the application knows them: in UTC, whatever time zone the role has (D-01)."""

from typing import Final

import psycopg
from psycopg.abc import AdaptContext, Loader
from psycopg.pq import Format

_TIMESTAMPTZ: Final = psycopg.adapters.types["timestamptz"].oid
_DRIVERS_LOADER: Final = psycopg.adapters.get_loader(_TIMESTAMPTZ, Format.BINARY)


class UtcTimestampLoader:
    """Loads `timestamptz` as UTC: the driver's own loader, kept from looking at the connection's time zone.

    That is the one which the connection began with, since a transaction's own is not reported before its end. Python
    reckons by the clock on the wall in it: a duration, or the cutoff, would be an hour off across a change to or from
    summer time.
    """

    format = Format.BINARY

    def __new__(cls, oid: int, _context: AdaptContext | None = None) -> Loader:  # type: ignore[misc] # a factory
        assert _DRIVERS_LOADER is not None, "the driver knows times"
        return _DRIVERS_LOADER(oid)


def load_times_in_utc(context: AdaptContext) -> None:
    """Makes the connection give all its times in UTC."""
    context.adapters.register_loader(_TIMESTAMPTZ, UtcTimestampLoader)  # type: ignore[arg-type] # it makes a Loader

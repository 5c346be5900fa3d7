"""Ids of UUID version 7."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import uuid_utils

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Uuid7Identifiers:
    """Version 7: the given time to the millisecond, then random bits (D-12)."""

    def new(self, at: datetime) -> UUID:
        nanoseconds = (at - _EPOCH) // _MICROSECOND * 1000
        return UUID(int=uuid_utils.uuid7(nanoseconds=nanoseconds).int)

"""A database for many histories."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.agreement.sides import PostgresPlace


@pytest.fixture
def postgres(database: str) -> Iterator[PostgresPlace]:
    """An empty database, and a look into it."""
    with closing(PostgresPlace(database)) as place:
        yield place

"""Fixtures for the sender to Kafka."""

from collections.abc import Iterator

import pytest

from tests.adapters_kafka.mock_cluster import MockCluster


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """A cluster that answers as it is told to."""
    with MockCluster() as running:
        yield running

"""Which partition an event goes to: the one where a Java client would put it, too."""

import pytest

from application.event_contract import key_of
from tests.adapters_kafka.mock_cluster import MockCluster
from tests.adapters_kafka.sending import deliver, events_for, sender_to
from tests.brokers import Broker

_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C
_SHIFT = 24


def murmur2(key: bytes) -> int:
    """Return the 32-bit hash by Austin Appleby that Kafka's own clients use, as an unsigned number."""
    state = _SEED ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        block = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        block = (block ^ block >> _SHIFT) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ block
    if key[whole:]:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"abc", 479_470_107),
        (b"a-little-bit-long-string", -985_981_536),
    ],
)
def test_the_hash_is_that_of_javas_clients(key: bytes, signed: int) -> None:
    """The yardstick is right: Kafka's own tests of its Java client state these numbers."""
    assert murmur2(key) == signed & _MASK


def test_an_aggregates_partition_is_the_one_of_a_java_client(cluster: MockCluster) -> None:
    """Whoever joins or fills the topic by another client finds an aggregate's events in one partition (D-11)."""
    events = events_for(cluster.topic, 200)
    with sender_to(cluster.bootstrap_servers) as sender:
        deliver(sender, events)
    records = Broker(bootstrap_servers=cluster.bootstrap_servers, kind="given").read_all(cluster.topic)
    partitions = {record.key: record.partition for record in records}
    assert partitions == {key_of(one): (murmur2(key_of(one)) & 0x7FFF_FFFF) % 2 for one in events}
    assert set(partitions.values()) == {0, 1}

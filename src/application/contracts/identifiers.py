"""The contract of the Identifiers port."""

from datetime import UTC, datetime, timedelta

from application.ports.identifiers import Identifiers

MOMENT = datetime(2026, 12, 1, 12, tzinfo=UTC)


class IdentifiersContract:
    """Ids are unique, of version 7, and carry their time (D-12)."""

    identifiers: Identifiers
    """The adapter's tests set it."""

    def test_no_id_is_given_twice(self) -> None:
        """Not even for the same moment."""
        assert len({self.identifiers.new(MOMENT) for _ in range(10_000)}) == 10_000

    def test_it_is_a_version_7_of_its_moment(self) -> None:
        """The first 48 bits are the milliseconds of the time that was given, not of the host's clock."""
        new = self.identifiers.new(MOMENT)
        assert (new.version, new.variant) == (7, "specified in RFC 4122")
        assert new.int >> 80 == int(MOMENT.timestamp() * 1000)

    def test_later_ids_sort_later(self) -> None:
        """By millisecond."""
        ids = [self.identifiers.new(MOMENT + timedelta(milliseconds=number)) for number in range(100)]
        assert ids == sorted(ids)

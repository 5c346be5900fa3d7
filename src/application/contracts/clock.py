"""The contract of the Clock port."""

from datetime import timedelta

from application.ports.clock import Clock


class ClockContract:
    """What every clock does (D-01)."""

    clock: Clock
    """The adapter's tests set it."""

    def test_a_reading_is_aware_and_in_utc(self) -> None:
        """All timestamps are UTC (D-01)."""
        assert self.clock.read().utcoffset() == timedelta(0)

    def test_between_readings_time_does_not_go_back(self) -> None:
        """Without a round trip the time is that of the last reading or later."""
        reading = self.clock.read()
        first = self.clock.now()
        assert reading <= first <= self.clock.now()

    def test_the_time_may_be_asked_before_it_was_ever_read(self) -> None:
        """A clock that has not been read yet reads."""
        assert self.clock.now().utcoffset() == timedelta(0)

    def test_monotonic_time_only_grows(self) -> None:
        """Durations never come out negative."""
        readings = [self.clock.monotonic() for _ in range(100)]
        assert readings == sorted(readings)

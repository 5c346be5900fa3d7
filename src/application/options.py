"""What the operator may set of the closer's work (specification §4)."""

from datetime import timedelta

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le


@frozen(kw_only=True)
class CloserOptions:
    """Limits of one run.

    Raises ValueError when a value is outside of what is allowed.
    """

    inactivity_threshold: timedelta = field(
        default=timedelta(minutes=12),
        validator=and_(ge(timedelta(minutes=10)), le(timedelta(minutes=15))),
    )
    """How long a row is silent before it is closed; sessions and views alike."""

    batch_size: int = field(default=500, validator=gt(0))
    """Rows of one selection, and of one transaction of phase A."""

    max_run_duration: timedelta = field(default=timedelta(minutes=5), validator=gt(timedelta(0)))
    """When a run ends in order, whatever is left; phase A uses at most half of it (D-14)."""

    sessions_per_transaction: int = field(default=1, validator=gt(0))
    """Sessions that phase B closes in one transaction (D-07); at most `batch_size`."""

    @sessions_per_transaction.validator
    def _within_a_batch(self, _attribute: object, value: int) -> None:
        if value > self.batch_size:
            raise ValueError(f"sessions_per_transaction must be at most batch_size ({self.batch_size}), not {value}")


@frozen(kw_only=True)
class PublisherOptions:
    """Limits of publishing.

    Raises ValueError when a value is outside of what is allowed.
    """

    batch_size: int = field(default=1_000, validator=and_(ge(1), le(10_000)))
    """Events that are leased and sent at once; a few batches are under way at a time, which bounds the memory."""

    attempts_max: int = field(default=10, validator=and_(ge(1), le(30)))
    """How often an event may be refused before it is set aside as dead."""

    stop_limit: timedelta = field(default=timedelta(seconds=10), validator=ge(timedelta(0)))
    """How long events under way are waited for once the end is asked for; then they are given back."""

    retention: timedelta = field(default=timedelta(days=7), validator=ge(timedelta(0)))
    """How long delivered events are kept."""

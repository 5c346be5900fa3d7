"""What the demo shows at one moment, and the words for it that a screen and plain lines share."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from attrs import frozen

from bootstrap.demo.evidence import Closing, Counts
from bootstrap.demo.run_history import Run
from bootstrap.demo.visitors import Deed
from bootstrap.durations import render_duration


@frozen(kw_only=True)
class Programme:
    """What is going to be shown; it does not change."""

    inactivity_threshold: timedelta
    polling_interval: timedelta
    speed: float
    dsn: str
    bootstrap_servers: str
    process_id: int

    def explanation(self) -> str:
        """What this is, for somebody who has never heard of it."""
        return (
            "Visitors look at flats; heartbeats keep their sessions and views Active. Nobody says goodbye, so each"
            f" {render_duration(self.polling_interval)} the closer makes Inactive what has been silent for over"
            f" {render_duration(self.inactivity_threshold)}, and puts one event a row into the outbox, all or nothing;"
            " the publisher brings them to Kafka."
            f" All of it is real but the visitors, and a clock by which a minute takes {60 / self.speed:.2g} s."
        )

    def invitation(self) -> str:
        """How to look for oneself, without the demo's help."""
        return f'Look for yourself: psql "{self.dsn}", Kafka at {self.bootstrap_servers}'

    def way_out(self) -> str:
        """How it ends."""
        return f"Ctrl-C ends it and leaves nothing behind (process {self.process_id})."

    def took(self, run: Run) -> str:
        """How long a run really took: by its own clock everything takes longer."""
        return f"{run.report.duration.total_seconds() / self.speed * 1000:.0f} ms"

    def reason(self, closing: Closing) -> str:
        """Why a row was closed, as its own times tell it."""
        if closing.lag > self.inactivity_threshold:
            return "silent"
        return "with session" if closing.kind == "view" else "another user"


@frozen(kw_only=True)
class Picture:
    """One moment."""

    now: datetime
    counts: Counts
    arrived: int
    """Events that a consumer has read from the broker."""
    runs: Sequence[Run]
    """The oldest first."""
    closings: Sequence[Closing]
    """The latest first."""
    tally: Mapping[Deed, int]


def in_seconds(duration: timedelta) -> str:
    """A duration in whole seconds, such as `12m31s`."""
    return render_duration(timedelta(seconds=max(0, round(duration.total_seconds()))))

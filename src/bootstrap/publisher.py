"""The loop of the publisher: round after round, with a pause between."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import structlog

from application.ports.cancellation import Waiting
from application.ports.publish_observation import PublishOutcome
from application.publish_outbox import PublishRound
from bootstrap.defects import described_without_its_text

PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0
"""After the first round that failed; doubled from failure to failure."""
PAUSE_AFTER_FAILURE_SECONDS_MAX: Final = 30.0
IDLE_SHARE: Final = 9
"""How many times as long as a round that found nothing the pause after it lasts, at least.

Behind an old snapshot of somebody else's it takes long to find nothing (BR-20): that is a tenth of the time at most.
"""


class Publisher:
    """Does rounds until it is asked to end. They never overlap."""

    def __init__(
        self,
        *,
        run: Callable[[], PublishRound],
        stop: Waiting,
        polling_interval: timedelta,
    ) -> None:
        self._run = run
        self._stop = stop
        self._interval_seconds = polling_interval.total_seconds()
        self._pause_seconds = PAUSE_AFTER_FAILURE_SECONDS
        self._has_failed = False
        self._log: Any = structlog.get_logger("activity_closer")

    def work(self) -> None:
        """Rounds until the stop; the first one starts at once."""
        self._log.info("publisher started", pollingIntervalSeconds=self._interval_seconds)
        pause_seconds = 0.0
        while not self._stop.wait(pause_seconds):
            pause_seconds = self._round()
        if self._has_failed:
            self._round()  # it sends nothing any more; it records what the store could not take before, if it can now
        self._log.info("publisher stopped", reason="asked to stop")

    def _round(self) -> float:
        """One round; answers how long to wait after it. Whatever goes wrong is said, and the next one tries again."""
        try:
            ended = self._run()
        except Exception as error:  # a defect in one round must not end the publisher
            self._log.error("round broke off", error=described_without_its_text(error))
            return self._pause_after_failure()
        if ended.error is not None:
            self._log.error("round failed", kind=ended.error.kind, error=ended.error.reason)
        self._has_failed = ended.report.outcome is PublishOutcome.FAILED
        has_failed = ended.report.outcome in {PublishOutcome.FAILED, PublishOutcome.BROKER_UNAVAILABLE}
        if ended.report.delivered or not has_failed:
            self._pause_seconds = PAUSE_AFTER_FAILURE_SECONDS
        if has_failed:
            return self._pause_after_failure()
        if not ended.report.sent:  # all of the round's time went into the search
            return max(self._interval_seconds, IDLE_SHARE * ended.report.duration.total_seconds())
        return self._interval_seconds

    def _pause_after_failure(self) -> float:
        pause_seconds = self._pause_seconds
        self._pause_seconds = min(2 * pause_seconds, PAUSE_AFTER_FAILURE_SECONDS_MAX)
        return pause_seconds

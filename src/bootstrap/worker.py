"""The loop of the worker: a run at each tick (D-08)."""

import math
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog

from application.close_idle_activity import CloserRun
from application.ports.cancellation import Waiting
from application.ports.store_errors import ConnectingCancelled, StoreError
from bootstrap.defects import described_without_its_text


class Worker:
    """Runs at a fixed rate until it is asked to end. Runs never overlap; ticks that a long run missed are left out."""

    def __init__(
        self,
        *,
        run: Callable[[], CloserRun],
        monotonic: Callable[[], float],
        stop: Waiting,
        polling_interval: timedelta,
        start_jitter: timedelta = timedelta(0),
    ) -> None:
        self._run = run
        self._monotonic = monotonic
        self._stop = stop
        self._interval_seconds = polling_interval.total_seconds()
        self._start_jitter_seconds = start_jitter.total_seconds()
        self._log: Any = structlog.get_logger("activity_closer")

    def work(self) -> None:
        """Ticks until the stop; the first run starts at once, or after the jitter."""
        self._log.info("worker started", pollingIntervalSeconds=self._interval_seconds)
        tick_at = self._monotonic() + random.uniform(0.0, self._start_jitter_seconds)  # noqa: S311 (no secret)
        while not self._stop.wait(tick_at - self._monotonic()):
            self._tick()
            # A tick whose time comes in the very moment in which the run ends is not missed.
            missed = max(0, math.ceil((self._monotonic() - tick_at) / self._interval_seconds) - 1)
            if missed:
                self._log.warning("ticks missed", ticks=missed)
            tick_at += (missed + 1) * self._interval_seconds
        self._log.info("worker stopped", reason="asked to stop")

    def _tick(self) -> None:
        """One run. Whatever goes wrong in it is said, and the next tick tries again."""
        try:
            self._run()
        except ConnectingCancelled:
            pass  # the loop says why it ends
        except StoreError as error:
            self._log.error("job not started", kind=error.kind, error=error.reason)
        except Exception as error:  # a defect in one run must not end the worker
            self._log.error("job broke off", error=described_without_its_text(error))

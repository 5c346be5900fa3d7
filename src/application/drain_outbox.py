"""Publishing until the outbox is drained: what `publish --once` does (specification §10)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from attrs import evolve, frozen

from application.ports.cancellation import Waiting
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import PublishOutcome, PublishReport
from application.ports.store_errors import ConnectingCancelled, StoreError
from application.publish_outbox import PublishRound

LOOK_SECONDS: Final = 1.0
"""How often to look whether others are done with what they have leased."""


@frozen(kw_only=True)
class Drained:
    """How far it came."""

    report: PublishReport
    """Of all rounds together; outcome and held topics are those of the last one."""
    pending: int | None
    """Events that have to be delivered yet, now or later; None where the store could not be asked any more."""
    error: StoreError | None
    """What the store failed on, if it did."""
    left: int
    """Events that are due all the same: others keep them, their topic is held, or their outcome is not recorded."""
    is_given_up: bool
    """Whether it did not get less for longer than any lease lasts: others keep it, say."""


class Drain:
    """Does rounds until nothing that is due is left, a round does not complete, or no round would change anything."""

    def __init__(
        self, *, run: Callable[[], PublishRound], store: OutboxStore, stop: Waiting, lease_lasts: timedelta
    ) -> None:
        self._run = run
        self._store = store
        self._monotonic = store.clock.monotonic
        self._stop = stop
        self._lease_seconds = lease_lasts.total_seconds()

    def run(self) -> Drained:
        """Drain the outbox. Raises nothing that a store or a broker may cause."""
        ended = self._run()
        report, error, is_given_up, due = ended.report, ended.error, False, 0
        least, least_at = None, 0.0
        try:
            while ended.report.outcome is PublishOutcome.COMPLETED and (due := self._count_due()):
                has_moved = ended.report.delivered or ended.report.refused or ended.report.dead
                if least is None or due < least:
                    least, least_at = due, self._monotonic()
                is_given_up = self._monotonic() - least_at >= self._lease_seconds
                is_stuck = ended.report.unrecorded or (ended.report.held_topics and not has_moved)
                if is_given_up or is_stuck:
                    break
                if not has_moved:
                    self._stop.wait(LOOK_SECONDS)
                ended = self._run()
                report, error = _sum(report, ended.report), ended.error
        except ConnectingCancelled:
            report = evolve(report, outcome=PublishOutcome.STOPPED)
        except StoreError as caught:
            report, error = evolve(report, outcome=PublishOutcome.FAILED), caught
        return Drained(report=report, pending=self._pending(), error=error, left=due, is_given_up=is_given_up)

    def _count_due(self) -> int:
        now = self._store.clock.read()
        with self._store.begin() as unit_of_work:
            return unit_of_work.deliveries.count_due(now)

    def _pending(self) -> int | None:
        try:
            with self._store.begin() as unit_of_work:
                return unit_of_work.upkeep.status().pending
        except StoreError:
            return None  # the rounds have met it too, or it is told by the number that is missing


def _sum(total: PublishReport, report: PublishReport) -> PublishReport:
    return evolve(
        report,
        sent=total.sent + report.sent,
        delivered=total.delivered + report.delivered,
        refused=total.refused + report.refused,
        dead=total.dead + report.dead,
        unconfirmed=total.unconfirmed + report.unconfirmed,
        unrecorded=total.unrecorded + report.unrecorded,
        duration=total.duration + report.duration,
    )

"""Delivering the outbox: each event at least once, in bounded memory (specification §1, D-11).

An event's way: leased in a transaction -> sent while none is open -> its outcome recorded in another transaction.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from application.holds import Holds
from application.options import PublisherOptions
from application.ports.cancellation import Cancellation
from application.ports.deliveries import Held, Lease, PendingMessage, Refused, UnreadableMessage
from application.ports.identifiers import Identifiers
from application.ports.message_sending import Failure, MessageSender, Shipment, Undelivered
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import (
    PublishedRemoved,
    PublishObservation,
    PublishReport,
    RemovalFailed,
    RoundCompleted,
    TopicAvailable,
    TopicHeld,
)
from application.ports.store_errors import (
    ConnectingCancelled,
    LockTimeout,
    OutdatedPlan,
    StoreError,
    TransactionRefused,
)
from application.publish_progress import PublishProgress

BATCHES_UNDER_WAY_MAX: Final = 2
"""While one batch is on its way, the next is leased, and the last one recorded."""
LEASE_MARGIN: Final = timedelta(seconds=30)
"""How much longer than the sending a lease lasts: what it takes to record the outcome."""
FIRST_RETRY_AFTER: Final = timedelta(seconds=1)
"""From the first refusal to the second attempt; doubled from attempt to attempt."""
LOOK_SECONDS: Final = 0.1
"""How often a wait for the broker looks whether the end was asked for."""
UNRECORDABLE_MAX: Final = 100
"""If the outcomes of so many events cannot be recorded at the same time, the events are not to blame."""
ROUND_SECONDS_MAX: Final = 60.0
"""Where events keep coming, a round ends all the same: what waits for its end has its turn."""
UNREADABLE: Final = "unreadable"
"""Why an event is dead whose values cannot be loaded."""
DIVISION_SECONDS_MAX: Final = 30.0
"""How long it is looked for events whose outcome cannot be recorded; then the rest of their batch counts as such."""
REMOVAL_LIMIT: Final = 2_000
"""Delivered events that are removed in one transaction."""
REMOVAL_INTERVAL_SECONDS: Final = 60.0


@frozen(kw_only=True)
class PublishRound:
    """A round that has ended: its report, and what the store failed on, if it did."""

    report: PublishReport
    error: StoreError | None


@frozen(kw_only=True)
class _Batch:
    lease: Lease
    pending: Sequence[PendingMessage]
    unreadable: Sequence[UnreadableMessage]
    shipment: Shipment


Result = UUID | Refused
"""What is to be recorded of an event: that it has arrived, or that it was refused."""


@frozen(kw_only=True)
class _Outcome:
    lease: Lease
    results: Sequence[Result]


class PublishOutboxUseCase:
    """Sends what is due, round by round. Not safe to use from several threads; several publishers side by side are."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        sender: MessageSender,
        identifiers: Identifiers,
        observation: PublishObservation,
        cancellation: Cancellation,
        options: PublisherOptions,
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._sender = sender
        self._identifiers = identifiers
        self._observation = observation
        self._cancellation = cancellation
        self._options = options
        self._progress = PublishProgress(clock=store.clock, observation=observation)
        self._topics = Holds[str](store.clock)
        self._unrecordable = Holds[UUID](store.clock)
        self._arrears: deque[_Outcome] = deque()
        """Outcomes that the store could not record yet; nothing else is sent before, so there are never many."""
        self._remove_at = store.clock.monotonic()
        self._stops_at: float | None = None
        """When what is under way is given up, once the end has been asked for."""

    @property
    def lease_lasts(self) -> timedelta:
        """How long others leave events alone that this publisher has taken."""
        return self._sender.delivery_limit + LEASE_MARGIN

    def run(self) -> PublishRound:
        """One round: until nothing is due any more, the broker or the store does not serve, or the end is asked for.

        Raises nothing that a store or a broker may cause.
        """
        self._progress.begin()
        under_way: deque[_Batch] = deque()
        error: StoreError | None = None
        is_stopped = False
        try:
            self._record_arrears()
            self._remove_published()
            while self._fill(under_way):
                self._conclude(under_way.popleft())
                self._record_arrears()
                self._remove_published()
            self._forget_lapsed()
        except ConnectingCancelled:
            is_stopped = True
        except StoreError as caught:
            error = caught
        while under_way:
            self._conclude(under_way.popleft())
        self._record_arrears_if_possible()
        report = self._progress.report(
            stopped=is_stopped or self._cancellation.requested(),
            failed=error is not None,
            held_topics=tuple(sorted(self._topics.failed)),
        )
        self._observation.record(RoundCompleted(report=report))
        return PublishRound(report=report, error=error)

    def _fill(self, under_way: deque[_Batch]) -> bool:
        """Leases and sends until enough is under way, or nothing is due; answers whether anything is under way."""
        while (
            len(under_way) < BATCHES_UNDER_WAY_MAX
            and self._progress.seconds < ROUND_SECONDS_MAX
            and not self._progress.is_interrupted
            and not self._cancellation.requested()
            and (batch := self._lease())
        ):
            under_way.append(batch)
        return bool(under_way)

    def _lease(self) -> _Batch | None:
        try:
            return self._lease_once()
        except OutdatedPlan:
            return self._lease_once()

    def _lease_once(self) -> _Batch | None:
        now = self._clock.read()
        lease = Lease(id=self._identifiers.new(now), begins=now, ends=now + self.lease_lasts)
        with self._store.begin() as unit_of_work:
            leased = unit_of_work.deliveries.lease(
                lease,
                limit=self._options.batch_size,
                held=Held(topics=self._topics.held, event_ids=self._unrecordable.held),
            )
            unit_of_work.commit()
        if not leased:
            return None
        pending = [one for one in leased if isinstance(one, PendingMessage)]
        self._progress.send(len(pending))
        return _Batch(
            lease=lease,
            pending=pending,
            unreadable=[one for one in leased if isinstance(one, UnreadableMessage)],
            shipment=self._sender.send([one.message for one in pending]),
        )

    def _conclude(self, batch: _Batch) -> None:
        """Waits until everything is known of a batch; what has to be recorded of it is in arrears then."""
        self._wait_for(batch.shipment)
        now = self._clock.now()
        by_id = {one.message.id: one for one in batch.pending}
        delivered = [by_id[message_id].message for message_id in batch.shipment.delivered]
        refused = [self._dead_unread(one) for one in batch.unreadable]
        unknown: list[Undelivered] = []
        for one in batch.shipment.undelivered:
            match one.failure:
                case Failure.REFUSED:
                    refused.append(self._refused(by_id[one.message.id], one.cause, now))
                case Failure.TOPIC_UNAVAILABLE:
                    self._hold_topic(one.message.topic, one.cause)
                case Failure.UNKNOWN:
                    unknown.append(one)
        self._arrears.append(_Outcome(lease=batch.lease, results=[*(one.id for one in delivered), *refused]))
        for topic in {one.topic for one in delivered}:
            if self._topics.let_go(topic):
                self._observation.record(TopicAvailable(topic=topic))
        self._progress.count(delivered, now)
        if unknown:
            # At the end nobody waits long enough to tell a slow broker from one that is away.
            is_given_up = self._cancellation.requested()
            self._progress.lose(len(unknown), None if is_given_up else unknown[0].cause)
        elif delivered:
            self._progress.resume()

    def _wait_for(self, shipment: Shipment) -> None:
        while not shipment.wait(LOOK_SECONDS):
            if self._cancellation.requested() and self._clock.monotonic() >= self._stop_deadline():
                shipment.abandon()
                return

    def _stop_deadline(self) -> float:
        if self._stops_at is None:
            self._stops_at = self._clock.monotonic() + self._options.stop_limit.total_seconds()
        return self._stops_at

    def _hold_topic(self, topic: str, cause: str) -> None:
        if (retry_after := self._topics.hold(topic)) is not None:
            self._observation.record(TopicHeld(topic=topic, cause=cause, retry_after=retry_after))

    def _refused(self, pending: PendingMessage, cause: str, now: datetime) -> Refused:
        refusals = max(0, pending.refusals) + 1  # a count that somebody spoiled must not spin
        is_dead = refusals >= self._options.attempts_max
        refused = Refused(
            message_id=pending.message.id,
            refusals=refusals,
            cause=cause,
            next_attempt_at=None if is_dead else now + FIRST_RETRY_AFTER * 2 ** (refusals - 1),
        )
        self._progress.refuse(refused, pending.message.topic)
        return refused

    def _dead_unread(self, unreadable: UnreadableMessage) -> Refused:
        """Another attempt would read the same."""
        refused = Refused(
            message_id=unreadable.id, refusals=unreadable.refusals + 1, cause=UNREADABLE, next_attempt_at=None
        )
        self._progress.refuse(refused, None)
        return refused

    def _record_arrears(self) -> None:
        while self._arrears:
            outcome = self._arrears[0]
            try:
                self._transact(outcome.results, outcome.lease)
            except TransactionRefused as error:
                if isinstance(error, LockTimeout) and self._is_locked_as_a_whole(outcome.results):
                    raise  # a table that somebody holds says nothing of the events
                self._divide(outcome, error)
            self._arrears.popleft()

    def _record_arrears_if_possible(self) -> None:
        """A round that failed at one lease, say, still records what has arrived; else the next round does, first."""
        with suppress(StoreError):
            self._record_arrears()

    def _is_locked_as_a_whole(self, results: Sequence[Result]) -> bool:
        """Whether neither the first nor the last can be recorded alone: then hardly any of them could be."""
        for probe in (results[0], results[-1]) if len(results) > 1 else ():
            try:
                self._transact([probe], None)
            except LockTimeout:
                continue
            return False
        return len(results) > 1

    def _divide(self, outcome: _Outcome, error: TransactionRefused) -> None:
        """An event whose outcome cannot be recorded costs only itself: it will be sent again, after a pause (BR-19)."""
        parts = deque([(outcome.results, error)] if outcome.results else [])
        ends_at = self._clock.monotonic() + DIVISION_SECONDS_MAX
        while parts:
            results, error = parts.popleft()
            has_time = self._clock.monotonic() < ends_at and not self._cancellation.requested()
            if len(results) == 1 or not has_time:
                for message_id in map(_id_of, results):
                    self._unrecordable.hold(message_id)
                    self._progress.fail_to_record(message_id, error)
                continue
            middle = len(results) // 2
            for half in (results[:middle], results[middle:]):
                try:
                    self._transact(half, None)
                except TransactionRefused as refusal:
                    parts.append((half, refusal))
        self._transact([], outcome.lease)
        if len(self._unrecordable.held) >= UNRECORDABLE_MAX:
            self._arrears.popleft()
            raise error  # the events are hardly to blame: the round is over, and the next one comes after a pause

    def _transact(self, results: Sequence[Result], lease: Lease | None) -> None:
        try:
            self._record_together(results, lease)
        except OutdatedPlan:
            self._record_together(results, lease)
        if self._unrecordable.failed:
            for result in results:
                self._unrecordable.let_go(_id_of(result))

    def _record_together(self, results: Sequence[Result], lease: Lease | None) -> None:
        now = self._clock.now()
        with self._store.begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered([one for one in results if isinstance(one, UUID)], now)
            unit_of_work.deliveries.record_refused([one for one in results if isinstance(one, Refused)], now)
            if lease is not None:
                unit_of_work.deliveries.release(lease)
            unit_of_work.commit()

    def _forget_lapsed(self) -> None:
        is_cut_short = self._progress.is_interrupted or self._progress.seconds >= ROUND_SECONDS_MAX
        if not is_cut_short and not self._cancellation.requested():
            self._topics.forget_lapsed()
            self._unrecordable.forget_lapsed()

    def _remove_published(self) -> None:
        """A small step now and then, so that nothing else waits for it; nor is anything kept from going on by it."""
        if self._clock.monotonic() < self._remove_at or self._cancellation.requested():
            return
        before = self._clock.now() - self._options.retention
        self._remove_at = self._clock.monotonic() + REMOVAL_INTERVAL_SECONDS
        try:
            with self._store.begin() as unit_of_work:
                removed = unit_of_work.upkeep.remove_published(before, REMOVAL_LIMIT)
                unit_of_work.commit()
        except ConnectingCancelled:
            raise
        except StoreError as error:
            self._observation.record(RemovalFailed(kind=error.kind, error=error.reason))
            return
        if removed:
            self._observation.record(PublishedRemoved(events=removed))
        if removed == REMOVAL_LIMIT:
            self._remove_at = self._clock.monotonic()


def _id_of(result: Result) -> UUID:
    return result.message_id if isinstance(result, Refused) else result

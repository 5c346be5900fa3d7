"""The publisher's part in a simulation (D-11, INV-LVS-003)."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Final
from uuid import UUID

from attrs import define, field

from adapters.in_memory.message_sending import InMemoryBroker
from adapters.in_memory.observation import RecordingPublishObservation
from adapters.in_memory.tables import Delivery
from application.options import PublisherOptions
from application.ports.identifiers import Identifiers
from application.ports.message_sending import MessageSender
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import PublishOutcome
from application.publish_outbox import LEASE_MARGIN, PublishOutboxUseCase, PublishRound
from tests.simulation.audit import Change, require
from tests.simulation.parts import Ending
from tests.simulation.stepping_sender import SteppingSender

ATTEMPTS_MAX: Final = 2
LEASE_LASTS: Final = SteppingSender.delivery_limit + LEASE_MARGIN


class Mood(StrEnum):
    """Of the broker."""

    WELL = "is well"
    DOWN = "is down"
    LOSES_ANSWERS = "loses answers"
    REFUSES_AN_EVENT = "refuses an event"
    LACKS_A_TOPIC = "lacks a topic"


def _check_lease(before: Delivery, after: Delivery, change: Change) -> None:
    """The right to send an event."""
    latest = change.at + change.corrections
    assert after.lease_ends is not None
    require(before.is_pending, "what is delivered or dead is not sent again")
    require(before.lease_ends is None or before.lease_ends <= latest, "an event is leased to one publisher at a time")
    require(after.lease_ends <= latest + LEASE_LASTS, "a lease ends")


@define(eq=False, kw_only=True)
class Publishing:
    """A publisher, round by round."""

    title: ClassVar = "publisher"
    name: str
    store: OutboxStore
    sender: MessageSender
    identifiers: Identifiers
    broker: InMemoryBroker
    batch_size: int
    is_cancelled: bool = False
    about: None = None
    _use_case: PublishOutboxUseCase = field(init=False)
    _has_arrears: bool = field(init=False, default=False)
    """Whether the last round could not record everything that it delivered."""

    def __attrs_post_init__(self) -> None:
        self._use_case = PublishOutboxUseCase(
            store=self.store,
            sender=self.sender,
            identifiers=self.identifiers,
            observation=RecordingPublishObservation(),
            cancellation=self,
            options=PublisherOptions(batch_size=self.batch_size, attempts_max=ATTEMPTS_MAX, stop_limit=timedelta(0)),
        )

    def act(self) -> PublishRound:
        return self._use_case.run()

    def requested(self) -> bool:
        """The wish of the operator."""
        return self.is_cancelled

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(not change.moved and not change.new_rows, "the publisher changes no session and no view")
        require(change.after.messages == change.before.messages, "the publisher changes and removes no event")
        require(change.before.published <= change.after.published, "what was delivered stays so")
        arrived = {message.id for message in self.broker.arrived}
        require(change.after.published <= arrived, "§1: only what has arrived is recorded as delivered")
        for event_id, delivery in change.after.deliveries.items():
            before = change.before.deliveries.get(event_id, Delivery())
            if delivery is not before:
                require(delivery.refusals <= ATTEMPTS_MAX, "an event is refused so often, then it is dead")
                if delivery.lease_id is not None and delivery.lease_id != before.lease_id:
                    _check_lease(before, delivery, change)

    def check_ending(self, ending: Ending) -> None:
        if ending.error is not None:
            raise ending.error
        assert isinstance(ending.answer, PublishRound)
        report = ending.answer.report
        failed, had_arrears = report.outcome is PublishOutcome.FAILED, self._has_arrears
        self._has_arrears = failed
        require(not (failed and ending.undisturbed), "a round fails only for the store")
        published = sum(len(change.after.published - change.before.published) for change in ending.changes)
        # Another publisher may have sent, and recorded, the same after a lease had run out.
        told = report.delivered >= published or failed or had_arrears or not ending.undisturbed
        require(told, "a round tells what it delivered")

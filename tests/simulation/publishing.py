"""The publisher's part in a simulation (D-11, INV-LVS-003)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import define, field

from adapters.in_memory.message_sending import InMemoryBroker
from adapters.in_memory.observation import RecordingPublishObservation
from application.options import PublisherOptions
from application.ports.identifiers import Identifiers
from application.ports.message_sending import MessageSender
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import PublishOutcome
from application.publish_outbox import LEASE_MARGIN, PublishOutboxUseCase, PublishRound
from tests.simulation.audit import Change, require
from tests.simulation.parts import Ending

ATTEMPTS_MAX: Final = 2
LEASES_ARE_OVER_AFTER: Final = timedelta(seconds=30) + LEASE_MARGIN + timedelta(seconds=1)


@define(kw_only=True)
class Publishing:
    """A round of a publisher."""

    store: OutboxStore
    sender: MessageSender
    identifiers: Identifiers
    broker: InMemoryBroker
    batch_size: int
    observation: RecordingPublishObservation = field(factory=RecordingPublishObservation)
    is_cancelled: bool = False

    def act(self) -> PublishRound:
        return PublishOutboxUseCase(
            store=self.store,
            sender=self.sender,
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=self,
            options=PublisherOptions(batch_size=self.batch_size, attempts_max=ATTEMPTS_MAX, stop_limit=timedelta(0)),
        ).run()

    def requested(self) -> bool:
        """The wish of the operator."""
        return self.is_cancelled

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(change.after.rows == change.before.rows, "the publisher changes no session and no view")
        require(change.after.messages == change.before.messages, "the publisher changes and removes no event")
        require(change.before.published <= change.after.published, "what was delivered stays so")
        arrived = {message.id for message in self.broker.arrived}
        require(change.after.published <= arrived, "§1: only what has arrived is recorded as delivered")

    def check_ending(self, ending: Ending) -> None:
        if ending.error is not None:
            raise ending.error
        assert isinstance(ending.answer, PublishRound)
        report = ending.answer.report
        failed = report.outcome is PublishOutcome.FAILED
        require(not (failed and ending.undisturbed), "a round fails only for the store")
        published = sum(len(change.after.published - change.before.published) for change in ending.changes)
        # Another publisher may have sent, and recorded, the same after a lease had run out.
        require(failed or not ending.undisturbed or report.delivered >= published, "a round tells what it delivered")

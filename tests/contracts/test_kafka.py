"""The sender to Kafka keeps its contract."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from application.contracts.message_sending import MessageSendingContract, SenderSubject
from tests.brokers import OwnBroker, started_broker
from tests.contracts.kafka_subject import KafkaSubject

pytestmark = pytest.mark.slow  # for the outages that it plays


@pytest.fixture(scope="module")
def stoppable_broker() -> Iterator[OwnBroker]:
    """A broker for these tests, to stop and start."""
    with started_broker() as broker:
        yield broker


class TestMessageSending(MessageSendingContract):
    subject: SenderSubject

    @pytest.fixture(autouse=True)
    def _subject(self, stoppable_broker: OwnBroker) -> Iterator[None]:
        with closing(KafkaSubject(stoppable_broker)) as subject:
            self.subject = subject
            yield

"""The sender in memory keeps its contract."""

import pytest

from application.contracts.message_sending import MessageSendingContract, SenderSubject
from tests.contracts.in_memory_sender_subject import InMemorySenderSubject


class TestMessageSending(MessageSendingContract):
    subject: SenderSubject

    @pytest.fixture(autouse=True)
    def _subject(self) -> None:
        self.subject = InMemorySenderSubject()

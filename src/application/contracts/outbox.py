"""The contract of the Outbox port."""

import json
from collections.abc import Sequence
from decimal import Decimal

from attrs import evolve

from application.contracts.subject import StoreContract, a_session
from application.contracts.unit_of_work import a_message
from application.ports.outbox import OutboxMessage
from application.ports.store_errors import TransactionRefused


class OutboxContract(StoreContract):
    """What goes into the outbox comes out of it as it was."""

    def append(self, messages: Sequence[OutboxMessage]) -> None:
        """Commits messages."""
        with self.store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()

    def test_a_message_is_kept_as_it_is(self) -> None:
        """Every column arrives unchanged, to the microsecond; the payload as the same JSON document."""
        message = a_message(a_session(self.store.clock.read()))
        self.append([message])
        [kept] = self.subject.messages()
        assert evolve(kept, payload="") == evolve(message, payload="")
        assert json.loads(kept.payload) == json.loads(message.payload)

    def test_a_trace_context_is_kept(self) -> None:
        """Messages with and without a trace context go together."""
        now = self.store.clock.read()
        trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        traced = evolve(a_message(a_session(now)), trace_parent=trace_parent)
        self.append([traced, a_message(a_session(now))])
        assert {message.trace_parent for message in self.subject.messages()} == {trace_parent, None}

    def test_numbers_of_any_size_survive(self) -> None:
        """Integers over 64 bits and the digits of decimals are not rounded (D-10)."""
        payload = '{"large": 123456789012345678901234567890, "exact": 0.12345678901234567890123}'
        self.append([evolve(a_message(a_session(self.store.clock.read())), payload=payload)])
        [kept] = self.subject.messages()
        assert json.loads(kept.payload, parse_float=Decimal) == json.loads(payload, parse_float=Decimal)

    def test_text_of_any_language_survives(self) -> None:
        """Letters, quotes, backslashes and an escaped escape arrive as they are (BR-13)."""
        payload = json.dumps({"text": 'Тверь "2" \\u0000 \U0001f3e0'})
        self.append([evolve(a_message(a_session(self.store.clock.read())), payload=payload)])
        [kept] = self.subject.messages()
        assert json.loads(kept.payload) == json.loads(payload)

    def test_an_event_id_is_given_once(self) -> None:
        """A second event of the same id is refused, and all that came with it."""
        now = self.store.clock.read()
        first, second = a_message(a_session(now)), a_message(a_session(now))
        self.append([first])
        try:
            self.append([second, first])
        except TransactionRefused:
            assert self.aggregates() == [first.aggregate_id]
            return
        raise AssertionError("the same event was taken twice")

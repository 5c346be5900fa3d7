"""The payload says what the row holds, whatever it holds (specification §7, D-10, D-11)."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from application.event_contract import message_of
from application.ports.outbox import OutboxMessage
from domain.closing import Ended, HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.domain.rows import ids, moments, sessions, views

MESSAGE_ID, CORRELATION_ID = UUID(int=1), UUID(int=2)


def a_message(ended: Ended) -> OutboxMessage:
    return message_of(ended, message_id=MESSAGE_ID, correlation_id=CORRELATION_ID, trace_parent=None)


def read(text: str) -> datetime:
    """A time of the contract, read by its letter: six digits and a `Z`."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def is_whole_seconds_of(seconds: object, duration: timedelta) -> bool:
    return isinstance(seconds, int) and timedelta(0) <= duration - timedelta(seconds=seconds) < timedelta(seconds=1)


@given(session=sessions(), now=moments)
def test_a_session_can_be_read_back(session: Session, now: datetime) -> None:
    """Every key of the contract, no other, and each with the row's own value."""
    [ended] = OpenSession(session=session, open_views=()).close(now)
    message = a_message(ended)
    payload = json.loads(message.payload)
    assert list(payload) == ["sessionId", "anonymousId", "userId", "createdAt", "lastActivityAt", "durationSeconds"]
    assert UUID(payload["sessionId"]) == session.id == message.aggregate_id
    assert UUID(payload["anonymousId"]) == session.anonymous_id
    assert payload["userId"] == (None if session.user_id is None else str(session.user_id))
    assert read(payload["createdAt"]) == session.created_at
    assert read(payload["lastActivityAt"]) == session.last_activity_at
    assert is_whole_seconds_of(payload["durationSeconds"], session.last_activity_at - session.created_at)
    assert message.occurred_at == now


@given(view=views(), user_id=st.none() | ids, now=moments)
def test_a_view_can_be_read_back(view: PropertyObjectView, user_id: UUID | None, now: datetime) -> None:
    """Every key of the contract, no other, each with the row's own value, the user that of the session."""
    [ended] = HangingView(view=view, user_id=user_id).close(now)
    message = a_message(ended)
    payload = json.loads(message.payload)
    expected = ["propertyObjectViewId", "propertyObjectId", "sessionId", "anonymousId", "userId", "viewSource"]
    assert list(payload) == [*expected, "viewedAt", "lastActivityAt", "durationSeconds", "filterSnapshot"]
    assert UUID(payload["propertyObjectViewId"]) == view.id == message.aggregate_id
    assert UUID(payload["propertyObjectId"]) == view.property_object_id
    assert UUID(payload["sessionId"]) == view.session_id
    assert UUID(payload["anonymousId"]) == view.anonymous_id
    assert payload["userId"] == (None if user_id is None else str(user_id))
    assert payload["viewSource"] == view.view_source
    assert read(payload["viewedAt"]) == view.created_at
    assert read(payload["lastActivityAt"]) == view.last_activity_at
    assert is_whole_seconds_of(payload["durationSeconds"], view.last_activity_at - view.created_at)
    assert message.occurred_at == now


@given(
    number=st.integers(-(10**40), 10**40),
    exact=st.decimals(allow_nan=False, allow_infinity=False, places=25),
    now=moments,
    view=views(),
)
def test_the_filter_is_passed_on_as_it_stands(
    number: int, exact: Decimal, now: datetime, view: PropertyObjectView
) -> None:
    """To the letter: no integer is too long and no decimal too exact (D-10)."""
    text = f'{{"number": {number}, "exact": {exact:f}, "exact":  1.10}}'
    [ended] = HangingView(view=evolve(view, filter_snapshot=text), user_id=None).close(now)
    assert a_message(ended).payload.endswith(f'"filterSnapshot":{text}}}')


@given(
    session=sessions(),
    hours=st.integers(-23, 23),
    now=moments,
)
def test_times_are_in_utc_wherever_they_were_written(session: Session, hours: int, now: datetime) -> None:
    """Another zone gives the same payload, byte for byte (D-10)."""
    zone = timezone(timedelta(hours=hours, minutes=30))
    try:
        elsewhere = evolve(
            session,
            created_at=session.created_at.astimezone(zone),
            last_activity_at=session.last_activity_at.astimezone(zone),
        )
    except OverflowError:
        assume(False)  # the edge of the calendar has no such time in that zone
    [here], [there] = (OpenSession(session=one, open_views=()).close(now) for one in (session, elsewhere))
    assert a_message(there).payload == a_message(here).payload


@given(view=views(), user_id=st.none() | ids, now=moments)
def test_the_same_event_is_the_same_text(view: PropertyObjectView, user_id: UUID | None, now: datetime) -> None:
    """Nothing in it but the row: neither time, order nor chance."""
    first, second = (a_message(HangingView(view=evolve(view), user_id=user_id).close(now)[0]) for _ in range(2))
    assert first == second


@given(view=views(), now=moments)
def test_no_text_of_a_message_holds_its_payload(view: PropertyObjectView, now: datetime) -> None:
    """What a log may print of a message has no device in it (specification §8)."""
    view = evolve(view, anonymous_id=UUID(int=0xFEEDFACE << 96))
    [ended] = HangingView(view=view, user_id=view.anonymous_id).close(now)
    assert str(view.anonymous_id) not in f"{a_message(ended)!r} {a_message(ended)}"


@pytest.mark.parametrize(
    ("microseconds", "seconds"),
    [(0, 0), (1, 0), (999_999, 0), (1_000_000, 1), (59_999_999, 59), (86_400_000_000, 86_400)],
)
def test_seconds_are_rounded_down(microseconds: int, seconds: int) -> None:
    """A second counts once it is full (D-10)."""
    began = datetime(2026, 12, 1, tzinfo=UTC)
    session = Session.start(session_id=MESSAGE_ID, anonymous_id=MESSAGE_ID, user_id=None, now=began)
    session = session.touch(began + timedelta(microseconds=microseconds))
    [ended] = OpenSession(session=session, open_views=()).close(began)
    assert json.loads(a_message(ended).payload)["durationSeconds"] == seconds

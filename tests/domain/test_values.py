"""What values let in, and what they let out: aware times only, and nothing personal in any text."""

import traceback
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve, fields
from hypothesis import assume, given
from hypothesis import strategies as st

from domain.activity import ActivityStatus, CannotClose
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.domain.rows import activities, moments, sessions, views

Row = Session | PropertyObjectView
NAIVE = datetime(2026, 12, 1, 12)  # noqa: DTZ001 (that it has no zone is the point)
PERSONAL = (0xFEEDFACE << 96, 0xDEADBEEF << 96)
ANONYMOUS_ID, USER_ID = (UUID(int=number) for number in PERSONAL)


@pytest.mark.parametrize("name", ["created_at", "last_activity_at", "ended_at"])
@given(row=activities)
def test_a_time_without_a_zone_is_refused(name: str, row: Row) -> None:
    """It would be compared with the wrong clock (D-01)."""
    with pytest.raises(ValueError, match="must carry a time zone"):
        evolve(row, **{name: NAIVE})  # type: ignore[arg-type] # mypy cannot tell which field it is


@given(row=activities)
def test_a_heartbeat_without_a_zone_is_refused(row: Row) -> None:
    """Python itself does not compare such times."""
    with pytest.raises(TypeError):
        row.touch(NAIVE)


@given(row=activities)
def test_an_end_without_a_zone_is_refused(row: Row) -> None:
    """Nothing is closed at a time that could be any (D-01)."""
    with pytest.raises(ValueError, match="time zone"):
        row.close(NAIVE)


@pytest.mark.parametrize(("day", "hours"), [(datetime(2026, 10, 25), 7), (datetime(2026, 3, 29), 5)])  # noqa: DTZ001
def test_the_change_of_the_clocks_is_no_change_of_time(day: datetime, hours: int) -> None:
    """From midnight to six there are seven hours when summer time ends, and five when it begins."""
    midnight = day.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    session = Session.start(session_id=ANONYMOUS_ID, anonymous_id=ANONYMOUS_ID, user_id=None, now=midnight)
    closed = session.touch(midnight.replace(hour=6)).close(midnight)
    assert closed.duration == timedelta(hours=hours)


@given(moment=st.datetimes(timezones=st.timezones(), allow_imaginary=False))
def test_times_are_kept_in_utc(moment: datetime) -> None:
    """The same moment, in one zone for all (D-01)."""
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:
        assume(False)  # the edge of the calendar
    session = Session.start(session_id=ANONYMOUS_ID, anonymous_id=ANONYMOUS_ID, user_id=None, now=moment)
    for kept in (session.created_at, session.last_activity_at, session.close(moment).ended_at):
        assert kept == expected
        assert kept is not None
        assert kept.tzinfo is UTC


@given(
    session=sessions(in_order=False),
    open_views=st.lists(views(in_order=False), max_size=3),
    status=st.sampled_from(ActivityStatus),
    now=moments,
)
def test_nothing_personal_is_in_any_text(
    session: Session, open_views: list[PropertyObjectView], status: ActivityStatus, now: datetime
) -> None:
    """Neither repr nor str of a row, of what closes, of an event or of an error holds a device, a user or a filter."""
    session = evolve(session, anonymous_id=ANONYMOUS_ID, user_id=USER_ID, status=status)
    snapshot = '{"phone": "79990000000"}'
    open_views = [evolve(view, anonymous_id=ANONYMOUS_ID, filter_snapshot=snapshot) for view in open_views]
    opened = OpenSession(session=session, open_views=tuple(open_views))
    hanging = [HangingView(view=view, user_id=USER_ID) for view in open_views]
    texts = []
    closables: list[OpenSession | HangingView] = [opened, *hanging]
    for one in closables:
        texts += [repr(one), str(one)]
        try:
            texts += [repr(ended) for ended in one.close(now)]
        except CannotClose as error:
            texts += [str(error), repr(error), "".join(traceback.format_exception(error))]
    for text in texts:
        for personal in (ANONYMOUS_ID, USER_ID):
            assert str(personal) not in text
            assert personal.hex not in text
            assert str(personal.int) not in text
        assert "79990000000" not in text


@pytest.mark.parametrize("row_type", [Session, PropertyObjectView])
def test_rows_know_nothing_of_the_device(row_type: type[Row]) -> None:
    """The device's address and agent are not even read (specification §6, §7)."""
    names = {attribute.name for attribute in fields(row_type)}
    assert not any("device" in name or "address" in name or "agent" in name for name in names)

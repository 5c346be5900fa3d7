"""The rule by which a row closes (specification §2), over any row and any time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from domain.activity import ActivityStatus, CannotClose, NegativeDuration, NotActive, is_stale
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.domain.rows import activities, moments, sessions, views

Row = Session | PropertyObjectView
any_order = sessions(in_order=False) | views(in_order=False)
offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)


@given(row=activities, now=moments)
def test_duration_is_last_activity_less_creation(row: Row, now: datetime) -> None:
    """Whatever time it is now: the silent tail does not count, and Duration is never negative."""
    closed = row.close(now)
    assert closed.duration == row.last_activity_at - row.created_at
    assert closed.duration >= timedelta(0)


@given(row=activities, now=moments)
def test_closing_changes_status_end_and_duration_only(row: Row, now: datetime) -> None:
    """`Inactive`, `EndedAt`, `Duration`; whatever else the row holds stays as it was, and so does the row given."""
    before = evolve(row)
    closed = row.close(now)
    assert (closed.status, closed.ended_at) == (ActivityStatus.INACTIVE, now)
    assert evolve(closed, status=row.status, ended_at=None, duration=None) == row == before


@given(row=activities, now=moments, later=moments)
def test_a_row_is_closed_at_most_once(row: Row, now: datetime, later: datetime) -> None:
    """A closed row refuses to be closed again (INV-SES-006, INV-LV-008)."""
    closed = row.close(now)
    with pytest.raises(NotActive) as refusal:
        closed.close(later)
    assert refusal.value.kind == "not_active"


@given(row=any_order, status=st.sampled_from(ActivityStatus), now=moments)
def test_closing_fails_for_two_reasons_only(row: Row, status: ActivityStatus, now: datetime) -> None:
    """Not Active, or last active before it was created; otherwise any row closes at any time."""
    row = evolve(row, status=status)
    expected: type[CannotClose] | None = None
    if status is ActivityStatus.INACTIVE:
        expected = NotActive
    elif row.last_activity_at < row.created_at:
        expected = NegativeDuration
    if expected is None:
        row.close(now)
    else:
        with pytest.raises(expected):
            row.close(now)


@given(row=any_order, first=offsets, second=offsets, now=moments)
def test_the_zone_of_a_time_does_not_matter(row: Row, first: timezone, second: timezone, now: datetime) -> None:
    """The same moments written in other zones give the same Duration, or the same refusal."""
    try:
        elsewhere = evolve(
            row,
            created_at=row.created_at.astimezone(first),
            last_activity_at=row.last_activity_at.astimezone(second),
        )
    except OverflowError:
        assume(False)  # the edge of the calendar has no such time in that zone
    assert _outcome(elsewhere, now) == _outcome(row, now)


def _outcome(row: Row, now: datetime) -> object:
    try:
        return row.close(now).duration
    except CannotClose as refusal:
        return refusal.kind


@given(row=activities, cutoff=moments, status=st.sampled_from(ActivityStatus))
def test_stale_is_strictly_before_the_cutoff(row: Row, cutoff: datetime, status: ActivityStatus) -> None:
    """Active and silent since before the cutoff (specification §1)."""
    row = evolve(row, status=status)
    assert is_stale(row, cutoff) is (status is ActivityStatus.ACTIVE and row.last_activity_at < cutoff)


@given(row=activities)
def test_exactly_at_the_cutoff_is_not_stale(row: Row) -> None:
    """The boundary: one microsecond later it is."""
    assume(row.last_activity_at < datetime.max.replace(tzinfo=UTC))
    assert not is_stale(row, row.last_activity_at)
    assert is_stale(row, row.last_activity_at + timedelta(microseconds=1))


@given(row=activities, now=moments)
def test_a_heartbeat_never_moves_back(row: Row, now: datetime) -> None:
    """The last activity is the later of the two, and nothing else changes."""
    touched = row.touch(now)
    assert touched.last_activity_at == max(now, row.last_activity_at)
    assert evolve(touched, last_activity_at=row.last_activity_at) == row


@pytest.mark.parametrize("row_type", [sessions(), views()], ids=["session", "view"])
def test_the_whole_calendar_can_be_lasted(row_type: st.SearchStrategy[Row]) -> None:
    """From the first moment there is to the last: the Duration is exact all the same."""
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

    @given(row=row_type)
    def closes(row: Row) -> None:
        assert evolve(row, created_at=first, last_activity_at=last).close(first).duration == last - first

    closes()

"""What closes together, and the events that say so (INV-SES-005, INV-LV-004, INV-LV-007)."""

from datetime import datetime
from typing import TypeVar
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from domain.activity import ActivityStatus, CannotClose
from domain.closing import HangingView, OpenSession, PropertyObjectViewEnded, SessionEnded
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.domain.rows import ids, moments, sessions, views

Row = TypeVar("Row", Session, PropertyObjectView)

open_sessions = st.builds(OpenSession, session=sessions(), open_views=st.lists(views(), max_size=5).map(tuple))


@given(opened=open_sessions, now=moments)
def test_a_session_closes_with_its_views(opened: OpenSession, now: datetime) -> None:
    """One event a row, views before their session, all with one `EndedAt` and the session's user (D-02)."""
    *of_views, of_session = opened.close(now)
    assert isinstance(of_session, SessionEnded)
    assert of_session.session == opened.session.close(now)
    expected = [
        PropertyObjectViewEnded(view=view.close(now), user_id=opened.session.user_id, ended_at=now)
        for view in opened.open_views
    ]
    assert of_views == expected
    assert {one.ended_at for one in opened.close(now)} == {now}


@given(opened=open_sessions, now=moments, bad=st.integers(0, 5), reason=st.sampled_from(["closed", "negative"]))
def test_a_session_closes_as_a_whole_or_not_at_all(opened: OpenSession, now: datetime, bad: int, reason: str) -> None:
    """If the session or any one of its views cannot be closed, nothing is (INV-SES-005)."""
    number = bad % (len(opened.open_views) + 1)
    if number == len(opened.open_views):
        damaged = evolve(opened, session=_damage(opened.session, reason))
    else:
        open_views = list(opened.open_views)
        open_views[number] = _damage(open_views[number], reason)
        damaged = evolve(opened, open_views=tuple(open_views))
    try:
        damaged.close(now)
    except CannotClose:
        return
    # Times that are equal cannot be put the wrong way round.
    assert reason == "negative"
    assert damaged == opened


def _damage(row: Row, reason: str) -> Row:
    if reason == "closed":
        return evolve(row, status=ActivityStatus.INACTIVE)
    return evolve(row, created_at=row.last_activity_at, last_activity_at=row.created_at)


@given(view=views(), user_id=st.none() | ids, now=moments)
def test_a_hanging_view_closes_alone(view: PropertyObjectView, user_id: UUID | None, now: datetime) -> None:
    """One event, about the view, naming the user it was told (INV-LV-004)."""
    assert HangingView(view=view, user_id=user_id).close(now) == (
        PropertyObjectViewEnded(view=view.close(now), user_id=user_id, ended_at=now),
    )


@given(opened=open_sessions)
def test_the_close_lag_is_closing_time_less_last_activity(opened: OpenSession) -> None:
    """How long each row had been silent (specification §9)."""
    now = max([opened.session.last_activity_at, *(view.last_activity_at for view in opened.open_views)])
    rows: list[Session | PropertyObjectView] = [*opened.open_views, opened.session]
    assert [one.close_lag for one in opened.close(now)] == [now - row.last_activity_at for row in rows]


@given(session=sessions(), user_id=ids)
def test_linking_sets_the_user_and_nothing_else(session: Session, user_id: UUID) -> None:
    """The session once its user is known."""
    linked = session.link(user_id)
    assert linked.user_id == user_id
    assert evolve(linked, user_id=session.user_id) == session


@pytest.mark.parametrize("is_view", [False, True])
def test_a_new_row_is_active_and_has_lasted_for_nothing(is_view: bool) -> None:
    """Started and last active now; a session may have its user already."""

    @given(first=ids, second=ids, user_id=st.none() | ids, now=moments)
    def begins(first: UUID, second: UUID, user_id: UUID | None, now: datetime) -> None:
        row: Session | PropertyObjectView
        row = Session.start(session_id=first, anonymous_id=second, user_id=user_id, now=now)
        if is_view:
            row = PropertyObjectView.open(
                view_id=first,
                property_object_id=second,
                session_id=second,
                anonymous_id=second,
                view_source="map",
                filter_snapshot=None,
                now=now,
            )
        assert (row.id, row.status, row.created_at, row.last_activity_at) == (first, ActivityStatus.ACTIVE, now, now)
        assert (row.ended_at, row.duration) == (None, None)

    begins()

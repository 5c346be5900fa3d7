"""Sessions and views as Hypothesis invents them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session

moments = st.datetimes(timezones=st.just(UTC))
"""Any time at all in UTC, as the store gives it (D-01), the first and the last there are among them."""
durations = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400))
ids = st.uuids()
json_texts = st.sampled_from(
    [
        "{}",
        "[]",
        '{"price": 123456789012345678901234567890, "exact": 0.12345678901234567890123}',
        '{"text": "\\u0422\\u0432\\u0435\\u0440\\u044c \\\\ \\""}',
        '{"b": 1, "a": 1.0, "a": 1e400}',
        "null",
    ]
)


@st.composite
def sessions(
    draw: st.DrawFn,
    *,
    status: ActivityStatus = ActivityStatus.ACTIVE,
    times: st.SearchStrategy[datetime] = moments,
    in_order: bool = True,
) -> Session:
    """A session whose times are in order, unless they may be in any."""
    created_at, last_activity_at = _times(draw, times, in_order=in_order)
    return Session(
        id=draw(ids),
        anonymous_id=draw(ids),
        user_id=draw(st.none() | ids),
        status=status,
        created_at=created_at,
        last_activity_at=last_activity_at,
    )


@st.composite
def views(
    draw: st.DrawFn,
    *,
    status: ActivityStatus = ActivityStatus.ACTIVE,
    times: st.SearchStrategy[datetime] = moments,
    in_order: bool = True,
    session_id: UUID | None = None,
) -> PropertyObjectView:
    """A view whose times are in order, unless they may be in any."""
    created_at, last_activity_at = _times(draw, times, in_order=in_order)
    return PropertyObjectView(
        id=draw(ids),
        property_object_id=draw(ids),
        session_id=session_id or draw(ids),
        anonymous_id=draw(ids),
        view_source=draw(st.text()),
        filter_snapshot=draw(st.none() | json_texts),
        status=status,
        created_at=created_at,
        last_activity_at=last_activity_at,
    )


def _times(draw: st.DrawFn, times: st.SearchStrategy[datetime], *, in_order: bool) -> tuple[datetime, datetime]:
    first, second = draw(times), draw(times)
    return (min(first, second), max(first, second)) if in_order else (first, second)


activities = sessions() | views()
"""A row that can be closed."""

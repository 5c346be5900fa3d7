"""What closes together, and the events that say so.

Each event carries the row that it is about, as it is after closing, so that use cases write both from one value.
"""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import field, frozen

from domain.activity import in_utc
from domain.property_object_view import PropertyObjectView
from domain.session import Session


@frozen(kw_only=True)
class SessionEnded:
    """A session has been closed."""

    session: Session
    ended_at: datetime = field(converter=in_utc)

    @property
    def close_lag(self) -> timedelta:
        """How long the session had been silent when it was closed."""
        return self.ended_at - self.session.last_activity_at


@frozen(kw_only=True)
class PropertyObjectViewEnded:
    """A view has been closed."""

    view: PropertyObjectView
    user_id: UUID | None = field(repr=False)
    """The session's user at closing time, who may have signed in after the view was opened (specification §2)."""
    ended_at: datetime = field(converter=in_utc)

    @property
    def close_lag(self) -> timedelta:
        """How long the view had been silent when it was closed."""
        return self.ended_at - self.view.last_activity_at


Ended = SessionEnded | PropertyObjectViewEnded


@frozen(kw_only=True)
class HangingView:
    """An Active view, with its session's current user; it closes alone (INV-LV-004)."""

    view: PropertyObjectView
    user_id: UUID | None = field(repr=False)

    @property
    def id(self) -> UUID:
        """The view's id."""
        return self.view.id

    def close(self, now: datetime) -> tuple[Ended, ...]:
        """Closes the view; its session is not touched. Raises NotActive or NegativeDuration."""
        return (PropertyObjectViewEnded(view=self.view.close(now), user_id=self.user_id, ended_at=now),)


@frozen(kw_only=True)
class OpenSession:
    """An Active session with all its views that are still Active."""

    session: Session
    open_views: tuple[PropertyObjectView, ...]

    @property
    def id(self) -> UUID:
        """The session's id."""
        return self.session.id

    def close(self, now: datetime) -> tuple[Ended, ...]:
        """Closes the views, then the session, with one `EndedAt` (INV-SES-005, INV-LV-007, D-02).

        Raises NotActive or NegativeDuration if any of them cannot be closed; then none is.
        """
        user_id = self.session.user_id
        return (
            *(PropertyObjectViewEnded(view=view.close(now), user_id=user_id, ended_at=now) for view in self.open_views),
            SessionEnded(session=self.session.close(now), ended_at=now),
        )

"""One opened real-estate object within a session: the property-object view."""

from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from attrs import evolve, field, frozen
from attrs.converters import optional

from domain.activity import ActivityStatus, duration_at_close, in_utc


@frozen(kw_only=True)
class PropertyObjectView:
    """A row of `property_object_views`."""

    id: UUID
    property_object_id: UUID
    session_id: UUID
    anonymous_id: UUID = field(repr=False)
    """The device; personal data, so it is kept out of every text."""
    view_source: str
    filter_snapshot: str | None = field(repr=False)
    """The search filter as raw JSON text: passed on, never parsed (D-10)."""
    status: ActivityStatus
    created_at: datetime = field(converter=in_utc)
    last_activity_at: datetime = field(converter=in_utc)
    ended_at: datetime | None = field(default=None, converter=optional(in_utc))
    duration: timedelta | None = None

    @classmethod
    def open(
        cls,
        *,
        view_id: UUID,
        property_object_id: UUID,
        session_id: UUID,
        anonymous_id: UUID,
        view_source: str,
        filter_snapshot: str | None,
        now: datetime,
    ) -> Self:
        """A view that has just been opened."""
        return cls(
            id=view_id,
            property_object_id=property_object_id,
            session_id=session_id,
            anonymous_id=anonymous_id,
            view_source=view_source,
            filter_snapshot=filter_snapshot,
            status=ActivityStatus.ACTIVE,
            created_at=now,
            last_activity_at=now,
        )

    def touch(self, now: datetime) -> Self:
        """The view after a heartbeat; a heartbeat never moves the last activity back."""
        return evolve(self, last_activity_at=max(now, self.last_activity_at))

    def close(self, now: datetime) -> "PropertyObjectView":
        """The view closed at `now`. Raises NotActive or NegativeDuration (INV-LV-008)."""
        # Spelled out: attrs.evolve takes twice as long, and this is the hot path.
        return PropertyObjectView(
            id=self.id,
            property_object_id=self.property_object_id,
            session_id=self.session_id,
            anonymous_id=self.anonymous_id,
            view_source=self.view_source,
            filter_snapshot=self.filter_snapshot,
            status=ActivityStatus.INACTIVE,
            created_at=self.created_at,
            last_activity_at=self.last_activity_at,
            ended_at=now,
            duration=duration_at_close(self),
        )

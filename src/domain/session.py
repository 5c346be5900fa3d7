"""The visit of one device: the session."""

from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from attrs import evolve, field, frozen
from attrs.converters import optional

from domain.activity import ActivityStatus, duration_at_close, in_utc


@frozen(kw_only=True)
class Session:
    """A row of `sessions`, without the device's address and agent, which nothing here may see."""

    id: UUID
    anonymous_id: UUID = field(repr=False)
    """The device; personal data, so it is kept out of every text."""
    user_id: UUID | None = field(repr=False)
    """Who is signed in on the device now, if anybody; personal data."""
    status: ActivityStatus
    created_at: datetime = field(converter=in_utc)
    last_activity_at: datetime = field(converter=in_utc)
    ended_at: datetime | None = field(default=None, converter=optional(in_utc))
    duration: timedelta | None = None

    @classmethod
    def start(cls, *, session_id: UUID, anonymous_id: UUID, user_id: UUID | None, now: datetime) -> Self:
        """A new session of a device, alive from `now` on."""
        return cls(
            id=session_id,
            anonymous_id=anonymous_id,
            user_id=user_id,
            status=ActivityStatus.ACTIVE,
            created_at=now,
            last_activity_at=now,
        )

    def touch(self, now: datetime) -> Self:
        """The session after a heartbeat; a heartbeat never moves the last activity back."""
        return evolve(self, last_activity_at=max(now, self.last_activity_at))

    def link(self, user_id: UUID) -> Self:
        """The session once its user is known."""
        return evolve(self, user_id=user_id)

    def close(self, now: datetime) -> "Session":
        """The session closed at `now`. Raises NotActive or NegativeDuration (INV-SES-006)."""
        # Spelled out: attrs.evolve takes twice as long, and this is the hot path.
        return Session(
            id=self.id,
            anonymous_id=self.anonymous_id,
            user_id=self.user_id,
            status=ActivityStatus.INACTIVE,
            created_at=self.created_at,
            last_activity_at=self.last_activity_at,
            ended_at=now,
            duration=duration_at_close(self),
        )

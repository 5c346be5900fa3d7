"""What sessions and property-object views have in common: they are alive, and they close by one rule."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID


class ActivityStatus(StrEnum):
    """The two states of a row; the values are those of the tables (specification §6)."""

    ACTIVE = "Active"
    INACTIVE = "Inactive"


class CannotClose(Exception):
    """The row must not be closed as it is.

    `kind` is a bounded name, fit for a log or a metric; nothing personal is in either text.
    """

    kind = "cannot_close"


class NotActive(CannotClose):
    """The row is not Active, so somebody has closed it already (INV-SES-006, INV-LV-008)."""

    kind = "not_active"


class NegativeDuration(CannotClose):
    """The row's last activity lies before its creation: a duration below zero is never recorded (specification §2)."""

    kind = "negative_duration"


class Activity(Protocol):
    """A row that heartbeats keep alive."""

    @property
    def id(self) -> UUID:
        """The row's primary key."""

    @property
    def status(self) -> ActivityStatus:
        """Whether the row is still alive."""

    @property
    def created_at(self) -> datetime:
        """When the activity began."""

    @property
    def last_activity_at(self) -> datetime:
        """When it last gave a sign of life."""


def is_stale(activity: Activity, cutoff: datetime) -> bool:
    """Whether the row has been silent for too long; exactly at the cutoff is not stale (specification §1)."""
    return activity.status is ActivityStatus.ACTIVE and activity.last_activity_at < cutoff


def duration_at_close(activity: Activity) -> timedelta:
    """The Duration that closing records: LastActivityAt - CreatedAt, without the silent tail (specification §2).

    Raises NotActive if the row is closed already, NegativeDuration if its times are the wrong way round.
    """
    if activity.status is not ActivityStatus.ACTIVE:
        raise NotActive(f"{activity.id} is {activity.status}, not {ActivityStatus.ACTIVE}")
    if activity.last_activity_at < activity.created_at:
        raise NegativeDuration(f"{activity.id} was last active before it was created")
    return activity.last_activity_at - activity.created_at


def in_utc(moment: datetime) -> datetime:
    """The same moment in UTC, as every time here is kept (D-01). Raises ValueError for one without a zone.

    Python subtracts and compares times of one zone by the clock on its wall: across a change to or from summer time a
    duration would be an hour off.
    """
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise ValueError("a time must carry a time zone")
    return moment.astimezone(UTC)

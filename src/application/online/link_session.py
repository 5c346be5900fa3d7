"""link-session."""

from enum import StrEnum
from uuid import UUID

from attrs import frozen

from application.online.errors import SessionNotFound
from application.ports.activity_store import ActivityStore
from application.ports.identifiers import Identifiers
from application.record_ended import record_ended
from domain.closing import OpenSession
from domain.session import Session


class LinkOutcome(StrEnum):
    """What linking a device's session to a user came to."""

    LINKED = "Linked"
    """The session had no user."""
    SAME_USER = "SameUser"
    """It was that user's already."""
    SWITCHED = "Switched"
    """It was somebody else's: that session is closed, and a new one has begun."""


@frozen(kw_only=True)
class LinkedSession:
    """The device's Active session after linking."""

    session: Session
    outcome: LinkOutcome


@frozen(kw_only=True)
class LinkSession:
    """Somebody signs in on a device."""

    store: ActivityStore
    identifiers: Identifiers

    def __call__(self, *, anonymous_id: UUID, user_id: UUID) -> LinkedSession:
        """Links the device's Active session to the user.

        A switch closes the old session by the closer's own rule, with its views and events, in the same transaction
        that starts the new one; the events' correlation id is an id of this command (D-11). Raises SessionNotFound,
        CannotClose, StoreError.
        """
        now = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            session = unit_of_work.sessions.lock_active_of(anonymous_id)
            if session is None:
                raise SessionNotFound
            if session.user_id == user_id:
                return LinkedSession(session=session, outcome=LinkOutcome.SAME_USER)
            if session.user_id is None:
                linked = LinkedSession(session=session.link(user_id), outcome=LinkOutcome.LINKED)
                unit_of_work.sessions.save(linked.session)
            else:
                open_views = tuple(unit_of_work.views.lock_open_of(session.id))
                now = self.store.clock.now()  # the locks may have been waited for, and a heartbeat come in before
                record_ended(
                    unit_of_work,
                    OpenSession(session=session, open_views=open_views).close(now),
                    identifiers=self.identifiers,
                    correlation_id=self.identifiers.new(now),
                    trace_parent=None,
                )
                new = Session.start(
                    session_id=self.identifiers.new(now), anonymous_id=anonymous_id, user_id=user_id, now=now
                )
                unit_of_work.sessions.add(new)
                linked = LinkedSession(session=new, outcome=LinkOutcome.SWITCHED)
            unit_of_work.commit()
        return linked

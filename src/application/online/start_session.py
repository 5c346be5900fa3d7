"""start-session."""

from uuid import UUID

from attrs import frozen

from application.ports.activity_store import ActivityStore
from application.ports.identifiers import Identifiers
from application.ports.store_errors import ActiveSessionExists
from domain.session import Session


@frozen(kw_only=True)
class StartSession:
    """A device says that somebody is there: its Active session goes on, or a new one begins.

    At most one session of a device is Active (specification §6), so two calls at once end in the same session.
    """

    store: ActivityStore
    identifiers: Identifiers

    def __call__(self, *, anonymous_id: UUID) -> Session:
        """The device's Active session. Raises StoreError."""
        try:
            return self._start(anonymous_id)
        except ActiveSessionExists:
            return self._start(anonymous_id)  # somebody else's is there by now, and is found

    def _start(self, anonymous_id: UUID) -> Session:
        now = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            current = unit_of_work.sessions.lock_active_of(anonymous_id)
            if current is None:
                session = Session.start(
                    session_id=self.identifiers.new(now), anonymous_id=anonymous_id, user_id=None, now=now
                )
                unit_of_work.sessions.add(session)
            else:
                session = current.touch(now)
                unit_of_work.sessions.save(session)
            unit_of_work.commit()
        return session

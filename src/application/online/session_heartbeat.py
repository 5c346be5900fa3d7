"""session-heartbeat."""

from uuid import UUID

from attrs import frozen

from application.online.start_session import StartSession
from domain.session import Session


@frozen(kw_only=True)
class SessionHeartbeat:
    """A device is still there. If its session has been closed meanwhile, a new one begins (INV-SES-003)."""

    start_session: StartSession

    def __call__(self, *, anonymous_id: UUID) -> Session:
        """The device's Active session, whose id tells the client whether it is a new one. Raises StoreError."""
        return self.start_session(anonymous_id=anonymous_id)

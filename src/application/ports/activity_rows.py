"""Reading and changing single sessions and views, as the online commands do (D-13)."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from domain.property_object_view import PropertyObjectView
from domain.session import Session


class Sessions(Protocol):
    """Sessions as one transaction sees them. Locks are waited for and held until it ends."""

    def lock(self, session_id: UUID) -> Session | None:
        """Locks the session against every change, and against views being opened; None if there is none."""

    def lock_active_of(self, anonymous_id: UUID) -> Session | None:
        """Locks the Active session of a device; None if it has none."""

    def add(self, session: Session) -> None:
        """Adds a session. ActiveSessionExists comes, at the latest from the commit, if the device has an Active one."""

    def save(self, session: Session) -> None:
        """Records a locked session's last activity and user."""

    def close(self, sessions: Sequence[Session]) -> None:
        """Records that locked sessions were closed: status, `EndedAt`, `Duration`."""


class PropertyObjectViews(Protocol):
    """Views as one transaction sees them. Locks are waited for and held until it ends."""

    def lock(self, view_id: UUID) -> PropertyObjectView | None:
        """Locks the view's session, then the view (D-13); None if there is none."""

    def lock_open_of(self, session_id: UUID) -> Sequence[PropertyObjectView]:
        """Locks the Active views of a locked session, in the order of their ids."""

    def add(self, view: PropertyObjectView) -> None:
        """Adds a view to a session that this transaction has locked."""

    def save(self, view: PropertyObjectView) -> None:
        """Records a locked view's last activity."""

    def close(self, views: Sequence[PropertyObjectView]) -> None:
        """Records that locked views were closed: status, `EndedAt`, `Duration`."""

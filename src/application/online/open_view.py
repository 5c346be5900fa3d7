"""open-view."""

from uuid import UUID

from attrs import frozen

from application.online.errors import SessionNotFound
from application.ports.activity_store import ActivityStore
from application.ports.identifiers import Identifiers
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView


@frozen(kw_only=True)
class OpenView:
    """A visitor opens a real-estate object.

    The session is locked first, so no Active view appears under a session that is being closed (INV-LV-007). The
    session's own last activity stays as it is: that is its heartbeat's.
    """

    store: ActivityStore
    identifiers: Identifiers

    def __call__(
        self, *, session_id: UUID, property_object_id: UUID, view_source: str, filter_snapshot: str | None = None
    ) -> PropertyObjectView:
        """The new view. Raises SessionNotFound if the session is not Active, StoreError.

        `filter_snapshot` is JSON text.
        """
        now = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            session = unit_of_work.sessions.lock(session_id)
            if session is None or session.status is not ActivityStatus.ACTIVE:
                raise SessionNotFound
            view = PropertyObjectView.open(
                view_id=self.identifiers.new(now),
                property_object_id=property_object_id,
                session_id=session.id,
                anonymous_id=session.anonymous_id,
                view_source=view_source,
                filter_snapshot=filter_snapshot,
                now=now,
            )
            unit_of_work.views.add(view)
            unit_of_work.commit()
        return view

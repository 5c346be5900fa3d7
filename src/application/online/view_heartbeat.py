"""view-heartbeat."""

from uuid import UUID

from attrs import frozen

from application.ports.activity_store import ActivityStore
from domain.activity import ActivityStatus


@frozen(kw_only=True)
class ViewHeartbeat:
    """A visitor still looks at an object."""

    store: ActivityStore

    def __call__(self, *, view_id: UUID) -> bool:
        """`accepted`: false if the view is not Active; the client then reopens it (INV-LV-003). Raises StoreError."""
        now = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            view = unit_of_work.views.lock(view_id)
            if view is None or view.status is not ActivityStatus.ACTIVE:
                return False
            unit_of_work.views.save(view.touch(now))
            unit_of_work.commit()
        return True

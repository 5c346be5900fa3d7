"""What the suites need of a store that is put to the test."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID, uuid4

from application.ports.activity_store import ActivityStore
from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session


class StoreSubject(Protocol):
    """A store with no rows in it, and a look behind it."""

    @property
    def store(self) -> ActivityStore:
        """The store."""

    def session(self, session_id: UUID) -> Session | None:
        """The session as it was last committed."""

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        """The view as it was last committed."""

    def messages(self) -> Sequence[OutboxMessage]:
        """The outbox as it was last committed."""

    def refuse(self, row_ids: Sequence[UUID]) -> None:
        """Makes the store refuse to close these rows from now on, and no others, as a trigger would."""

    def waiting(self) -> int:
        """How many transactions wait for a row lock at this moment."""


class StoreContract:
    """The beginning of each suite: the subject, and rows to put into it."""

    subject: StoreSubject
    """New for each test; the adapter's tests set it."""

    @property
    def store(self) -> ActivityStore:
        """The store that is put to the test."""
        return self.subject.store

    def put(self, *rows: Session | PropertyObjectView) -> None:
        """Commits rows as they are."""
        put(self.store, *rows)

    def session_of(self, session_id: UUID) -> Session:
        """A session that must be there."""
        session = self.subject.session(session_id)
        assert session is not None
        return session

    def view_of(self, view_id: UUID) -> PropertyObjectView:
        """A view that must be there."""
        view = self.subject.view(view_id)
        assert view is not None
        return view

    def aggregates(self) -> list[UUID]:
        """What the outbox's events are about, in the order of ids."""
        return sorted(message.aggregate_id for message in self.subject.messages())


def put(store: ActivityStore, *rows: Session | PropertyObjectView) -> None:
    """Commits rows as they are."""
    with store.begin() as unit_of_work:
        for row in rows:
            if isinstance(row, Session):
                unit_of_work.sessions.add(row)
            else:
                unit_of_work.views.add(row)
        unit_of_work.commit()


def a_session(
    now: datetime,
    *,
    idle: timedelta = timedelta(minutes=20),
    lasted: timedelta = timedelta(minutes=10),
    anonymous_id: UUID | None = None,
    user_id: UUID | None = None,
) -> Session:
    """An Active session that was last active `idle` before `now`, and had lasted for `lasted` by then."""
    last_activity_at = now - idle
    return Session(
        id=uuid4(),
        anonymous_id=anonymous_id or uuid4(),
        user_id=user_id,
        status=ActivityStatus.ACTIVE,
        created_at=last_activity_at - lasted,
        last_activity_at=last_activity_at,
    )


def a_view(
    session: Session,
    now: datetime,
    *,
    idle: timedelta = timedelta(minutes=20),
    lasted: timedelta = timedelta(minutes=3),
    filter_snapshot: str | None = None,
) -> PropertyObjectView:
    """An Active view of a session, with times as for `a_session`."""
    last_activity_at = now - idle
    return PropertyObjectView(
        id=uuid4(),
        property_object_id=uuid4(),
        session_id=session.id,
        anonymous_id=session.anonymous_id,
        view_source="catalog",
        filter_snapshot=filter_snapshot,
        status=ActivityStatus.ACTIVE,
        created_at=last_activity_at - lasted,
        last_activity_at=last_activity_at,
    )

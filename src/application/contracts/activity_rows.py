"""The contract of the Sessions and PropertyObjectViews ports."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

from attrs import evolve

from application.contracts.subject import StoreContract, a_session, a_view
from application.ports.store_errors import ActiveSessionExists, TransactionRefused
from application.ports.unit_of_work import UnitOfWork
from domain.activity import ActivityStatus

SECOND = timedelta(seconds=1)


class ActivityRowsContract(StoreContract):
    """Single rows are found, locked, changed and closed."""

    def test_an_unknown_row_is_none(self) -> None:
        """What does not exist cannot be locked, and that is no error."""
        with self.store.begin() as unit_of_work:
            assert unit_of_work.sessions.lock(uuid4()) is None
            assert unit_of_work.sessions.lock_active_of(uuid4()) is None
            assert unit_of_work.views.lock(uuid4()) is None
            assert not unit_of_work.views.lock_open_of(uuid4())

    def test_a_locked_row_is_whole(self) -> None:
        """Locking answers every value as it was added."""
        now = self.store.clock.read()
        session = a_session(now, user_id=uuid4())
        view = a_view(session, now, filter_snapshot='{"rooms": [1, 2]}')
        self.put(session, view)
        with self.store.begin() as unit_of_work:
            assert unit_of_work.sessions.lock(session.id) == session
            assert unit_of_work.sessions.lock_active_of(session.anonymous_id) == session
            assert unit_of_work.views.lock(view.id) == view
            assert list(unit_of_work.views.lock_open_of(session.id)) == [view]

    def test_saving_changes_last_activity_and_user(self) -> None:
        """A heartbeat moves the last activity, a link sets the user; nothing else changes."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session, view)
        alive = evolve(session, last_activity_at=now, user_id=uuid4())
        with self.store.begin() as unit_of_work:
            unit_of_work.views.lock(view.id)
            unit_of_work.sessions.save(alive)
            unit_of_work.views.save(evolve(view, last_activity_at=now))
            unit_of_work.commit()
        assert self.subject.session(session.id) == alive
        assert self.view_of(view.id).last_activity_at == now

    def test_a_device_has_one_active_session(self) -> None:
        """A second Active session of a device is refused; after the first is closed there is room for it."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        try:
            self.put(a_session(now, anonymous_id=session.anonymous_id))
        except ActiveSessionExists:
            pass
        else:
            raise AssertionError("a device got two Active sessions")
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.lock(session.id)
            unit_of_work.sessions.close([session.close(now)])
            unit_of_work.sessions.add(a_session(now, anonymous_id=session.anonymous_id))
            unit_of_work.commit()

    def test_an_inactive_session_is_not_a_devices_own(self) -> None:
        """Only an Active session is found by its device."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session.close(now))
        with self.store.begin() as unit_of_work:
            assert unit_of_work.sessions.lock_active_of(session.anonymous_id) is None

    def test_a_view_needs_its_session(self) -> None:
        """A view of a session that does not exist is refused."""
        now = self.store.clock.read()
        try:
            self.put(a_view(a_session(now), now))
        except TransactionRefused:
            return
        raise AssertionError("a view was added to no session")

    def test_open_views_are_the_active_ones_of_the_session(self) -> None:
        """Closed views, and other sessions' views, are not among them; they come in the order of their ids."""
        now = self.store.clock.read()
        session, other = a_session(now), a_session(now)
        views = [a_view(session, now) for _ in range(5)]
        self.put(session, other, *views, a_view(session, now).close(now), a_view(other, now))
        with self.store.begin() as unit_of_work:
            assert [view.id for view in unit_of_work.views.lock_open_of(session.id)] == sorted(v.id for v in views)

    def test_closing_records_status_end_and_duration(self) -> None:
        """Durations are exact, from nothing at all to more than a year (BR-32)."""
        now = self.store.clock.read()
        lengths = [
            timedelta(0),
            timedelta(microseconds=1),
            timedelta(days=3, hours=1, milliseconds=500),
            timedelta(days=400),
        ]
        sessions = [a_session(now, lasted=length) for length in lengths]
        views = [a_view(session, now, lasted=length) for session, length in zip(sessions, lengths, strict=True)]
        self.put(*sessions, *views)
        with self.store.begin() as unit_of_work:
            for session in sessions:
                unit_of_work.sessions.lock(session.id)
                unit_of_work.views.lock_open_of(session.id)
            unit_of_work.views.close([view.close(now) for view in views])
            unit_of_work.sessions.close([session.close(now) for session in sessions])
            unit_of_work.commit()
        for session, view, length in zip(sessions, views, lengths, strict=True):
            assert self.subject.session(session.id) == session.close(now)
            assert self.subject.view(view.id) == view.close(now)
            for row in (self.session_of(session.id), self.view_of(view.id)):
                assert (row.status, row.ended_at, row.duration) == (ActivityStatus.INACTIVE, now, length)

    def test_a_closed_row_is_not_closed_again(self) -> None:
        """At most once, whoever tries: the second closing fails its transaction (INV-SES-006, INV-LV-008)."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session.close(now), view.close(now))
        for attempt in (
            lambda work: work.sessions.close([session.close(now + SECOND)]),
            lambda work: work.views.close([view.close(now + SECOND)]),
        ):
            try:
                self._commit(attempt)
            except TransactionRefused:
                continue
            raise AssertionError("a row was closed twice")
        assert self.session_of(session.id).ended_at == self.view_of(view.id).ended_at == now

    def test_an_unknown_row_cannot_be_closed(self) -> None:
        """What is not there has no event."""
        now = self.store.clock.read()
        session = a_session(now)
        for attempt in (
            lambda work: work.sessions.close([session.close(now)]),
            lambda work: work.views.close([a_view(session, now).close(now)]),
        ):
            try:
                self._commit(attempt)
            except TransactionRefused:
                continue
            raise AssertionError("a row that does not exist was closed")

    def _commit(self, change: Callable[[UnitOfWork], None]) -> None:
        with self.store.begin() as unit_of_work:
            change(unit_of_work)
            unit_of_work.commit()

    def test_saving_changes_nothing_else(self) -> None:
        """A heartbeat that was overtaken by a closing does not open the row again."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session.close(now), view.close(now))
        with self.store.begin() as unit_of_work:
            unit_of_work.views.lock(view.id)
            unit_of_work.sessions.save(evolve(session, last_activity_at=now))
            unit_of_work.views.save(evolve(view, last_activity_at=now))
            unit_of_work.commit()
        assert self.session_of(session.id) == evolve(session.close(now), last_activity_at=now)
        assert self.view_of(view.id) == evolve(view.close(now), last_activity_at=now)

    def test_a_negative_duration_is_refused(self) -> None:
        """The tables' checks hold against anybody (`chk_…_duration_nonneg`), and take the whole transaction."""
        now = self.store.clock.read()
        healthy, damaged = a_session(now), a_session(now)
        self.put(healthy, damaged)
        try:
            with self.store.begin() as unit_of_work:
                unit_of_work.sessions.lock(healthy.id)
                unit_of_work.sessions.lock(damaged.id)
                unit_of_work.sessions.close([healthy.close(now), evolve(damaged.close(now), duration=-SECOND)])
                unit_of_work.commit()
        except TransactionRefused:
            assert self.subject.session(healthy.id) == healthy
            assert self.subject.session(damaged.id) == damaged
            return
        raise AssertionError("a negative duration was recorded")

"""The chapter on row locks: who waits, who skips, who fails. A store without row locks leaves it out, and says so."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from uuid import UUID, uuid4

from attrs import evolve

from application.contracts.subject import StoreContract, a_session, a_view
from application.online.start_session import StartSession
from application.ports.store_errors import ActiveSessionExists, TransactionRefused
from domain.session import Session

MINUTE = timedelta(minutes=1)
PATIENCE_SECONDS = 20.0


class _RandomIdentifiers:
    def new(self, at: datetime) -> UUID:
        """An id."""
        return uuid4()


class RowLockingContract(StoreContract):
    """The closer skips what others hold, others wait for what it holds (D-03)."""

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits for something that another thread brings about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.005)

    def test_a_claimed_view_is_claimed_by_one(self) -> None:
        """Two workers take different views (INV-LV-008); once let go, a view can be claimed again."""
        now = self.store.clock.read()
        session = a_session(now)
        views = [a_view(session, now, idle=(20 + number) * MINUTE) for number in range(4)]
        self.put(session, *views)
        with self.store.begin() as first, self.store.begin() as second:
            mine = first.hanging_views.claim_page(now, None, 2).references
            others = second.hanging_views.claim_page(now, None, 10).references
            assert {reference.id for reference in mine} == {views[3].id, views[2].id}
            assert {reference.id for reference in others} == {views[1].id, views[0].id}
            assert not second.hanging_views.claim([views[3].id], now).rows
        with self.store.begin() as third:
            assert len(third.hanging_views.claim_page(now, None, 10).references) == 4

    def test_a_claimed_session_is_claimed_by_one(self) -> None:
        """Two workers never have the same session (INV-SES-006); the page of candidates takes no locks."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        with self.store.begin() as first, self.store.begin() as second:
            assert len(first.stale_sessions.page(now, None, 10)) == 1
            assert len(second.stale_sessions.page(now, None, 10)) == 1
            assert len(first.stale_sessions.claim([session.id], now).rows) == 1
            claim = second.stale_sessions.claim([session.id], now)
            assert not claim.rows
            assert not claim.deferred

    def test_a_session_is_deferred_while_somebody_holds_one_of_its_views(self) -> None:
        """It is left as a whole, without waiting, and its neighbours are not (INV-LV-007)."""
        now = self.store.clock.read()
        session, neighbour = a_session(now), a_session(now)
        views = [a_view(session, now), a_view(session, now), a_view(neighbour, now)]
        self.put(session, neighbour, *views)
        with self.store.begin() as other, self.store.begin() as worker:
            assert other.hanging_views.claim([views[0].id], now).rows
            claim = worker.stale_sessions.claim([session.id, neighbour.id], now)
            assert [row.id for row in claim.rows] == [neighbour.id]
            assert claim.deferred == (session.id,)

    def test_a_session_is_skipped_while_a_view_of_it_is_being_opened(self) -> None:
        """An open-view that has not committed keeps its session from being closed, though it holds no lock itself."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        with self.store.begin() as client, self.store.begin() as worker:
            client.views.add(a_view(session, now))
            client.hanging_views.count(now)  # an answer that comes after the insert: by now it has been done
            assert not worker.stale_sessions.claim([session.id], now).rows

    def test_a_command_waits_for_the_worker_and_sees_what_it_did(self) -> None:
        """A locked row is waited for, and then seen as it is by now."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session, view)
        with ThreadPoolExecutor(3) as clients:
            with self.store.begin() as worker:
                assert worker.stale_sessions.claim([session.id], now).rows
                waiting = [
                    clients.submit(self._lock_session, session.id),
                    clients.submit(self._lock_active_of, session.anonymous_id),
                    clients.submit(self._lock_view, view.id),
                ]
                self.wait_until(lambda: self.subject.waiting() == 3)
                worker.views.close([view.close(now)])
                worker.sessions.close([session.close(now)])
                worker.commit()
            by_id, by_device, view_seen = (future.result(PATIENCE_SECONDS) for future in waiting)
        assert by_id == session.close(now)
        assert by_device is None
        assert view_seen == view.close(now)

    def test_a_view_is_locked_after_its_session(self) -> None:
        """Everybody locks the session first: somebody who holds it alone is waited for (D-13)."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session, view)
        with ThreadPoolExecutor(1) as clients:
            with self.store.begin() as other:
                assert other.sessions.lock(session.id) == session
                waiting = clients.submit(self._lock_view, view.id)
                self.wait_until(lambda: self.subject.waiting() == 1)
            assert waiting.result(PATIENCE_SECONDS) == view

    def test_a_rollback_lets_the_waiting_go_on_as_if_nothing_had_been(self) -> None:
        """What a rolled back transaction changed is never seen."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        with ThreadPoolExecutor(1) as clients:
            with self.store.begin() as worker:
                assert worker.stale_sessions.claim([session.id], now).rows
                worker.sessions.close([session.close(now)])
                waiting = clients.submit(self._lock_session, session.id)
                self.wait_until(lambda: self.subject.waiting() == 1)
            assert waiting.result(PATIENCE_SECONDS) == session

    def test_a_claim_tests_again_under_its_lock(self) -> None:
        """A heartbeat, or another closing, between selection and claim wins (BR-22)."""
        now = self.store.clock.read()
        alive, closed = a_session(now), a_session(now)
        view = a_view(alive, now)
        self.put(alive, closed, view)
        with self.store.begin() as worker:
            candidates = [reference.id for reference in worker.stale_sessions.page(now, None, 10)]
            with self.store.begin() as client:
                client.views.lock(view.id)
                client.views.save(evolve(view, last_activity_at=now))
                client.sessions.save(evolve(alive, last_activity_at=now))
                client.sessions.lock(closed.id)
                client.sessions.close([closed.close(now)])
                client.commit()
            assert sorted(candidates) == sorted([alive.id, closed.id])
            assert not worker.stale_sessions.claim(candidates, now).rows
            assert not worker.hanging_views.claim([view.id], now).rows

    def test_two_new_sessions_of_a_device_meet(self) -> None:
        """The second waits for the first: it is refused if that commits, and goes on if that is rolled back."""
        now = self.store.clock.read()
        for commits in (True, False):
            first, second = a_session(now), a_session(now)
            second = evolve(second, anonymous_id=first.anonymous_id)
            with ThreadPoolExecutor(1) as clients:
                with self.store.begin() as unit_of_work:
                    unit_of_work.sessions.add(first)
                    unit_of_work.stale_sessions.count(now)  # an answer that comes after the insert
                    waiting = clients.submit(self.put, second)
                    self.wait_until(lambda: self.subject.waiting() == 1)
                    if commits:
                        unit_of_work.commit()
                assert (waiting.exception(PATIENCE_SECONDS) is None) is not commits
            if commits:
                assert isinstance(waiting.exception(), ActiveSessionExists)

    def test_a_new_session_waits_for_the_closing_of_the_old_one(self) -> None:
        """Only when whoever closes it has ended is it known whether there is room: if that commits, else refused."""
        now = self.store.clock.read()
        for commits in (True, False):
            old = a_session(now)
            self.put(old)
            with ThreadPoolExecutor(1) as clients:
                with self.store.begin() as unit_of_work:
                    unit_of_work.sessions.lock(old.id)
                    unit_of_work.sessions.close([old.close(now)])
                    unit_of_work.stale_sessions.count(now)  # an answer that comes after the change
                    waiting = clients.submit(self.put, a_session(now, anonymous_id=old.anonymous_id))
                    self.wait_until(lambda: self.subject.waiting() == 1)
                    if commits:
                        unit_of_work.commit()
                assert (waiting.exception(PATIENCE_SECONDS) is None) is commits

    def test_a_new_session_does_not_wait_for_a_session_that_is_only_locked(self) -> None:
        """A lock changes nothing: the device has its Active session, whoever holds it."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session)
        with self.store.begin() as other:
            other.sessions.lock(session.id)
            try:
                self.put(a_session(now, anonymous_id=session.anonymous_id))
            except ActiveSessionExists:
                return
        raise AssertionError("a device got two Active sessions")

    def test_two_devices_calls_at_once_end_in_the_same_session(self) -> None:
        """start-session twice at the same moment: one begins the session, the other finds it (specification §6)."""
        anonymous_id = uuid4()
        start = StartSession(store=self.store, identifiers=_RandomIdentifiers())
        first = a_session(self.store.clock.read(), idle=timedelta(0))
        with ThreadPoolExecutor(2) as clients:
            with self.store.begin() as unit_of_work:
                unit_of_work.sessions.add(evolve(first, anonymous_id=anonymous_id))
                unit_of_work.stale_sessions.count(first.created_at)  # an answer that comes after the insert
                waiting = [clients.submit(lambda: start(anonymous_id=anonymous_id)) for _ in range(2)]
                self.wait_until(lambda: self.subject.waiting() == 2)
                unit_of_work.commit()
            assert [future.result(PATIENCE_SECONDS).id for future in waiting] == [first.id] * 2

    def test_a_deadlock_costs_one_of_the_two(self) -> None:
        """Two commands that lock in opposite order: one is refused, the other goes on."""
        now = self.store.clock.read()
        sessions = (a_session(now), a_session(now))
        self.put(*sessions)
        barrier = Barrier(2)
        with ThreadPoolExecutor(2) as clients:
            futures = [
                clients.submit(self._lock_both, barrier, *order) for order in (sessions, tuple(reversed(sessions)))
            ]
            errors = [future.exception(PATIENCE_SECONDS) for future in futures]
        assert sum(isinstance(error, TransactionRefused) for error in errors) == 1
        assert sum(error is None for error in errors) == 1

    def _lock_both(self, barrier: Barrier, first: Session, second: Session) -> None:
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.lock(first.id)
            barrier.wait(PATIENCE_SECONDS)
            unit_of_work.sessions.lock(second.id)
            unit_of_work.commit()

    def _lock_session(self, session_id: UUID) -> object:
        with self.store.begin() as unit_of_work:
            return unit_of_work.sessions.lock(session_id)

    def _lock_active_of(self, anonymous_id: UUID) -> object:
        with self.store.begin() as unit_of_work:
            return unit_of_work.sessions.lock_active_of(anonymous_id)

    def _lock_view(self, view_id: UUID) -> object:
        with self.store.begin() as unit_of_work:
            return unit_of_work.views.lock(view_id)

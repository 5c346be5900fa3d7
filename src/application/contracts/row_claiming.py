"""The contract of the HangingViews and StaleSessions ports, as far as one transaction sees it."""

from datetime import timedelta
from uuid import UUID, uuid4

from application.contracts.subject import StoreContract, a_session, a_view
from application.ports.row_claiming import RowReference

MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)


class RowClaimingContract(StoreContract):
    """What is stale is claimed, oldest first, and nothing else."""

    def test_nothing_stale_is_an_empty_claim(self) -> None:
        """An empty selection is no error (specification §11)."""
        cutoff = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            page = unit_of_work.hanging_views.claim_page(cutoff, None, 10)
            assert not page.references
            assert not page.claim.rows
            assert not unit_of_work.stale_sessions.page(cutoff, None, 10)
            assert not unit_of_work.hanging_views.claim([uuid4()], cutoff).rows
            assert not unit_of_work.stale_sessions.claim([uuid4()], cutoff).rows
            assert unit_of_work.hanging_views.newest(cutoff) is None
            assert unit_of_work.stale_sessions.newest(cutoff) is None
            assert unit_of_work.hanging_views.count(cutoff) == unit_of_work.stale_sessions.count(cutoff) == 0

    def test_exactly_at_the_cutoff_is_not_stale(self) -> None:
        """The comparison is strict, to the microsecond, for sessions and views alike (BR-59)."""
        cutoff = self.store.clock.read()
        sessions = [a_session(cutoff, idle=idle) for idle in (MICROSECOND, timedelta(0), -MICROSECOND)]
        views = [a_view(sessions[1], cutoff, idle=idle) for idle in (MICROSECOND, timedelta(0), -MICROSECOND)]
        self.put(*sessions, *views)
        with self.store.begin() as unit_of_work:
            assert [row.id for row in unit_of_work.stale_sessions.page(cutoff, None, 10)] == [sessions[0].id]
            ids = [session.id for session in sessions]
            assert [row.id for row in unit_of_work.stale_sessions.claim(ids, cutoff).rows] == [sessions[0].id]
            page = unit_of_work.hanging_views.claim_page(cutoff, None, 10)
            assert [row.id for row in page.claim.rows] == [views[0].id]
            ids = [view.id for view in views]
            assert [row.id for row in unit_of_work.hanging_views.claim(ids, cutoff).rows] == [views[0].id]
            assert unit_of_work.stale_sessions.count(cutoff) == unit_of_work.hanging_views.count(cutoff) == 1

    def test_what_is_inactive_is_never_claimed(self) -> None:
        """The status is the progress (specification §5): what has been closed is not found again."""
        now = self.store.clock.read()
        session = a_session(now)
        view = a_view(session, now)
        self.put(session.close(now), view.close(now))
        with self.store.begin() as unit_of_work:
            assert not unit_of_work.hanging_views.claim_page(now, None, 10).references
            assert not unit_of_work.hanging_views.claim([view.id], now).rows
            assert not unit_of_work.stale_sessions.page(now, None, 10)
            assert not unit_of_work.stale_sessions.claim([session.id], now).rows

    def test_pages_come_oldest_first_and_end(self) -> None:
        """Paging by last activity and id meets each row once, rows of the same moment included (D-04)."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(20 + number // 3) * MINUTE) for number in range(10)]
        views = [a_view(sessions[0], now, idle=(30 + number // 3) * MINUTE) for number in range(10)]
        self.put(*sessions, *views)
        expected_sessions = [s.id for s in sorted(sessions, key=lambda s: (s.last_activity_at, s.id))]
        expected_views = [v.id for v in sorted(views, key=lambda v: (v.last_activity_at, v.id))]
        with self.store.begin() as unit_of_work:
            after: RowReference | None = None
            seen: list[UUID] = []
            while page := unit_of_work.stale_sessions.page(now, after, 3):
                seen.extend(reference.id for reference in page)
                after = page[-1]
            assert seen == expected_sessions
            assert unit_of_work.stale_sessions.newest(now) == expected_sessions[-1]
            after, seen = None, []
            while references := unit_of_work.hanging_views.claim_page(now, after, 3).references:
                seen.extend(reference.id for reference in references)
                after = references[-1]
            assert seen == expected_views
            assert unit_of_work.hanging_views.newest(now) == expected_views[-1]

    def test_a_page_holds_no_more_than_its_limit(self) -> None:
        """A page is full when its selection returned as many rows as were asked for (D-14)."""
        now = self.store.clock.read()
        session = a_session(now)
        self.put(session, *(a_view(session, now) for _ in range(7)))
        with self.store.begin() as unit_of_work:
            page = unit_of_work.hanging_views.claim_page(now, None, 5)
            assert len(page.references) == len(page.claim.rows) == 5
            assert len(unit_of_work.hanging_views.claim_page(now, page.references[-1], 5).references) == 2

    def test_a_claimed_view_is_whole_and_knows_the_current_user(self) -> None:
        """The user is the session's at closing time, linked after the view was opened (specification §2)."""
        now = self.store.clock.read()
        linked, guest = a_session(now, user_id=uuid4()), a_session(now)
        views = [a_view(linked, now, filter_snapshot='{"rooms": [1, 2]}'), a_view(guest, now)]
        self.put(linked, guest, *views)
        with self.store.begin() as unit_of_work:
            claim = unit_of_work.hanging_views.claim([view.id for view in views], now)
        assert {row.view.id: (row.view, row.user_id) for row in claim.rows} == {
            views[0].id: (views[0], linked.user_id),
            views[1].id: (views[1], None),
        }

    def test_a_view_is_claimed_whatever_its_session_is(self) -> None:
        """Phase A looks at the view's own last activity, so it also sweeps up a view of a closed session."""
        now = self.store.clock.read()
        fresh, closed = a_session(now, idle=timedelta(0)), a_session(now)
        views = [a_view(fresh, now), a_view(closed, now)]
        self.put(fresh, closed.close(now), *views)
        with self.store.begin() as unit_of_work:
            claim = unit_of_work.hanging_views.claim_page(now - MINUTE, None, 10).claim
        assert {row.id for row in claim.rows} == {view.id for view in views}

    def test_a_claimed_session_brings_all_its_open_views(self) -> None:
        """Fresh views close with their session as well as stale ones; closed ones stay as they are (INV-LV-007)."""
        now = self.store.clock.read()
        session, bare = a_session(now), a_session(now)
        views = [a_view(session, now, idle=idle) for idle in (timedelta(0), 20 * MINUTE)]
        self.put(session, bare, *views, a_view(session, now).close(now))
        with self.store.begin() as unit_of_work:
            claim = unit_of_work.stale_sessions.claim([session.id, bare.id], now - MINUTE)
        claimed = {row.session.id: row for row in claim.rows}
        assert claimed[session.id].session == session
        assert sorted(view.id for view in claimed[session.id].open_views) == sorted(view.id for view in views)
        assert set(claimed[session.id].open_views) == set(views)
        assert claimed[bare.id].open_views == ()
        assert not claim.deferred

"""Where the store in memory and PostgreSQL do not do the same, and why that is left as it is.

Each difference is held by a test that fails when it is gone: then it is taken out of this list, and the machine's rule
that keeps away from it goes, too.

| | in memory | PostgreSQL |
|---|---|---|
| a deadlock | fails whoever closes the circle, at once | fails whoever looks first, after `deadlock_timeout` |
| a claim of a session that is alive by now | leaves it alone | answers nothing, and keeps it and its views locked |
| a view changed a second time in a transaction | is changed | its session is looked for again, and waited for |
| what is leased | single events | slices of the outbox, with all events in them |
| who records an event that is being leased | waits for the lease's commit | does not wait |
| an id of an event given again while it is leased | is refused after the lease's commit | is refused at once |
| where a publisher reads on | at the first event, always | after the last one read; at the end, at the first |
| a lease that ends more than a day after the new one | is kept | is taken over: the clock was wrong |
| which delivered events are removed first | those with the smallest ids | those delivered first |

Of two things neither store says anything, so the machine keeps away from them: which of several that wait for the same
row goes on first, and what becomes of an id of a session or a view that is given twice. What the ports leave open, the
order of rows that are claimed by their ids, say, is not compared.
"""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve
from psycopg.conninfo import make_conninfo

from adapters.postgres.deliveries import SLICES
from adapters.postgres.store import PostgresActivityStore
from application.contracts.subject import a_session, a_view, put
from application.ports.deliveries import Held, Lease
from application.ports.store_errors import TransactionRefused
from application.ports.unit_of_work import UnitOfWork
from tests.agreement import calls
from tests.agreement.hand import DEADLOCK, Action, Answered, Failed, Hand, Outcome, Waits
from tests.agreement.sides import NOW, InMemoryPlace, PostgresPlace, Side
from tests.agreement.stage import MINUTE, a_message

EVENTS = [UUID(int=1 << 12 | 1), UUID(int=2 << 12 | 2)]
"""Each of a slice of its own."""


class Scene(Side):
    """One of the stores, in which a few things are done one after the other."""

    def outcome(self, name: str, action: Action) -> Outcome:
        """What has become of it once everybody waits or has ended."""
        self.do(name, action)
        self.settle()
        return self.hands[name].outcome()

    def commit(self, name: str) -> None:
        """Ends somebody's unit of work."""
        self.hands[name].commit()
        self.settle()

    def append(self, *event_ids: UUID) -> None:
        """Commits events."""
        with self.place.store.begin() as work:
            work.outbox.append([a_message(event_id) for event_id in event_ids])
            work.commit()


Both = tuple[Scene, Scene]


@pytest.fixture
def both(postgres: PostgresPlace) -> Iterator[Both]:
    """The store in memory, and PostgreSQL."""
    scenes = Scene(InMemoryPlace()), Scene(postgres)
    yield scenes
    for scene in scenes:
        scene.leave()


def a_lease(number: int = 1, *, minute: int = 0) -> Lease:
    begins = NOW + minute * MINUTE
    return Lease(id=UUID(int=number << 8), begins=begins, ends=begins + MINUTE)


def leasing(lease: Lease, limit: int = 4) -> Action:
    """Which events it is for."""
    take = calls.lease(lease, limit=limit, held=Held())

    def call(work: object, hand: Hand) -> list[UUID]:
        taken = take(work, hand)
        assert isinstance(taken, dict)
        return sorted(taken)

    return call


def locking(session_id: UUID) -> Action:
    def call(work: UnitOfWork, hand: Hand) -> object:
        return work.sessions.lock(session_id)

    return call


def delivering(event_id: UUID, at: timedelta = timedelta(0)) -> Action:
    return calls.record(lambda work: work.deliveries.record_delivered([event_id], NOW + at))


def test_who_pays_for_a_deadlock(both: Both, database: str) -> None:
    """Here the first to wait is the one that looks first."""
    rows = a_session(NOW), a_session(NOW)
    in_memory, postgres = both
    impatient, patient = (
        PostgresActivityStore(make_conninfo(database, options=f"-c deadlock_timeout={timeout}"))
        for timeout in ("1500ms", "1min")
    )
    outcomes = []
    for scene, stores in ((in_memory, (in_memory.place.store,) * 2), (postgres, (impatient, patient))):
        put(scene.place.store, *rows)
        for name, row, store in zip(("Ann", "Ben"), rows, stores, strict=True):
            scene.do(name, locking(row.id), store.begin)
            scene.settle()
        for name, row in zip(("Ann", "Ben"), reversed(rows), strict=True):
            scene.outcome(name, locking(row.id))
        outcomes.append([name for name in ("Ann", "Ben") if scene.hands[name].outcome() == DEADLOCK])
        scene.leave()
    impatient.close()
    patient.close()
    assert outcomes == [["Ben"], ["Ann"]]


def test_a_session_that_is_alive_is_kept_locked(both: Both) -> None:
    """Who waits for it goes on when the worker's transaction has ended; neither of the two closes it."""
    session = a_session(NOW, idle=timedelta(0))
    for scene, outcome in zip(both, (Answered(session), Waits()), strict=True):
        put(scene.place.store, session)
        claimed = scene.outcome("Ann", calls.claim_sessions([session.id]))
        assert claimed == Answered(calls.Claimed(frozenset(), frozenset()))
        assert scene.outcome("Ben", locking(session.id)) == outcome


def test_a_view_changed_twice_needs_its_session(both: Both) -> None:
    """Neither a worker nor a command changes a view twice in a transaction."""
    session = a_session(NOW)
    view = a_view(session, NOW)
    saving = calls.change(lambda work: work.views.save(evolve(view, last_activity_at=NOW)))
    for scene, outcome in zip(both, (Answered(None), Waits()), strict=True):
        put(scene.place.store, session, view)
        scene.outcome("Ann", calls.claim_views([view.id]))
        assert scene.outcome("Ann", saving) == Answered(None)
        assert scene.outcome("Ben", locking(session.id)) == Answered(session)
        assert scene.outcome("Ann", saving) == outcome


def test_a_lease_is_of_a_slice(both: Both) -> None:
    """A second publisher finds what is left of other slices only."""
    same_slice = [UUID(int=number * SLICES) for number in (1, 2)]
    for scene, left in zip(both, (same_slice[1:], []), strict=True):
        scene.append(*same_slice)
        assert scene.outcome("Pia", leasing(a_lease(1), limit=1)) == Answered(same_slice[:1])
        scene.commit("Pia")
        assert scene.outcome("Quin", leasing(a_lease(2))) == Answered(left)


def test_a_lease_locks_no_event(both: Both) -> None:
    """What is recorded is the event's row; a publisher commits its lease before it sends."""
    for scene, waits in zip(both, (True, False), strict=True):
        scene.append(EVENTS[0])
        scene.outcome("Pia", leasing(a_lease()))
        assert (scene.outcome("Quin", delivering(EVENTS[0])) == Waits()) is waits


def test_an_id_given_again_is_refused_for_a_row_not_for_a_lock(both: Both) -> None:
    """A unique index waits for those who have changed a row, not for those who have only locked it."""
    appending = calls.change(lambda work: work.outbox.append([a_message(EVENTS[0])]))
    refused = Failed("TransactionRefused", "23505")
    for scene, outcome in zip(both, (Waits(), refused), strict=True):
        scene.append(EVENTS[0])
        scene.outcome("Pia", leasing(a_lease()))
        assert scene.outcome("Ann", appending) == outcome


def test_a_publisher_reads_on(both: Both) -> None:
    """What was given back comes up again after what it has not read yet."""
    for scene, second in zip(both, (EVENTS[0], EVENTS[1]), strict=True):
        scene.append(*EVENTS)
        assert scene.outcome("Pia", leasing(a_lease(1), limit=1)) == Answered(EVENTS[:1])
        scene.outcome("Pia", calls.record(lambda work: work.deliveries.release(a_lease(1))))
        assert scene.outcome("Pia", leasing(a_lease(2), limit=1)) == Answered([second])


def test_a_lease_of_a_wrong_clock_is_taken_over(both: Both) -> None:
    """No publisher means to keep a slice for days."""
    days_ahead = evolve(a_lease(1), ends=NOW + timedelta(days=3))
    for scene, taken in zip(both, ([], EVENTS[:1]), strict=True):
        scene.append(EVENTS[0])
        scene.outcome("Pia", leasing(days_ahead))
        scene.commit("Pia")
        assert scene.outcome("Quin", leasing(a_lease(2))) == Answered(taken)


def test_what_is_removed_first(both: Both) -> None:
    """Retention comes to all of them in the end."""
    later, earlier = EVENTS
    removing = calls.record(lambda work: work.upkeep.remove_published(NOW + 2 * MINUTE, 1))
    for scene, left in zip(both, (earlier, later), strict=True):
        scene.append(*EVENTS)
        scene.outcome("Pia", delivering(later, MINUTE))
        scene.outcome("Pia", delivering(earlier))
        scene.outcome("Pia", removing)
        scene.commit("Pia")
        assert [message.id for message in scene.place.messages()] == [left]


def test_neither_commits_what_it_has_refused(both: Both) -> None:
    """No difference: after a StoreError the transaction can only be left, whoever holds on to it."""
    session, unknown = a_session(NOW), a_session(NOW)
    closing = calls.change(lambda work: work.sessions.close([unknown.close(NOW)]))

    def hold_on(work: UnitOfWork, hand: Hand) -> None:
        work.sessions.add(session)
        with pytest.raises(TransactionRefused):
            closing(work, hand)
        with pytest.raises((TransactionRefused, AssertionError)):
            work.commit()

    for scene in both:
        assert scene.outcome("Ann", hold_on) == Answered(None)
        scene.leave()
        assert scene.place.session(session.id) is None

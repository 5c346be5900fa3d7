"""The stepping itself: one actor at a time, the same history every time."""

from datetime import timedelta
from uuid import UUID

import pytest

from application.close_idle_activity import CloserRun
from application.online.link_session import LinkedSession, LinkOutcome
from application.ports.store_errors import TransactionRefused
from domain.activity import ActivityStatus
from tests.simulation.misfortunes import Interruption, a_crash, a_lost_connection
from tests.simulation.participant import Participant
from tests.simulation.simulation import Simulation

DEVICE, USER, OTHER_USER = UUID(int=1), UUID(int=2), UUID(int=3)
SILENCE = timedelta(minutes=13)


def a_stale_session() -> tuple[Simulation, UUID]:
    """A device with an opened view that has gone silent."""
    simulation = Simulation()
    simulation.finish(simulation.heartbeat(DEVICE))
    [session_id] = simulation.present.sessions
    simulation.finish(simulation.open_view(session_id))
    simulation.pass_time(SILENCE)
    return simulation, session_id


def a_worker_that_holds(simulation: Simulation, session_id: UUID) -> Participant:
    """A worker that stands right after it has locked the session."""
    worker = simulation.run()
    while not simulation.store.is_held(session_id):
        simulation.step(worker)
    return worker


def test_who_meets_a_lock_waits_until_it_is_released() -> None:
    """A heartbeat waits for the worker, then finds no Active session and starts a new one (INV-SES-003)."""
    simulation, session_id = a_stale_session()
    worker = a_worker_that_holds(simulation, session_id)
    heartbeat = simulation.heartbeat(DEVICE)
    simulation.finish(heartbeat)
    assert heartbeat.actor.is_waiting
    simulation.finish(worker)
    simulation.finish_all()
    assert simulation.present.sessions[session_id].status is ActivityStatus.INACTIVE
    assert simulation.present.active_of(DEVICE) == heartbeat.actor.answer


def test_nobody_waits_for_ever() -> None:
    """A command gives up after some turns, as by a lock timeout, and has changed nothing."""
    simulation, session_id = a_stale_session()
    a_worker_that_holds(simulation, session_id)
    heartbeat = simulation.heartbeat(DEVICE)
    while not heartbeat.actor.is_over:
        simulation.step(heartbeat)
    assert isinstance(heartbeat.actor.error, TransactionRefused)
    assert not heartbeat.changes
    simulation.abandon()


@pytest.mark.parametrize("interruption", [a_crash, a_lost_connection])
def test_an_interrupted_transaction_lets_its_locks_go(interruption: Interruption) -> None:
    """A process that dies, or loses its connection, changes nothing; the next worker closes what it held."""
    simulation, session_id = a_stale_session()
    worker = a_worker_that_holds(simulation, session_id)
    simulation.step(worker, interruption)
    assert not simulation.store.is_held(session_id)
    assert simulation.present.sessions[session_id].status is ActivityStatus.ACTIVE
    simulation.settle()
    assert simulation.present.sessions[session_id].status is ActivityStatus.INACTIVE


def test_two_workers_close_a_session_once() -> None:
    """Both find it, one gets it, the other passes it over silently (D-03)."""
    simulation, session_id = a_stale_session()
    first = a_worker_that_holds(simulation, session_id)
    second = simulation.run()
    simulation.finish(second)
    simulation.finish(first)
    answers = [one.actor.answer for one in (first, second)]
    assert [one.report.closed_sessions for one in answers if isinstance(one, CloserRun)] == [1, 0]


def test_many_steps_at_once_are_the_same_steps() -> None:
    """Whoever goes on at once does the same as one who is stepped, and is looked at after each step."""
    histories = []
    for steps_at_once in (1, 7, 1_000):
        simulation, _ = a_stale_session()
        worker = simulation.run()
        while not worker.actor.is_over:
            simulation.advance(worker, steps_at_once)
        histories.append(str(simulation.history))
    assert histories[0] == histories[1] == histories[2]


def test_a_switch_races_with_the_worker() -> None:
    """The worker is first: the other user finds no session; the user is first: the worker finds it closed (§3)."""
    simulation, session_id = a_stale_session()
    simulation.finish(simulation.link(DEVICE, USER))
    worker = simulation.run()
    switch = simulation.link(DEVICE, OTHER_USER)
    simulation.finish(switch)
    assert isinstance(switch.actor.answer, LinkedSession)
    assert switch.actor.answer.outcome is LinkOutcome.SWITCHED
    simulation.finish(worker)
    assert not any(change.closed_rows for change in worker.changes)
    assert simulation.present.sessions[session_id].status is ActivityStatus.INACTIVE


def test_the_same_steps_are_the_same_history() -> None:
    """Ids, times and order: nothing depends on threads, the host's clock or chance."""
    histories = []
    for _ in range(2):
        simulation, _ = a_stale_session()
        simulation.link(DEVICE, USER)
        simulation.run()
        simulation.heartbeat(DEVICE)
        simulation.finish_all()
        histories.append((simulation.states, str(simulation.history)))
    assert histories[0] == histories[1]

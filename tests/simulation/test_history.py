"""A history can be read."""

from datetime import timedelta
from itertools import islice
from typing import Final

from tests.simulation.misfortunes import a_crash, a_lost_connection
from tests.simulation.simulation import DEVICES, Simulation

EXPECTED: Final = """\
   21         0:13:00  worker 1          commit                               committed: closed [view #2], events [#4]
   22         0:13:00  worker 1          hears that it is committed
   23         0:13:00  worker 1          clock.read()
   24         0:13:00  worker 1          stale_sessions.page(500)             [#1]
   25         0:13:00  worker 1          commit                               committed
   26         0:13:00  worker 1          hears that it is committed
   27         0:13:00  worker 1          stale_sessions.claim([#1])
   28         0:13:00  worker 1          stale_sessions.claim([#1])           claimed 1 [session #1 with 0 views]
   29         0:13:00  heartbeat 2       begins for D0
   30         0:13:00  heartbeat 2       clock.read()
   31         0:13:00  heartbeat 2       sessions.lock_active_of(D0)          waits for a lock
   32         0:13:00  worker 1          views.close([])                      crashes
   33         0:13:00  heartbeat 2       sessions.lock_active_of(D0)          session #1
   34         0:13:00  heartbeat 2       sessions.save(session #1)            done
   35         0:13:00  heartbeat 2       commit                               committed: changed [session #1]
   36         0:13:00  heartbeat 2       hears that it is committed           connection: the connection was lost; ends
"""


def test_a_history_tells_who_did_what_and_what_came_of_it() -> None:
    """One line a step: its number, the time, who, which call, and the outcome; waits and misfortunes too."""
    simulation = Simulation()
    simulation.finish(simulation.heartbeat(DEVICES[0]))
    [session_id] = simulation.present.sessions
    simulation.finish(simulation.open_view(session_id))
    simulation.pass_time(timedelta(minutes=13))
    worker = simulation.run()
    simulation.begin_transactions(worker, 3)
    simulation.advance(worker, 2)
    heartbeat = simulation.heartbeat(DEVICES[0])
    simulation.finish(heartbeat)
    simulation.step(worker, a_crash)
    for interruption in (None, None, None, a_lost_connection):
        simulation.step(heartbeat, interruption)
    assert "\n".join(islice(simulation.history.lines(), 20, None)) + "\n" == EXPECTED

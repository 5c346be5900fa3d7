"""The clock of a simulated host is a clock."""

from adapters.in_memory.clock import SettableClock
from application.contracts.clock import ClockContract
from tests.simulation.hosts import HOSTS, HostClock
from tests.simulation.turns import Turns


class TestHostClock(ClockContract):
    clock = HostClock(Turns(), SettableClock(), HOSTS[1])

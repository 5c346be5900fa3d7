"""What a simulation is made of."""

from attrs import frozen

from adapters.in_memory.unit_of_work import InMemoryOutboxUnitOfWork, InMemoryUnitOfWork
from tests.simulation.hosts import ClockKind, HostClock
from tests.simulation.stepping_sender import SenderKind, SteppingSender
from tests.simulation.stepping_store import OutboxRoles, Roles


@frozen(kw_only=True)
class System:
    """The parts that may be replaced by wrong ones."""

    roles: Roles = InMemoryUnitOfWork
    outbox_roles: OutboxRoles = InMemoryOutboxUnitOfWork
    sender: SenderKind = SteppingSender
    workers_clock: ClockKind = HostClock

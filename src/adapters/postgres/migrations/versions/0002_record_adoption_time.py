"""Record when the schema was created or adopted, for `activity-closer audit`.

A database that was at version 0001 gets the time of this migration: whether rows that ended before it have their events
is not judged any more. Nor is that of rows which the service itself closed before it was adopted, in whatever way.
"""

from adapters.postgres.migrations.adoption_time import adoption_time_steps
from adapters.postgres.migrations.steps import StepRunner

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"


def upgrade(runner: StepRunner) -> None:
    """Record the time, once."""
    runner.run(adoption_time_steps(runner.catalog))

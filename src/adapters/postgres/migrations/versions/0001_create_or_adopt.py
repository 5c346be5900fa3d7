"""Create the tables of specification §6, or adopt those that the service has already."""

from adapters.postgres.migrations.adoption import steps
from adapters.postgres.migrations.steps import StepRunner

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None


def upgrade(runner: StepRunner) -> None:
    """Add what is missing."""
    runner.run(steps(runner.catalog))

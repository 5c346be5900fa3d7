"""The wish of the operator that work should end."""

from typing import Protocol


class Cancellation(Protocol):
    """Looked at between records, so that a run ends in order (specification §5.4)."""

    def requested(self) -> bool:
        """Whether to end; once true it stays true."""


class Waiting(Cancellation, Protocol):
    """A cancellation that also cuts waits short."""

    def wait(self, seconds: float) -> bool:
        """Waits for so long, or until the end is asked for; answers whether it was."""

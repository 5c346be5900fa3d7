"""SIGTERM and SIGINT as a wish that work looks at, and a wait that they cut short."""

import os
import select
import signal
from contextlib import suppress
from types import FrameType


class StopSignal:
    """Set once by a signal, or by `request`; from then on it stays.

    The handler sets a flag and writes a byte, nothing else: one that raised would tear a database call in the middle,
    and an Event's lock could be held by the very code that it interrupts.
    """

    def __init__(self) -> None:
        self._requested = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def listen(self) -> None:
        """Takes SIGTERM and SIGINT over, for the rest of the process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def request(self) -> None:
        """Asks for the end, as a signal would."""
        self._requested = True
        with suppress(BlockingIOError):  # so many requests that the pipe is full: any one of them is enough
            os.write(self._writer, b"!")

    def requested(self) -> bool:
        """Whether to end."""
        return self._requested

    def wait(self, seconds: float) -> bool:
        """Waits for so long, or until the end is asked for; answers whether it was."""
        select.select([self._reader], [], [], max(seconds, 0.0))
        return self._requested

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.request()

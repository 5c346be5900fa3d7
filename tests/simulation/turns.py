"""Taking turns: actors with a thread each, of which exactly one runs at any time.

An actor runs until it pauses; whoever steps it waits for that. So a history is a list of steps, the same every time.
"""

from collections.abc import Callable
from threading import Lock, Thread
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""Far longer than a step takes; a test that hangs ends with an error."""


class Abandoned(BaseException):
    """The actor will never have another turn; its transaction is rolled back, as that of a process that died."""


class Actor:
    """Something that is done in steps."""

    def __init__(self, turns: "Turns", action: Callable[[], object]) -> None:
        self._turns = turns
        self._action = action
        self._turn, self._back = Lock(), Lock()
        self._turn.acquire()
        self._back.acquire()
        self._interruption: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self.is_over = False
        self.is_waiting = False
        """Whether it paused because somebody else holds a lock that it needs."""
        self.begun = self.committed = 0
        """Transactions so far."""
        self.answer: object = None
        self.error: BaseException | None = None
        """What came of it, once it is over."""

    def step(self, interruption: BaseException | None = None) -> None:
        """Lets it run to its next pause, or to its end. The interruption is raised where it stands."""
        assert not self.is_over, "who is over has no turn"
        self._interruption = interruption
        self._turns.running = self
        if self._thread.ident is None:
            self._thread.start()
        self._turn.release()
        assert self._back.acquire(timeout=PATIENCE_SECONDS), "the actor neither paused nor ended"
        self._turns.running = None

    def abandon(self) -> None:
        """Ends it where it stands."""
        if not self.is_over:
            self.step(Abandoned())

    def pause(self, *, waiting: bool) -> None:
        """Called by its own thread: stops until its next turn."""
        self.is_waiting = waiting
        self._back.release()
        self._take_turn()

    def _take_turn(self) -> None:
        self._turn.acquire()
        self.is_waiting = False
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            raise interruption

    def _run(self) -> None:
        try:
            self._take_turn()
            self.answer = self._action()
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._back.release()


class Turns:
    """Whose turn it is."""

    def __init__(self) -> None:
        self.running: Actor | None = None

    def pause(self, *, waiting: bool = False) -> None:
        """The running actor stops here; who works outside of any actor goes on."""
        if self.running is not None:
            self.running.pause(waiting=waiting)

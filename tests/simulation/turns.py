"""Taking turns: actors with a thread each, of which exactly one runs at any time.

An actor runs until it pauses; whoever steps it waits for that. So a history is a list of steps, the same every time.
"""

from _thread import allocate_lock, start_new_thread  # a Thread takes two more switches to start
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeVar

from attrs import frozen

PATIENCE_SECONDS: Final = 60.0
"""Far longer than a step takes; a test that hangs ends with an error."""

Answer = TypeVar("Answer")


class Abandoned(BaseException):
    """The actor will never have another turn; its transaction is rolled back, as that of a process that died."""


class Place(Enum):
    """What an actor is about to do."""

    BEGINNING = auto()
    CLOCK = auto()
    """Ask the store for the time."""
    STATEMENT = auto()
    LOCK = auto()
    """Take a lock that somebody else holds."""
    COMMIT = auto()
    ANSWER = auto()
    """Hear that its commit went through."""
    BROKER = auto()
    """Send, wait for what was sent, or hear of it."""


@frozen
class Call:
    """A call of a port."""

    role: str
    method: str
    arguments: tuple[object, ...] = ()


class Actor:
    """Something that is done in steps."""

    def __init__(self, turns: "Turns", action: Callable[[], object]) -> None:
        self._turns = turns
        self._action = action
        self._turn, self._back = allocate_lock(), allocate_lock()
        self._turn.acquire()
        self._back.acquire()
        self._interruption: BaseException | None = None
        self._trouble: BaseException | None = None
        self._goes_on: Callable[[], bool] = lambda: False
        self._has_begun = False
        self.is_over = False
        self.place = Place.BEGINNING
        self.begun = self.committed = 0
        """Transactions so far."""
        self.call: Call | None = None
        """What it called last."""
        self.outcomes: list[object] = []
        """What came of its calls in its latest step."""
        self.answer: object = None
        self.error: BaseException | None = None
        """What came of it, once it is over."""

    @property
    def is_waiting(self) -> bool:
        """Whether it paused because somebody else holds a lock that it needs."""
        return self.place is Place.LOCK and not self.is_over

    def step(self, interruption: BaseException | None = None, *, goes_on: Callable[[], bool] = lambda: False) -> None:
        """Lets it run to its next pause, or to its end. The interruption is raised where it stands.

        At each pause `goes_on` is asked whether it runs on at once; what that raises is raised here.
        """
        assert not self.is_over, "who is over has no turn"
        self._interruption = interruption
        self._goes_on = goes_on
        self.outcomes = []
        self._turns.running = self
        self._turn.release()
        if not self._has_begun:
            self._has_begun = True
            start_new_thread(self._run, ())
        assert self._back.acquire(timeout=PATIENCE_SECONDS), "the actor neither paused nor ended"
        self._turns.running = None
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def abandon(self) -> None:
        """Ends it where it stands."""
        if not self.is_over:
            self.step(Abandoned())

    def pause(self, place: Place) -> None:
        """Called by its own thread: stops until its next turn."""
        self.place = place
        if not self._is_to_go_on():
            self._back.release()
            self._take_turn()

    def _is_to_go_on(self) -> bool:
        """Asked in the actor's own thread: a turn that is taken over and over costs no switch."""
        try:
            goes_on = self._goes_on()
        except BaseException as trouble:
            self._trouble = trouble
            return False
        if goes_on:
            self.outcomes = []
        return goes_on

    def _take_turn(self) -> None:
        self._turn.acquire()
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

    def pause(self, place: Place) -> None:
        """The running actor stops here; who works outside of any actor goes on."""
        if self.running is not None:
            self.running.pause(place)

    def call(self, call: Call, action: Callable[[], Answer]) -> Answer:
        """Does what a call of a port does, and remembers what came of it."""
        actor = self.running
        if actor is None:
            return action()
        actor.call = call
        try:
            answer = action()
        except Exception as error:
            actor.outcomes.append(error)
            raise
        actor.outcomes.append(answer)
        return answer

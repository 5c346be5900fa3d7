"""The same steps in both stores, compared one by one."""

import re
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from attrs import define, field, frozen
from hypothesis import note

from application.ports.activity_store import ActivityStore
from tests.agreement.calls import Row, committed
from tests.agreement.hand import DEADLOCK, Action, Answered, Failed, Outcome, Waits
from tests.agreement.sides import CLIENTS, PUBLISHERS, Place, Side

Learning = Callable[[Any], None]


class Disagreement(AssertionError):
    """The stores do not do the same."""


@define
class Standing:
    """What somebody has in hand in their unit of work."""

    held: dict[UUID, Row] = field(factory=dict)
    """Rows that nobody else can lock, as they are for them."""
    touched: set[Hashable] = field(factory=set)
    """All that others may have to wait for, and perhaps more."""
    changed: set[UUID] = field(factory=set)
    """Views that they have changed or added."""
    is_open: bool = False
    leases: bool = False
    records: bool = False


@frozen
class _Call:
    told: str
    touches: frozenset[Hashable]
    learn: Learning
    ends: bool


class Together:
    """Two stores side by side, and what has happened to them."""

    def __init__(self, in_memory: Place, postgres: Place) -> None:
        self.in_memory = Side(in_memory)
        self.postgres = Side(postgres)
        self.sessions: dict[UUID, UUID] = {}
        """The devices of all sessions that anybody has added."""
        self.views: dict[UUID, UUID] = {}
        """The sessions of all views that anybody has added."""
        self.standing = {name: Standing() for name in (*CLIENTS, *PUBLISHERS)}
        self.is_over = False
        """Whether the stores have gone on differently where they may."""
        self._calls: dict[str, _Call] = {}

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.in_memory, self.postgres

    def may(self, name: str, touches: Iterable[Hashable] = ()) -> bool:
        """Whether somebody is free, and need not queue behind others who wait: who goes on first is not agreed."""
        if self.is_over or name in self._calls:
            return False
        others = [other for other in self.standing if other != name]
        contested = {one for other in others for one in self.standing[other].touched}
        awaited = {one for call in self._calls.values() for one in call.touches}
        own = self.standing[name].held.keys()
        return not (set(touches) - own) & contested & awaited

    def do(
        self,
        name: str,
        told: str,
        action: Action,
        *,
        touches: Iterable[Hashable] = (),
        learn: Learning = lambda _: None,
    ) -> None:
        """Somebody does something in their unit of work."""
        touches = frozenset(touches)
        if not self.may(name, touches):
            return
        self.standing[name].is_open = True
        for side in self.sides:
            side.do(name, action)
        self._called(name, _Call(told, touches, learn, ends=False))

    def run(
        self,
        name: str,
        told: str,
        command: Callable[[ActivityStore], object],
        *,
        touches: Iterable[Hashable],
        learn: Learning,
    ) -> None:
        """Somebody runs a command, which has a unit of work of its own."""
        touches = frozenset(touches)
        if self.standing[name].is_open or not self.may(name, touches):
            return
        for side in self.sides:
            side.hands[name].run(partial(command, side.commands))
        self._called(name, _Call(told, touches, learn, ends=True))

    def end(self, name: str, *, commits: bool) -> None:
        """Somebody ends their unit of work."""
        if not self.standing[name].is_open or not self.may(name):
            return
        for side in self.sides:
            hand = side.hands[name]
            hand.commit() if commits else hand.roll_back()
        self._called(name, _Call("commits" if commits else "rolls back", frozenset(), lambda _: None, ends=True))

    def leave(self) -> None:
        """Ends everything."""
        for side in self.sides:
            side.leave()

    def _called(self, name: str, call: _Call) -> None:
        self._calls[name] = call
        # What a call that waits has got by then may be waited for, too.
        self.standing[name].touched |= call.touches
        for side in self.sides:
            side.settle()
        outcomes = {
            one: (self.in_memory.hands[one].outcome(), self.postgres.hands[one].outcome()) for one in self._calls
        }
        for one, (mine, _) in outcomes.items():
            note(f"{one} {self._calls[one].told}: {_in_words(mine)}")
        if self._is_deadlock_paid_by_different_hands(outcomes):
            self.is_over = True
            return
        for one, (mine, theirs) in outcomes.items():
            if mine != theirs:
                told = self._calls[one].told
                raise Disagreement(f"{one} {told}:\n in memory  {_in_words(mine)}\n PostgreSQL {_in_words(theirs)}")
        ended = [self._ended(one, mine) for one, (mine, _) in outcomes.items() if mine != Waits()]
        if any(ended):
            self._compare_committed()

    def _ended(self, name: str, outcome: Outcome) -> bool:
        """Notes what a call that has ended came to; answers whether the unit of work has ended with it."""
        call = self._calls.pop(name)
        if isinstance(outcome, Failed) or call.ends:
            self.standing[name] = Standing()
        if isinstance(outcome, Answered):
            call.learn(outcome.value)
        return isinstance(outcome, Failed) or call.ends

    def _is_deadlock_paid_by_different_hands(self, outcomes: dict[str, tuple[Outcome, Outcome]]) -> bool:
        mine, theirs = ({name for name, both in outcomes.items() if both[side] == DEADLOCK} for side in (0, 1))
        return mine != theirs and bool(mine) and bool(theirs)

    def _compare_committed(self) -> None:
        mine, theirs = (committed(side.place, self.sessions, self.views) for side in self.sides)
        if mine != theirs:
            raise Disagreement(f"committed:\n in memory  {_in_short(mine)}\n PostgreSQL {_in_short(theirs)}")


def _in_words(outcome: Outcome) -> str:
    match outcome:
        case Answered(value):
            return f"gets {_in_short(value)}"
        case Failed(error, kind):
            return f"fails with {error} ({kind})"
        case Waits():
            return "waits"


def _in_short(value: object) -> str:
    """Ids by their last digits, as the machine has made them, and times without what is the same in all."""
    text = re.sub(r"UUID\('[0-]*([0-9a-f]+(?:-0*[0-9a-f]+)*)'\)", r"\1", str(value))
    text = re.sub(r", tzinfo=datetime\.timezone\.utc\)", ")", text)
    return text.replace("datetime.", "")

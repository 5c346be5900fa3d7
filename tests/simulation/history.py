"""A history that can be read: who did what, in order, and what came of it; one line a step.

It is kept as it happened and put into words only when somebody reads it. Ids are counted in a simulation, so `#12` is
the twelfth that was given out, whatever it was for; devices and users are named by their numbers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import singledispatch
from uuid import UUID

from attrs import frozen

from application.close_idle_activity import CloserRun
from application.online.link_session import LinkedSession
from application.ports.deliveries import PendingMessage, Refused
from application.ports.outbox import OutboxMessage
from application.ports.row_claiming import Claim, RowReference, ViewPage
from application.ports.store_errors import StoreError
from application.publish_outbox import PublishRound
from domain.closing import HangingView, OpenSession
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.simulation.audit import Change
from tests.simulation.turns import Abandoned, Call

COUNTED = (1 << 62) - 1
"""The part of an id that a simulation counts."""
QUESTIONS = ("lock", "find", "newest")
"""Calls that may answer with nothing; others answer nothing at all."""


@frozen
class End:
    """An actor has come to its end."""

    answer: object
    error: BaseException | None


@frozen
class Line:
    """A step."""

    at: datetime
    who: str
    what: Call | str
    outcomes: tuple[object, ...]


class History:
    """All steps so far."""

    def __init__(self, began_at: datetime) -> None:
        self._began_at = began_at
        self._lines: list[Line] = []

    def tell(self, at: datetime, who: str, what: Call | str, *outcomes: object) -> None:
        """Adds a step."""
        self._lines.append(Line(at, who, what, outcomes))

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self) -> Iterator[str]:
        """The history in words."""
        for number, line in enumerate(self._lines, 1):
            elapsed = line.at - self._began_at
            outcome = "; ".join(filter(None, (_outcome(line.what, one) for one in line.outcomes)))
            what = line.what if isinstance(line.what, str) else _call(line.what)
            yield f"{number:5} {elapsed!s:>15}  {line.who:17} {what:36} {outcome}".rstrip()

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _call(call: Call) -> str:
    arguments = ", ".join(filter(None, map(words, call.arguments)))
    return f"{call.role}.{call.method}({arguments})"


def _outcome(what: Call | str, outcome: object) -> str:
    if outcome is None and isinstance(what, Call):
        return "nothing" if what.method.startswith(QUESTIONS) else "done"
    return words(outcome)


@singledispatch
def words(_value: object) -> str:
    """What is worth telling of a value."""
    return ""


@words.register
def _(value: str) -> str:
    return value


@words.register
def _(value: int) -> str:
    return str(value)


@words.register
def _(value: bool) -> str:
    return "yes" if value else "no"


@words.register
def _(value: UUID) -> str:
    return f"#{value.int & COUNTED}" if value.version == 7 else f"{value.int:X}"


@words.register(Session | PropertyObjectView)
def _(value: Session | PropertyObjectView) -> str:
    return f"{'session' if isinstance(value, Session) else 'view'} {words(value.id)}"


@words.register(OpenSession)
def _(value: OpenSession) -> str:
    return f"{words(value.session)} with {len(value.open_views)} views"


@words.register
def _(value: HangingView) -> str:
    return words(value.view)


@words.register
def _(value: RowReference) -> str:
    return words(value.id)


@words.register
def _(value: PendingMessage) -> str:
    return words(value.message)


@words.register
def _(value: Refused) -> str:
    return words(value.message_id)


@words.register
def _(value: OutboxMessage) -> str:
    return f"event {words(value.id)}"


@words.register(list | tuple)
def _(value: Sequence[object]) -> str:
    return f"[{' '.join(map(words, value))}]"


@words.register(Claim)
def _(value: Claim[object]) -> str:
    claimed = f"claimed {len(value.rows)} {words(value.rows)}" if value.rows else "claimed nothing"
    return f"{claimed}, deferred {words(value.deferred)}" if value.deferred else claimed


@words.register
def _(value: ViewPage) -> str:
    return words(value.claim)


@words.register
def _(value: Change) -> str:
    parts: dict[str, Sequence[object]] = {
        "closed": value.closed_rows,
        "changed": value.touched_rows,
        "new": value.new_rows,
        "events": [one.id for one in value.new_messages],
        "delivered": sorted(value.after.published - value.before.published),
        "dead": sorted(value.after.dead - value.before.dead),
    }
    told = ", ".join(f"{name} {words(rows)}" for name, rows in parts.items() if rows)
    return f"committed: {told}" if told else "committed"


@words.register
def _(value: BaseException) -> str:
    return "crashes" if isinstance(value, Abandoned) else str(value)


@words.register
def _(value: End) -> str:
    if isinstance(value.error, Abandoned):
        return ""
    # What a store failed on has been told as the outcome of a call.
    return "ends" if isinstance(value.error, StoreError) else f"ends: {words(value.error or value.answer)}"


@words.register
def _(value: LinkedSession) -> str:
    return f"{value.outcome} {words(value.session)}"


@words.register
def _(value: CloserRun) -> str:
    report = value.report
    return (
        f"{report.outcome}, closed {report.closed_sessions} sessions, {report.closed_views} views, "
        f"deferred {report.deferred_sessions}, failed {report.failed_items}"
    )


@words.register
def _(value: PublishRound) -> str:
    report = value.report
    return (
        f"{report.outcome}, delivered {report.delivered}, refused {report.refused}, dead {report.dead}, "
        f"unconfirmed {report.unconfirmed}"
    )

"""The parts that actors play, and what is to be expected of each: the closer's run and the visitors' commands (§3)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol
from uuid import UUID

from attrs import define, field, frozen

from adapters.in_memory.observation import RecordingObservation
from application.close_idle_activity import CloserRun, CloserUseCase
from application.online.errors import SessionNotFound
from application.online.link_session import LinkedSession, LinkOutcome, LinkSession
from application.online.open_view import OpenView
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.options import CloserOptions
from application.ports.activity_store import ActivityStore
from application.ports.identifiers import Identifiers
from application.ports.outbox import OutboxMessage
from application.ports.run_observation import ItemFailed, JobStarted
from application.ports.store_errors import StoreError
from domain.activity import is_stale
from domain.property_object_view import PropertyObjectView
from domain.session import Session
from tests.simulation.audit import Change, Snapshot, is_active, require, user_in


@frozen(kw_only=True)
class Ending:
    """How an actor ended, and what it had committed by then."""

    answer: object
    error: BaseException | None
    changes: Sequence[Change]
    past: Sequence[Snapshot]
    """All states since it began, the present one last."""
    undisturbed: bool
    """Nothing failed on its way that was made to fail."""

    @property
    def present(self) -> Snapshot:
        """The state at its end."""
        return self.past[-1]

    def places_of(self, row_id: UUID) -> int:
        """How many places in the order of runs the row had meanwhile (D-04)."""
        rows = [state.sessions.get(row_id) or state.views.get(row_id) for state in self.past]
        return len({row.last_activity_at for row in rows if row is not None})


class Part(Protocol):
    """What an actor does."""

    title: ClassVar[str]
    """What a history calls whoever plays it."""

    @property
    def about(self) -> UUID | None:
        """The device, session or view that it is about, if it is about one."""

    def act(self) -> object:
        """Does it."""

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        """Raises Violation for a commit that this part may not make.

        `users_seen` tells the users that a session had at any time within the transaction.
        """

    def check_ending(self, ending: Ending) -> None:
        """Raises Violation for an outcome that the history does not allow."""


@define(kw_only=True)
class Run:
    """A run of the closer."""

    title: ClassVar = "worker"
    store: ActivityStore
    identifiers: Identifiers
    options: CloserOptions
    refused_kinds: frozenset[str]
    """The errors that rows and transactions may be refused with."""
    observation: RecordingObservation = field(factory=RecordingObservation)
    is_cancelled: bool = False
    about: None = None

    def act(self) -> CloserRun:
        return CloserUseCase(
            store=self.store,
            identifiers=self.identifiers,
            observation=self.observation,
            cancellation=self,
            options=self.options,
        ).run()

    def requested(self) -> bool:
        """The wish of the operator."""
        return self.is_cancelled

    @property
    def started(self) -> JobStarted:
        """The beginning of the run."""
        [started] = self.observation.of(JobStarted)
        return started

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(not change.new_rows, "the closer adds no rows")
        require(not change.touched_rows, "INV-LV-004: the closer changes nothing else")
        # The run's own word for it, and, whatever that is, the store's time.
        cutoff = min(self.started.cutoff, change.at + change.corrections - self.options.inactivity_threshold)
        closed_sessions = {session.id for session in change.closed_sessions}
        for old, new in change.moved:
            due = is_stale(old, cutoff) or (isinstance(new, PropertyObjectView) and new.session_id in closed_sessions)
            require(due, "§1: only what is silent since before the cutoff is closed, or whose session is")
        for message in change.new_messages:
            require(message.correlation_id == self.started.job_run_id, "D-11: the run's id is the correlation id")
            _check_user(message, change, users_seen)

    def check_ending(self, ending: Ending) -> None:
        failures = self.observation.of(ItemFailed)
        # A command that took very long moves a row forward to a place that is still before the cutoff.
        times = Counter(failure.id for failure in failures)
        require(all(times[one] <= ending.places_of(one) for one in times), "D-04: no row is returned to")
        require({one.kind for one in failures} <= self.refused_kinds, "D-03: what was claimed can be closed")
        if isinstance(ending.error, StoreError):
            require(not self.observation.occurrences, "§5: a run that has begun ends with a report")
            return
        if ending.error is not None:
            raise ending.error
        assert isinstance(ending.answer, CloserRun)
        report = ending.answer.report
        closed = (
            sum(len(change.closed_sessions) for change in ending.changes),
            sum(len(change.closed_views) for change in ending.changes),
        )
        reported = (report.closed_sessions, report.closed_views)
        # A commit whose answer was lost has closed rows that the run knows nothing of.
        told = reported == closed or (
            not ending.undisturbed and all(one <= other for one, other in zip(reported, closed, strict=True))
        )
        require(told, "§5: the report counts what was committed")


def _check_user(message: OutboxMessage, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
    """The user is the session's at closing time; the session of a hanging view is not locked meanwhile (§2)."""
    session_id = message.aggregate_id
    if view := change.before.views.get(message.aggregate_id):
        session_id = view.session_id
    session = change.after.sessions[session_id]
    expected = users_seen(session_id) if is_active(session) else {session.user_id}
    require(user_in(message) in expected, "§2: the event names the session's current user")


@frozen(kw_only=True)
class Heartbeat:
    """start-session and session-heartbeat, which are the same to the store."""

    title: ClassVar = "heartbeat"
    command: StartSession
    anonymous_id: UUID

    @property
    def about(self) -> UUID:
        return self.anonymous_id

    def act(self) -> Session:
        return self.command(anonymous_id=self.anonymous_id)

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(not change.new_messages, "a heartbeat closes nothing")
        changed = [*change.new_rows, *change.touched_rows]
        own = all(isinstance(row, Session) and row.anonymous_id == self.anonymous_id for row in changed)
        require(own and len(changed) <= 1, "a heartbeat is for one session")

    def check_ending(self, ending: Ending) -> None:
        if ending.error is not None:
            raise ending.error
        [change] = ending.changes
        assert isinstance(ending.answer, Session)
        require(change.after.active_of(self.anonymous_id) == ending.answer, "§3: the answer is the Active session")
        previous = change.before.active_of(self.anonymous_id)
        goes_on = previous is None or previous.id == ending.answer.id
        require(goes_on, "INV-SES-003: a new session only where none is Active")


@frozen(kw_only=True)
class ViewOpening:
    """open-view."""

    title: ClassVar = "open-view"
    command: OpenView
    session_id: UUID
    property_object_id: UUID

    @property
    def about(self) -> UUID:
        return self.session_id

    def act(self) -> PropertyObjectView:
        return self.command(
            session_id=self.session_id, property_object_id=self.property_object_id, view_source="catalog"
        )

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(not change.new_messages and not change.touched_sessions, "open-view changes no session")
        [view] = change.new_rows
        under = isinstance(view, PropertyObjectView) and view.session_id == self.session_id
        require(under and is_active(change.before.sessions[self.session_id]), "§3: open-view needs an Active session")

    def check_ending(self, ending: Ending) -> None:
        if isinstance(ending.error, SessionNotFound):
            require(not is_active(ending.present.sessions[self.session_id]), "§3: refused only if not Active")
        elif ending.error is not None:
            raise ending.error
        else:
            [change] = ending.changes
            assert isinstance(ending.answer, PropertyObjectView)
            require(change.after.views[ending.answer.id] == ending.answer, "§3: the answer is the new view")


@frozen(kw_only=True)
class ViewBeat:
    """view-heartbeat."""

    title: ClassVar = "view-heartbeat"
    command: ViewHeartbeat
    view_id: UUID

    @property
    def about(self) -> UUID:
        return self.view_id

    def act(self) -> bool:
        return self.command(view_id=self.view_id)

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        require(not change.new_rows and not change.new_messages, "a view's heartbeat adds nothing")
        require(not change.touched_sessions, "a view's heartbeat is not its session's")
        require({view.id for view in change.touched_views} <= {self.view_id}, "a heartbeat is for one view")

    def check_ending(self, ending: Ending) -> None:
        if ending.error is not None:
            raise ending.error
        if ending.answer:
            [change] = ending.changes
            require(is_active(change.after.views[self.view_id]), "INV-LV-003: accepted only if Active")
        else:
            require(not is_active(ending.present.views[self.view_id]), "INV-LV-003: refused only if not Active")


@frozen(kw_only=True)
class Linking:
    """link-session."""

    title: ClassVar = "link-session"
    command: LinkSession
    anonymous_id: UUID
    user_id: UUID

    @property
    def about(self) -> UUID:
        return self.anonymous_id

    def act(self) -> LinkedSession:
        return self.command(anonymous_id=self.anonymous_id, user_id=self.user_id)

    def check_change(self, change: Change, users_seen: Callable[[UUID], set[UUID | None]]) -> None:
        for message in change.new_messages:
            _check_user(message, change, users_seen)
        session = change.after.active_of(self.anonymous_id)
        require(session is not None and session.user_id == self.user_id, "§3: the Active session is the user's")
        before = change.before.active_of(self.anonymous_id)
        closed = [one.id for one in change.closed_sessions]
        require(closed == ([before.id] if before and before.user_id else []), "§3: only another user's is switched")
        due = {view.session_id for view in change.closed_views} <= set(closed)
        require(due, "§3: a switch closes the device's session and its views")

    def check_ending(self, ending: Ending) -> None:
        if isinstance(ending.error, SessionNotFound):
            # While it waited for one session to be closed, the next may have begun; the statement cannot see that.
            found = all(snapshot.active_of(self.anonymous_id) for snapshot in ending.past)
            ids = {session.id for one in ending.past if (session := one.active_of(self.anonymous_id))}
            require(not found or len(ids) > 1, "§3: USER_ACTIVITY_SESSION_NOT_FOUND only if there was none")
        elif ending.error is not None:
            raise ending.error
        else:
            self._check_answer(ending)

    def _check_answer(self, ending: Ending) -> None:
        assert isinstance(ending.answer, LinkedSession)
        after = ending.changes[0].after if ending.changes else ending.present
        require(after.active_of(self.anonymous_id) == ending.answer.session, "§3: the answer is the Active session")
        same = ending.answer.outcome is LinkOutcome.SAME_USER
        require(same is not bool(ending.changes), "§3: linking the same user changes nothing")
        closed = [session for change in ending.changes for session in change.closed_sessions]
        switched = ending.answer.outcome is LinkOutcome.SWITCHED
        require(switched is bool(closed), "§3: Switched closes the session of the other user")

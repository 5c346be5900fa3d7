"""The demo's parts: time that passes faster, and visitors who do everything that is worth seeing."""

from datetime import timedelta

from adapters.in_memory.clock import SettableClock
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.observation import NoObservation
from adapters.in_memory.store import InMemoryActivityStore
from application.close_idle_activity import CloserUseCase
from application.options import CloserOptions
from bootstrap.demo.evidence import Closing
from bootstrap.demo.faster_time import FasterClock, FasterWaiting
from bootstrap.demo.picture import Programme
from bootstrap.demo.visitors import Audience, Deed
from domain.activity import ActivityStatus

THRESHOLD = timedelta(minutes=12)
MINUTE_SECONDS = 60.0


class HourWithACloser:
    """Waiting that moves the clock instead, for an hour, with a run of the closer at each minute."""

    def __init__(self, store: InMemoryActivityStore, closer: CloserUseCase) -> None:
        self._store = store
        self._closer = closer
        self._next_run = 0.0

    def requested(self) -> bool:
        """Whether the hour is over."""
        return self._store.clock.monotonic() > 60 * MINUTE_SECONDS

    def wait(self, seconds: float) -> bool:
        """Lets so much time pass at once."""
        self._store.clock.move(timedelta(seconds=max(seconds, 0.0)))
        if self._store.clock.monotonic() >= self._next_run:
            self._next_run += MINUTE_SECONDS
            self._closer.run()
        return self.requested()


class Never:
    """Nobody asks for the end; remembers how long it should have waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def requested(self) -> bool:
        """No."""
        return False

    def wait(self, seconds: float) -> bool:
        """Waits not at all."""
        self.waited.append(seconds)
        return False


def played_hour(seed: int) -> tuple[InMemoryActivityStore, Audience]:
    """An hour of visitors and the closer, in memory."""
    store = InMemoryActivityStore()
    closer = CloserUseCase(
        store=store,
        identifiers=CountingIdentifiers(),
        observation=NoObservation(),
        cancellation=Never(),
        options=CloserOptions(inactivity_threshold=THRESHOLD),
    )
    audience = Audience(store, CountingIdentifiers(), seed=seed)
    audience.leave_backlog()
    audience.play(HourWithACloser(store, closer))
    return store, audience


def test_the_clock_is_faster_and_starts_where_the_other_one_stands() -> None:
    """Both readings and the monotonic one pass at the same pace (D-01)."""
    clock = SettableClock()
    start = clock.now()
    faster = FasterClock(clock=clock, start=start, speed=60)
    assert faster.read() == faster.now() == start
    before = faster.monotonic()

    clock.move(timedelta(seconds=2))

    assert faster.read() == faster.now() == start + timedelta(minutes=2)
    assert faster.monotonic() - before == 120


def test_waits_are_over_sooner() -> None:
    """A minute of the demo is a second of waiting."""
    never = Never()
    FasterWaiting(waiting=never, speed=60).wait(60)
    assert never.waited == [1]


def test_visitors_do_everything_that_is_worth_seeing() -> None:
    """Within an hour of the demo each kind of deed happens, and each way in which a row is closed."""
    store, audience = played_hour(seed=1)

    assert {deed for deed in Deed if audience.tally[deed] == 0} == set()
    closed_views = [view for view in store.views() if view.status is ActivityStatus.INACTIVE]
    sessions = {session.id: session for session in store.sessions()}
    assert any(view.ended_at == sessions[view.session_id].ended_at for view in closed_views)
    assert any(sessions[view.session_id].status is ActivityStatus.ACTIVE for view in closed_views)
    assert len(store.messages()) == len(closed_views) + sum(
        session.status is ActivityStatus.INACTIVE for session in sessions.values()
    )


def test_the_first_run_has_something_to_close() -> None:
    """Nobody has to wait for the threshold: some visitors left before the demo began."""
    store = InMemoryActivityStore()
    Audience(store, CountingIdentifiers(), seed=1).leave_backlog()
    cutoff = store.clock.now() - THRESHOLD
    assert any(session.last_activity_at < cutoff for session in store.sessions())
    assert all(session.created_at <= session.last_activity_at for session in store.sessions())


def test_the_same_seed_gives_the_same_visitors() -> None:
    """What somebody saw can be shown again."""
    (first, first_audience), (second, second_audience) = played_hour(seed=2), played_hour(seed=2)
    assert first_audience.tally == second_audience.tally
    assert first.views() == second.views()
    assert played_hour(seed=3)[0].views() != first.views()


def test_the_screen_says_why_a_row_was_closed() -> None:
    """A row that was not silent for long was closed for another reason than its own silence."""
    programme = Programme(
        inactivity_threshold=THRESHOLD,
        polling_interval=timedelta(minutes=1),
        speed=60,
        dsn="host=here",
        bootstrap_servers="here:9092",
        process_id=1,
    )
    store, _ = played_hour(seed=1)
    row = store.sessions()[0]

    def reason(kind: str, lag: timedelta) -> str:
        return programme.reason(
            Closing(
                kind=kind,
                id=row.id,
                ended_at=row.created_at,
                duration=timedelta(0),
                lag=lag,
                event_type="SessionEndedKafkaEvent",
            )
        )

    assert reason("session", timedelta(minutes=12, seconds=1)) == reason("view", timedelta(minutes=13)) == "silent"
    assert reason("view", timedelta(seconds=5)) == "with session"
    assert reason("session", timedelta(0)) == "another user"

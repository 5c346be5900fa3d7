"""What becomes of events that have arrived, while the store does not serve or does not want to record it."""

from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from uuid import UUID

import pytest

from application.ports.publish_observation import PublishOutcome, RecordingFailed, RemovalFailed
from application.ports.store_errors import (
    ConnectingCancelled,
    LockTimeout,
    OutdatedPlan,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)
from application.publish_outbox import LEASE_MARGIN
from tests.application.publishing_scene import Hook, PublishingScene


def failing(step: str, error: StoreError, times: Collection[int]) -> Hook:
    """Fails a step at its given occurrences, counted from 1."""
    seen = Counter[str]()

    def hook(at: str, _ids: Collection[UUID]) -> None:
        seen[at] += 1
        if at == step and seen[at] in times:
            raise error

    return hook


def refusing(is_refused: Callable[[UUID], bool], steps: Collection[str] = ("record_delivered",)) -> Hook:
    """Fails each transaction that would record one of some events, as a trigger does."""

    def hook(at: str, ids: Collection[UUID]) -> None:
        if at in steps and any(map(is_refused, ids)):
            raise TransactionRefused(kind="P0001", reason="a trigger refuses this event")

    return hook


LOST = StoreUnavailable(kind="connection", reason="the connection was lost")


class TestStoreAway:
    """A store that does not serve ends the round; what has arrived meanwhile is not forgotten."""

    @pytest.mark.parametrize(("step", "time"), [("begin", 2), ("lease", 1), ("commit", 2)])
    def test_nothing_is_sent_that_was_not_leased(self, step: str, time: int) -> None:
        """A lease that failed leads to no sending; the next round does all of it."""
        scene = PublishingScene()
        scene.append(30)
        scene.hook = failing(step, LOST, {time})  # the first transaction removes delivered events
        publisher = scene.publisher(batch_size=10)
        ended = publisher.run()
        assert (ended.report.outcome, ended.report.delivered, ended.error) == (PublishOutcome.FAILED, 0, LOST)
        assert not scene.broker.arrived
        assert publisher.run().report.delivered == 30

    def test_an_end_that_is_asked_for_while_it_connects_is_no_failure(self) -> None:
        """BR-55: a stop during the start with the database down ends in order, and nothing has failed."""
        scene = PublishingScene()
        cancelled = ConnectingCancelled(kind="cancelled", reason="connecting was given up")
        scene.hook = failing("begin", cancelled, {1})
        ended = scene.publisher().run()
        assert (ended.report.outcome, ended.error) == (PublishOutcome.STOPPED, None)

    @pytest.mark.parametrize("step", ["record_delivered", "release"])
    def test_what_has_arrived_is_recorded_when_the_store_is_back(self, step: str) -> None:
        """As long as the publisher lives an outage of the store costs no duplicate, and nothing new is sent."""
        scene = PublishingScene()
        appended = scene.append(50)
        scene.hook = failing(step, LOST, range(1, 9))  # each round tries twice
        publisher = scene.publisher(batch_size=10)
        for _ in range(4):
            assert publisher.run().report.outcome is PublishOutcome.FAILED
            assert len(scene.broker.arrived) == 20, "the two batches that were under way"
            scene.clock.move(LEASE_MARGIN * 3)
        assert publisher.run().report.outcome is PublishOutcome.COMPLETED
        assert scene.arrivals() == Counter(one.id for one in appended)
        assert scene.status().pending == 0

    def test_a_publisher_that_dies_leaves_its_events_to_others(self) -> None:
        """Sent and unrecorded events are sent again by somebody else, once the lease is over: at least once."""
        scene = PublishingScene()
        [message] = scene.append(1)
        scene.hook = failing("record_delivered", LOST, {1, 2})
        assert scene.publisher().run().report.outcome is PublishOutcome.FAILED
        successor = scene.publisher()
        assert successor.run().report.delivered == 0
        scene.clock.move(timedelta(minutes=2))
        assert successor.run().report.delivered == 1
        assert scene.broker.arrived == [message, message]

    def test_an_outdated_plan_is_tried_again_in_place(self) -> None:
        """A migration beside the publisher costs nothing (D-06)."""
        scene = PublishingScene()
        appended = scene.append(30)
        scene.hook = failing("record_delivered", OutdatedPlan(kind="0A000", reason="cached plan"), {1, 3})
        assert scene.publisher(batch_size=10).run().report.outcome is PublishOutcome.COMPLETED
        assert scene.arrivals() == Counter(one.id for one in appended)

    def test_an_outdated_plan_at_a_lease_is_tried_again_in_place(self) -> None:
        """The round goes on as if nothing had been (D-06)."""
        scene = PublishingScene()
        scene.append(30)
        scene.hook = failing("lease", OutdatedPlan(kind="0A000", reason="cached plan"), {1, 3})
        ended = scene.publisher(batch_size=10).run()
        assert (ended.report.outcome, ended.report.delivered) == (PublishOutcome.COMPLETED, 30)

    def test_what_was_under_way_when_a_lease_failed_is_recorded(self) -> None:
        """One lost connection costs no outcome: in its own round still, whatever arrived is recorded."""
        scene = PublishingScene()
        scene.append(50)
        scene.hook = failing("lease", LOST, {3})
        ended = scene.publisher(batch_size=10).run()
        assert (ended.report.outcome, ended.error) == (PublishOutcome.FAILED, LOST)
        assert (len(scene.broker.arrived), scene.status().pending) == (20, 30)

    def test_a_locked_table_is_not_divided(self) -> None:
        """A lock that is not to be had for any of them says nothing of the events; the next round records them."""
        scene = PublishingScene()
        scene.append(20)
        locked = LockTimeout(kind="55P03", reason="the table was locked")
        scene.hook = failing("record_delivered", locked, range(1, 7))
        publisher = scene.publisher(batch_size=20)
        assert publisher.run().error is locked
        assert not scene.observation.of(RecordingFailed)
        assert publisher.run().report.outcome is PublishOutcome.COMPLETED
        assert len(scene.broker.arrived) == 20

    def test_a_locked_row_stops_nobody(self) -> None:
        """Somebody holds the row of one event: the others are recorded, and events go on."""
        scene = PublishingScene()
        appended = scene.append(50)
        held = appended[20].id

        def hook(at: str, ids: Collection[UUID]) -> None:
            if at == "record_delivered" and held in ids:
                raise LockTimeout(kind="55P03", reason="the row was locked")

        scene.hook = hook
        publisher = scene.publisher(batch_size=10)
        assert publisher.run().report.outcome is PublishOutcome.COMPLETED
        assert scene.status().pending == 1
        assert len(scene.broker.arrived) == 50
        scene.hook = lambda _step, _ids: None
        scene.pass_time(seconds=2)
        publisher.run()
        assert scene.status().pending == 0

    def test_a_removal_that_is_refused_stops_nothing(self) -> None:
        """Retention is not worth a delivery: it is told, and tried again a minute later (BR-47)."""
        scene = PublishingScene()
        scene.append(20)
        refused = TransactionRefused(kind="P0001", reason="a trigger refuses the removal")
        scene.removal_error = refused
        publisher = scene.publisher()
        for _ in range(30):
            assert publisher.run().report.outcome is PublishOutcome.COMPLETED
            scene.pass_time(seconds=1)
        assert len(scene.broker.arrived) == 20
        assert [one.kind for one in scene.observation.of(RemovalFailed)] == ["P0001"]


class TestRefusedRecording:
    """An event whose outcome cannot be recorded costs only itself (BR-19)."""

    def test_the_others_are_recorded(self) -> None:
        """Of 100 events 99 are done in the first round; the bad one arrives again in the second, with the same id."""
        scene = PublishingScene()
        appended = scene.append(100)
        bad = appended[37].id
        scene.hook = refusing(lambda one: one == bad)
        publisher = scene.publisher()
        assert publisher.run().report.outcome is PublishOutcome.COMPLETED
        assert scene.status().pending == 1
        [failure] = scene.observation.of(RecordingFailed)
        assert (failure.id, failure.kind) == (bad, "P0001")
        scene.hook = lambda _step, _ids: None
        scene.pass_time(seconds=1)
        publisher.run()
        assert scene.arrivals() == Counter({one.id: 2 if one.id == bad else 1 for one in appended})
        assert scene.status().pending == 0

    def test_it_is_not_sent_again_and_again(self) -> None:
        """As long as it cannot be recorded it arrives once a minute and no oftener, and the others flow."""
        scene = PublishingScene()
        [bad] = scene.append(1)
        scene.hook = refusing(lambda one: one == bad.id)
        publisher = scene.publisher()
        for _ in range(600):
            scene.append(1)
            publisher.run()
            assert scene.status().pending == 1
            scene.pass_time(seconds=1)
        assert scene.arrivals()[bad.id] < 20
        scene.hook = lambda _step, _ids: None
        scene.pass_time(minutes=1)
        publisher.run()
        assert scene.status().pending == 0

    def test_a_refusal_that_cannot_be_recorded_is_as_good(self) -> None:
        """A refused event whose refusal is refused in turn stays due; its neighbours are dealt with."""
        scene = PublishingScene()
        appended = scene.append(10)
        bad = appended[3].id
        scene.broker.refuses = lambda message: message.id == bad
        scene.hook = refusing(lambda one: one == bad, ["record_refused"])
        scene.publisher().run()
        assert (scene.status().pending, scene.status().waiting) == (1, 0)

    def test_a_store_that_records_nothing_is_given_up(self) -> None:
        """When so many are refused the events are not to blame: the round fails, and nothing more is sent in it."""
        scene = PublishingScene()
        appended = scene.append(1_000)
        scene.hook = refusing(lambda _: True)
        publisher = scene.publisher(batch_size=200)
        ended = publisher.run()
        assert ended.report.outcome is PublishOutcome.FAILED
        assert ended.error is not None
        assert len(scene.broker.arrived) == 400
        assert ended.report.unrecorded == 400
        assert len(scene.observation.of(RecordingFailed)) == 20, "a flood helps nobody"
        scene.hook = lambda _step, _ids: None
        scene.pass_time(seconds=1)
        publisher.run()
        assert set(scene.arrivals()) == {one.id for one in appended}
        assert max(scene.arrivals().values()) == 2
        assert scene.status().pending == 0

    def test_many_bad_events_take_no_good_one_along(self) -> None:
        """However many cannot be recorded, those among them that can be are."""
        scene = PublishingScene()
        appended = scene.append(400)
        good = {one.id for one in appended[::10]}
        scene.hook = refusing(lambda one: one not in good)
        publisher = scene.publisher(batch_size=100)
        for _ in range(10):
            publisher.run()
            scene.pass_time(seconds=30)
        assert scene.status().pending == 400 - len(good)

    def test_a_stop_is_heard_while_it_is_looked_for_them(self) -> None:
        """Once the end is asked for what is not found yet counts as unrecorded: it will be sent again."""
        scene = PublishingScene()
        scene.append(64)
        scene.hook = refusing(lambda _: True)
        asked = Counter[str]()

        class AfterTheFirstRefusals:
            def requested(self) -> bool:
                asked["looks"] += 1
                return asked["looks"] > 6

        ended = scene.publisher(cancellation=AfterTheFirstRefusals()).run()
        assert ended.report.unrecorded == 64
        assert scene.status().pending == 64

"""Delivering the outbox at least once, whatever the broker does."""

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from itertools import pairwise
from threading import Thread
from uuid import UUID

import pytest

from application.ports.publish_observation import (
    BrokerAvailable,
    BrokerUnavailable,
    EventRefused,
    EventsDelivered,
    PublishedRemoved,
    PublishOutcome,
    TopicAvailable,
    TopicHeld,
)
from tests.application.publishing_scene import PublishingScene


class AfterSome:
    """The end is asked for once so many looks have been taken."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def requested(self) -> bool:
        self.looks -= 1
        return self.looks < 0


class TestDelivery:
    """What is due arrives, and is recorded."""

    def test_an_empty_outbox_is_a_success(self) -> None:
        """A round that finds nothing completes and sends nothing."""
        scene = PublishingScene()
        report = scene.publisher().run().report
        assert (report.outcome, report.delivered) == (PublishOutcome.COMPLETED, 0)
        assert not scene.broker.arrived

    @pytest.mark.parametrize("batch_size", [1, 7, 1_000])
    def test_everything_arrives_once(self, batch_size: int) -> None:
        """Without a fault each event arrives exactly once, as it stands in the outbox; a second round has nothing."""
        scene = PublishingScene()
        appended = scene.append(50)
        publisher = scene.publisher(batch_size=batch_size)
        assert publisher.run().report.delivered == 50
        assert publisher.run().report.delivered == 0
        assert scene.arrivals() == Counter(one.id for one in appended)
        assert {one.id: one for one in scene.broker.arrived} == {one.id: one for one in appended}
        assert scene.status().pending == 0

    def test_no_more_than_two_batches_are_in_memory(self) -> None:
        """However much is due, what is under way is bounded."""
        scene = PublishingScene()
        scene.append(500)
        scene.publisher(batch_size=10).run()
        assert scene.sent_at_once_max == 20
        assert len(scene.arrivals()) == 500

    def test_several_publishers_send_each_event_once(self) -> None:
        """Publishers side by side share the outbox, without a fault nothing is sent twice (BR-38)."""
        scene = PublishingScene()
        appended = scene.append(400)
        # Threads of their own sort: the scene's count of open transactions is for one.
        scenes = [scene, *(PublishingScene() for _ in range(3))]
        for other in scenes[1:]:
            other.store, other.clock, other.broker = scene.store, scene.clock, scene.broker
            other.identifiers = scene.identifiers
        threads = [Thread(target=each.publisher(batch_size=9).run) for each in scenes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert scene.arrivals() == Counter(one.id for one in appended)

    def test_lags_are_told(self) -> None:
        """How late events arrive is known: arrival less occurrence."""
        scene = PublishingScene()
        scene.append(2)
        scene.pass_time(seconds=5)
        scene.publisher().run()
        [delivered] = scene.observation.of(EventsDelivered)
        assert (delivered.events, delivered.delivery_lags) == (2, (timedelta(seconds=5),) * 2)

    def test_a_round_ends_although_events_keep_coming(self) -> None:
        """Where something is always due, delivered events are removed, and rounds reported, all the same (BR-47)."""
        scene = PublishingScene()
        scene.append(2)

        def more(step: str, _ids: Collection[UUID]) -> None:
            if step == "lease":
                scene.pass_time(seconds=1)
                scene.append(1)

        publisher = scene.publisher(batch_size=1, retention=timedelta(seconds=30))
        scene.hook = more
        report = publisher.run().report
        assert report.outcome is PublishOutcome.COMPLETED
        assert 55 <= report.delivered <= 65
        publisher.run()
        assert scene.observation.of(PublishedRemoved)
        assert len(scene.store.messages()) < 100


class TestUnknownOutcomes:
    """What is not known to have arrived is sent again, with the same id."""

    def test_lost_answers_lead_to_duplicates_and_never_to_losses(self) -> None:
        """An event that arrived unheard arrives again, equal in every part (INV-LVS-003)."""
        scene = PublishingScene()
        [message] = scene.append(1)
        scene.broker.loses_answers = True
        publisher = scene.publisher()
        report = publisher.run().report
        assert (report.outcome, report.delivered, report.unconfirmed) == (PublishOutcome.BROKER_UNAVAILABLE, 0, 1)
        scene.broker.loses_answers = False
        assert publisher.run().report.delivered == 1
        assert scene.broker.arrived == [message, message]

    def test_an_outage_of_an_hour(self) -> None:
        """Memory stays bounded, the outage is told once a minute, no attempt is counted, and all arrives afterwards."""
        scene = PublishingScene()
        appended = scene.append(100)
        scene.broker.is_down = True
        publisher = scene.publisher(batch_size=10)
        began = scene.clock.monotonic()
        while scene.clock.monotonic() - began < 3_600:
            assert publisher.run().report.outcome is PublishOutcome.BROKER_UNAVAILABLE
            scene.pass_time(seconds=30)
        assert scene.sent_at_once_max <= 20
        told = scene.observation.of(BrokerUnavailable)
        assert 30 <= len(told) <= 61
        assert told[0].lasts == timedelta(0) < told[-1].lasts
        assert not scene.observation.of(EventRefused)
        scene.broker.is_down = False
        assert publisher.run().report.delivered == 100
        assert [one.lasted > timedelta(minutes=55) for one in scene.observation.of(BrokerAvailable)] == [True]
        assert scene.arrivals() == Counter(one.id for one in appended)

    def test_what_was_given_back_goes_to_others(self) -> None:
        """A publisher without a broker does not sit on its events."""
        scene = PublishingScene()
        scene.append(5)
        scene.broker.is_down = True
        scene.publisher().run()
        scene.broker.is_down = False
        assert scene.publisher().run().report.delivered == 5


class TestRefusedEvents:
    """An event that can never be sent is set aside, and blocks no other (BR-10)."""

    def test_it_is_tried_later_and_later_and_then_dead(self) -> None:
        """Attempts come 1, 2, 4 … s apart, ten of them, while the others flow."""
        scene = PublishingScene()
        bad = {one.id for one in scene.append(20)}
        scene.broker.refuses = lambda message: message.id in bad
        good = {one.id for one in scene.append(80)}
        publisher = scene.publisher(batch_size=10)
        attempts: dict[object, list[float]] = {one: [] for one in bad}
        for second in range(600):
            seen = len(scene.observation.occurrences)
            if second % 5 == 0:
                good |= {one.id for one in scene.append(1)}
            publisher.run()
            assert set(scene.arrivals()) == good, "new events do not wait for bad ones"
            for refused in scene.observation.occurrences[seen:]:
                if isinstance(refused, EventRefused):
                    attempts[refused.id].append(scene.clock.monotonic())
            scene.pass_time(seconds=1)
        for times in attempts.values():
            assert [later - earlier for earlier, later in pairwise(times)] == [2**number for number in range(9)]
        assert dict(scene.status().dead) == {"msg_size_too_large": 20}
        assert len([one for one in scene.observation.of(EventRefused) if one.next_attempt_at is None]) == 20

    def test_the_report_tells_refused_from_dead(self) -> None:
        """A round says how many wait, and how many were set aside."""
        scene = PublishingScene()
        scene.append(3)
        scene.broker.refuses = lambda _: True
        publisher = scene.publisher(attempts_max=2)
        report = publisher.run().report
        assert (report.outcome, report.refused, report.dead) == (PublishOutcome.COMPLETED, 3, 0)
        scene.pass_time(seconds=2)
        report = publisher.run().report
        assert (report.refused, report.dead) == (0, 3)

    def test_an_event_that_cannot_be_read_is_dead_at_once_and_told(self) -> None:
        """Another attempt would read the same; its neighbours arrive, and the round has a finding."""
        scene = PublishingScene()
        appended = scene.append(3)
        scene.unreadable = {appended[1].id}
        report = scene.publisher().run().report
        assert (report.delivered, report.dead) == (2, 1)
        assert dict(scene.status().dead) == {"unreadable": 1}
        [told] = scene.observation.of(EventRefused)
        assert (told.id, told.topic, told.cause, told.next_attempt_at) == (appended[1].id, None, "unreadable", None)


class TestMissingTopics:
    """A topic that is missing or not authorised stops only its own events, and costs them no attempt."""

    def test_others_flow_and_its_own_wait_for_it(self) -> None:
        """However long the topic is missing, none of its events is refused or dead; all arrive when it is there."""
        scene = PublishingScene()
        scene.broker.missing_topics = {"missing"}
        waiting, flowing = scene.append(30, topic="missing"), scene.append(30)
        publisher = scene.publisher(batch_size=10)
        report = publisher.run().report
        assert (report.outcome, report.delivered, report.held_topics) == (PublishOutcome.COMPLETED, 30, ("missing",))
        for _ in range(3_600):
            scene.pass_time(seconds=1)
            publisher.run()
        assert scene.arrivals() == Counter(one.id for one in flowing)
        assert not scene.observation.of(EventRefused)
        assert len(scene.observation.of(TopicHeld)) <= 70, "tried again once a minute"
        scene.broker.missing_topics.clear()
        scene.pass_time(minutes=1)
        assert publisher.run().report.held_topics == ()
        assert scene.arrivals() == Counter(one.id for one in [*waiting, *flowing])
        assert [one.topic for one in scene.observation.of(TopicAvailable)] == ["missing"]

    def test_a_topic_whose_events_are_gone_is_forgotten(self) -> None:
        """Once nothing waits for it, a missing topic is no finding any more."""
        scene = PublishingScene()
        scene.broker.missing_topics = {"missing"}
        [lost] = scene.append(1, topic="missing")
        publisher = scene.publisher()
        assert publisher.run().report.held_topics == ("missing",)
        with scene.store.outbox_store().begin() as unit_of_work:
            unit_of_work.deliveries.record_delivered([lost.id], scene.clock.now())
            unit_of_work.commit()
        scene.pass_time(seconds=2)
        assert publisher.run().report.held_topics == ()


class TestStopping:
    """Stopping drains or gives back, within a limit."""

    def test_nothing_new_is_begun(self) -> None:
        """After the end was asked for what is under way arrives and is recorded; the rest stays due."""
        scene = PublishingScene()
        scene.append(100)
        report = scene.publisher(cancellation=AfterSome(2), batch_size=10).run().report
        assert (report.outcome, report.delivered) == (PublishOutcome.STOPPED, 10)
        assert scene.status().pending == 90
        assert len(scene.broker.arrived) == 10

    def test_a_broker_that_is_away_is_not_waited_for_long(self) -> None:
        """Within the stop limit events under way are given up, unrecorded, and due again at once (BR-26)."""
        scene = PublishingScene()
        scene.append(100)
        scene.broker.is_down = True
        ended = scene.publisher(cancellation=AfterSome(4), batch_size=10, stop_limit=timedelta(seconds=3)).run()
        assert ended.report.outcome is PublishOutcome.STOPPED
        assert (ended.report.delivered, ended.report.unconfirmed) == (0, 20)
        assert scene.clock.monotonic() < 4
        assert not scene.observation.of(BrokerUnavailable), "nobody waited long enough to know"
        assert scene.status().pending == 100
        scene.broker.is_down = False
        assert scene.publisher().run().report.delivered == 100

    def test_a_stop_before_the_round_sends_nothing(self) -> None:
        """Who is asked to end before it began ends at once."""
        scene = PublishingScene()
        scene.append(3)
        assert scene.publisher(cancellation=AfterSome(0)).run().report.outcome is PublishOutcome.STOPPED
        assert not scene.broker.arrived


class TestRetention:
    """Delivered events are kept for a time, and then removed in small steps (BR-47)."""

    def test_only_what_was_delivered_long_ago_is_removed(self) -> None:
        """The time counts from the delivery; pending and dead events stay, however old."""
        scene = PublishingScene()
        old = scene.append(3)
        publisher = scene.publisher(retention=timedelta(days=1))
        publisher.run()
        scene.broker.missing_topics = {"missing"}
        pending = scene.append(2, topic="missing")
        scene.pass_time(hours=23)
        late = scene.append(1)
        publisher.run()
        assert len(scene.store.messages()) == 6
        scene.pass_time(hours=2)
        publisher.run()
        assert {one.id for one in scene.store.messages()} == {one.id for one in [*pending, *late]}
        assert [one.events for one in scene.observation.of(PublishedRemoved)] == [len(old)]

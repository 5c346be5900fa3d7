"""The contract of the UnitOfWork port."""

from application.contracts.subject import StoreContract, a_session, a_view
from application.event_contract import message_of
from application.ports.outbox import OutboxMessage
from domain.closing import SessionEnded
from domain.session import Session


class Interruption(Exception):
    """Something goes wrong in the middle of a transaction."""


def a_message(session: Session) -> OutboxMessage:
    """An event about a session that has been closed one duration after its last activity."""
    ended_at = session.last_activity_at + (session.last_activity_at - session.created_at)
    ended = SessionEnded(session=session.close(ended_at), ended_at=ended_at)
    return message_of(ended, message_id=session.anonymous_id, correlation_id=session.id, trace_parent=None)


class UnitOfWorkContract(StoreContract):
    """A transaction changes everything or nothing."""

    def test_what_is_committed_is_there(self) -> None:
        """A commit makes rows and events durable together."""
        session = a_session(self.store.clock.read())
        view = a_view(session, self.store.clock.now())
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.add(session)
            unit_of_work.views.add(view)
            unit_of_work.outbox.append([a_message(session)])
            unit_of_work.commit()
        assert self.subject.session(session.id) == session
        assert self.subject.view(view.id) == view
        assert self.aggregates() == [session.id]

    def test_what_is_not_committed_never_was(self) -> None:
        """Leaving without a commit rolls everything back."""
        session = a_session(self.store.clock.read())
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.add(session)
            unit_of_work.outbox.append([a_message(session)])
        assert self.subject.session(session.id) is None
        assert not self.subject.messages()

    def test_an_error_rolls_back_and_comes_out(self) -> None:
        """An exception within is not swallowed, and nothing of the transaction stays."""
        session = a_session(self.store.clock.read())
        try:
            self._add_and_fail(session)
        except Interruption:
            pass
        else:
            raise AssertionError("the error was swallowed")
        assert self.subject.session(session.id) is None
        assert not self.subject.messages()

    def _add_and_fail(self, session: Session) -> None:
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.add(session)
            unit_of_work.outbox.append([a_message(session)])
            raise Interruption

    def test_nothing_is_seen_before_the_commit(self) -> None:
        """Others see a transaction's changes only after its commit, and then in their next statement."""
        now = self.store.clock.read()
        session = a_session(now)
        with self.store.begin() as other:
            with self.store.begin() as unit_of_work:
                unit_of_work.sessions.add(session)
                assert unit_of_work.stale_sessions.count(now) == 1, "a transaction sees its own changes"
                assert other.stale_sessions.count(now) == 0
                unit_of_work.commit()
            assert other.stale_sessions.count(now) == 1

    def test_an_empty_commit_changes_nothing(self) -> None:
        """A transaction without changes commits as any other."""
        with self.store.begin() as unit_of_work:
            unit_of_work.sessions.close([])
            unit_of_work.views.close([])
            unit_of_work.outbox.append([])
            unit_of_work.commit()
        assert not self.subject.messages()

    def test_after_the_commit_it_is_over(self) -> None:
        """A unit of work is one transaction: to go on after its commit is a programmer's error."""
        now = self.store.clock.read()
        with self.store.begin() as unit_of_work:
            unit_of_work.commit()
            try:
                unit_of_work.stale_sessions.count(now)
            except AssertionError:
                return
        raise AssertionError("a statement was run after the commit")

    def test_many_transactions_follow_one_another(self) -> None:
        """A unit of work gives back what it took, however it ended."""
        now = self.store.clock.read()
        for number in range(50):
            with self.store.begin() as unit_of_work:
                assert unit_of_work.stale_sessions.count(now) == 0
                if number % 2:
                    unit_of_work.commit()

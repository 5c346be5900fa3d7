"""Those who use the service all the while, and remember what they were told."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from random import Random
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from attrs import frozen

from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.online.errors import SessionNotFound
from application.online.link_session import LinkSession
from application.online.open_view import OpenView
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.ports.store_errors import StoreError
from tests.force.ledger import Ledger

PAUSE_SECONDS: Final = 0.01
USERS: Final = [UUID(int=0xA0 + number) for number in range(5)]


@frozen
class Target:
    """An Active session and what is open in it."""

    session_id: UUID
    anonymous_id: UUID
    view_ids: Sequence[UUID]


@frozen
class NotedIdentifiers:
    """Version 7, and each of them noted."""

    ledger: Ledger
    _identifiers = Uuid7Identifiers()

    def new(self, at: datetime) -> UUID:
        """An id that the ledger knows as a visitor's."""
        identifier = self._identifiers.new(at)
        self.ledger.issue(identifier)
        return identifier


class Visitor:
    """Calls one command after the other, on a thread of its own.

    A call that failed may have done all or nothing: nothing was promised.
    """

    def __init__(
        self, dsn: str, *, ledger: Ledger, targets: Sequence[Target], chance: Random, options: TransactionOptions
    ) -> None:
        self._ledger = ledger
        self._targets = targets
        self._chance = chance
        self._store = PostgresActivityStore(dsn, options=options)
        identifiers = NotedIdentifiers(ledger)
        self._session_heartbeat = SessionHeartbeat(
            start_session=StartSession(store=self._store, identifiers=identifiers)
        )
        self._open_view = OpenView(store=self._store, identifiers=identifiers)
        self._view_heartbeat = ViewHeartbeat(store=self._store)
        self._link_session = LinkSession(store=self._store, identifiers=identifiers)
        self._ended = Event()
        self._thread = Thread(target=self._visit)
        self.answered = self.failed = 0
        self.trouble: BaseException | None = None
        """An error that a visitor must never see."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _visit(self) -> None:
        commands: list[Callable[[Target], None]] = [self._return, self._open, self._look_on, self._sign_in]
        with closing(self._store):
            try:
                while not self._ended.wait(PAUSE_SECONDS):
                    if self._targets:
                        self._call(self._chance.choice(commands), self._chance.choice(self._targets))
            except BaseException as trouble:
                self.trouble = trouble

    def _call(self, command: Callable[[Target], None], target: Target) -> None:
        try:
            command(target)
        except StoreError:
            self.failed += 1
        else:
            self.answered += 1

    def _return(self, target: Target) -> None:
        session = self._session_heartbeat(anonymous_id=target.anonymous_id)
        self._ledger.acknowledge(session.id, session.last_activity_at)

    def _open(self, target: Target) -> None:
        try:
            view = self._open_view(session_id=target.session_id, property_object_id=uuid4(), view_source="Map")
        except SessionNotFound:
            self._ledger.end(target.session_id)
        else:
            self._ledger.acknowledge(view.id, view.last_activity_at)

    def _look_on(self, target: Target) -> None:
        if not target.view_ids:
            return
        view_id, now = self._chance.choice(target.view_ids), self._store.clock.read()
        if self._view_heartbeat(view_id=view_id):
            self._ledger.acknowledge(view_id, now)
        else:
            self._ledger.end(view_id)

    def _sign_in(self, target: Target) -> None:
        try:
            linked = self._link_session(anonymous_id=target.anonymous_id, user_id=self._chance.choice(USERS))
        except SessionNotFound:
            return  # the device has none at the moment
        self._ledger.acknowledge(linked.session.id, linked.session.last_activity_at)

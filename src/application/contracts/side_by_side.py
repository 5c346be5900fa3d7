"""Workers and visitors at the same time: the outcome that every store owes, whatever keeps its transactions apart."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from uuid import uuid4

from application.contracts.closer import MINUTE, UseCasesContract
from application.contracts.subject import a_session, a_view
from application.online.errors import SessionNotFound
from application.online.link_session import LinkSession
from application.online.open_view import OpenView
from application.online.session_heartbeat import SessionHeartbeat
from application.online.start_session import StartSession
from application.online.view_heartbeat import ViewHeartbeat
from application.ports.run_observation import RunReport
from domain.property_object_view import PropertyObjectView
from domain.session import Session

WORKERS = 3
VISITORS = 3
PATIENCE_SECONDS = 60.0

Row = Session | PropertyObjectView


class SideBySideContract(UseCasesContract):
    """Each row is closed once, with one event, by whomever (INV-SES-006, INV-LV-008, specification §3)."""

    def test_workers_share_a_backlog(self) -> None:
        """What one closes is not another's: their counts add up to the rows, and a later run does what was left."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(90 - number) * MINUTE) for number in range(40)]
        views = [a_view(session, now, idle=idle * MINUTE) for session in sessions for idle in (0, 20)]
        self.put(*sessions, *views)
        with ThreadPoolExecutor(WORKERS) as workers:
            running = [workers.submit(self._report, batch_size=7) for _ in range(WORKERS)]
            reports = [one.result(PATIENCE_SECONDS) for one in running]
        reports.append(self._report())
        assert sum(report.closed_sessions for report in reports) == len(sessions)
        assert sum(report.closed_views for report in reports) == len(views)
        self.assert_consistent([*sessions, *views])

    def test_visitors_come_in_between(self) -> None:
        """Whoever is first, no view is left open under a closed session, and no event is missing or there twice."""
        now = self.store.clock.read()
        sessions = [a_session(now, idle=(90 - number) * MINUTE, user_id=uuid4()) for number in range(30)]
        views = [a_view(session, now, idle=timedelta(0)) for session in sessions]
        self.put(*sessions, *views)
        with ThreadPoolExecutor(1 + VISITORS) as threads:
            worker = threads.submit(self._report)
            # From the other end of the order, so that they meet.
            calls = [
                threads.submit(self._visit, visit)
                for session, view in zip(reversed(sessions), reversed(views), strict=True)
                for visit in self._visits(session, view)
            ]
            new = list(chain.from_iterable(call.result(PATIENCE_SECONDS) for call in calls))
            worker.result(PATIENCE_SECONDS)
        self._report()
        self.assert_consistent(list({row.id: row for row in [*sessions, *views, *new]}.values()))

    def _report(self, batch_size: int = 100) -> RunReport:
        return self.run(batch_size=batch_size).report

    def _visit(self, visit: Callable[[], Iterable[Row]]) -> list[Row]:
        with suppress(SessionNotFound):  # the worker was first
            return list(visit())
        return []

    def _visits(self, session: Session, view: PropertyObjectView) -> Iterator[Callable[[], Iterable[Row]]]:
        """What visitors do with a session; each answers the rows that may be new."""
        start_session = StartSession(store=self.store, identifiers=self.identifiers)
        open_view = OpenView(store=self.store, identifiers=self.identifiers)
        link_session = LinkSession(store=self.store, identifiers=self.identifiers)

        def beat() -> Iterator[Row]:
            ViewHeartbeat(store=self.store)(view_id=view.id)
            yield SessionHeartbeat(start_session=start_session)(anonymous_id=session.anonymous_id)

        yield lambda: [open_view(session_id=session.id, property_object_id=uuid4(), view_source="map")]
        yield lambda: [link_session(anonymous_id=session.anonymous_id, user_id=uuid4()).session]
        yield beat

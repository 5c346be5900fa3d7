"""What the scenarios of the field reports are made of: rows with a past, closers, and somebody who waits.

Rows are made by SQL, as other programs would make them; the personal data in them is recognisable, so that it can be
looked for in all that a closer lets the outside see.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from adapters.in_memory.observation import RecordingObservation
from adapters.postgres.connections import PreparedStatements
from adapters.postgres.store import PostgresActivityStore
from adapters.postgres.transaction import TransactionOptions
from adapters.structlog import RunLog
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.close_idle_activity import CloserRun, CloserUseCase
from application.contracts.closer import StopAfter
from application.lanes import Lanes
from application.options import CloserOptions
from application.ports.cancellation import Cancellation
from application.ports.run_observation import Occurrence

Answer = TypeVar("Answer")

MINUTE: Final = timedelta(minutes=1)
PATIENCE_SECONDS: Final = 60.0

ANONYMOUS_MARK: Final = "0badf00d"
USER_MARK: Final = "c0ffee00"
DEVICE_IP_ADDRESS: Final = "203.0.113.7"
DEVICE_USER_AGENT: Final = "PlantedAgent/7.3"
PERSONAL_MARKS: Final = (ANONYMOUS_MARK, USER_MARK, DEVICE_IP_ADDRESS, DEVICE_USER_AGENT)
"""What stands in each id of a device and of a user, and the device data of each row."""

_ADD_SESSIONS = """
insert into user_activity.sessions
    (id, anonymous_id, user_id, status, device_ip_address, device_user_agent, created_at, last_activity_at)
select gen_random_uuid(),
       overlay(gen_random_uuid()::text placing %(anonymous)s from 1)::uuid,
       overlay(gen_random_uuid()::text placing %(user)s from 1)::uuid,
       'Active', %(ip_address)s, %(user_agent)s, last_activity_at - %(lasted)s, last_activity_at
from generate_series(0, %(count)s - 1) as number,
     lateral (select now() - %(idle)s + number * %(step)s as last_activity_at) as times
returning id, last_activity_at
"""
_ADD_VIEWS = """
insert into user_activity.property_object_views
    (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
     last_activity_at)
select gen_random_uuid(), gen_random_uuid(), session_id, sessions.anonymous_id, 'Map', '{"rooms": 2}', 'Active',
       times.last_activity_at - %(lasted)s, times.last_activity_at
from unnest(%(session_ids)s::uuid[]) with ordinality as wanted (session_id, number)
join user_activity.sessions on sessions.id = session_id,
     lateral (select now() - %(idle)s + (number - 1) * %(step)s as last_activity_at) as times
returning id, last_activity_at
"""
_TRAP = """
create table if not exists marked (id uuid);
create sequence if not exists sprung;
create or replace function {name}() returns trigger language plpgsql as $$
begin
    if exists (select from marked where marked.id = new.id) then
        perform nextval('sprung');
        {action}
    end if;
    return new;
end $$;
create trigger {name} before update on user_activity.{table}
    for each row when (new.status = 'Inactive') execute function {name}();
"""
# A view's condition is asked row by row, after the statement's snapshot was taken and before the row is locked.
_READS_THAT_PAUSE = """
create role {role};
create table marked (id uuid);
grant select on marked to {role};
create function pauses(row_id uuid) returns boolean language plpgsql as $$
begin
    if current_query() like '%for update%' and exists (select from marked where marked.id = row_id) then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return true;
end $$;
alter table user_activity.{table} rename to {table}_that_pause;
create view user_activity.{table} as select * from user_activity.{table}_that_pause where pauses(id);
grant usage on schema user_activity to {role};
grant select, insert, update on all tables in schema user_activity to {role};
"""


class SeenObservation(RecordingObservation):
    """Remembers what happened, writes it into the log, and keeps the text of each error that leaves a span."""

    def __init__(self) -> None:
        super().__init__()
        self.tracebacks: list[str] = []
        self._log = RunLog()

    def record(self, occurrence: Occurrence) -> None:
        super().record(occurrence)
        self._log.record(occurrence)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
        with super().span(name, attributes):
            try:
                yield
            except BaseException:
                self.tracebacks.append(traceback.format_exc())
                raise


class Closer:
    """One instance of the worker: its store, and what is seen of its runs."""

    def __init__(
        self, dsn: str, transactions: TransactionOptions, prepared_statements: PreparedStatements, lanes: Lanes | None
    ) -> None:
        self.store = PostgresActivityStore(dsn, options=transactions, prepared_statements=prepared_statements)
        self.observation = SeenObservation()
        self._lanes = lanes

    def run(self, *, cancellation: Cancellation | None = None, **options: object) -> CloserRun:
        """One tick."""
        return CloserUseCase(
            store=self.store,
            identifiers=Uuid7Identifiers(),
            observation=self.observation,
            cancellation=cancellation or StopAfter(None),
            options=CloserOptions(**options),  # type: ignore[arg-type] # a test names any option
            lanes=self._lanes,
        ).run()


class Scenario:
    """A database, a superuser's connection to it, and the closers at work on it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.closers: list[Closer] = []
        self._roles: list[str] = []
        self.quarantined: set[UUID] = set()
        """Rows that the test leaves in a state in which they cannot be closed."""

    def close(self) -> None:
        """Lets go of the database."""
        for closer in self.closers:
            closer.store.close()
        for role in self._roles:  # roles belong to the whole server
            self.execute(f"drop owned by {role} cascade; drop role {role}")
        self.connection.close()

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a statement; none if it has none."""
        cursor = self.connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *parameters: object) -> Any:
        """The one value of a statement's one row."""
        [(value,)] = self.execute(statement, *parameters)
        return value

    def closer(
        self,
        *,
        role: str | None = None,
        lanes: Lanes | None = None,
        prepared_statements: PreparedStatements = "auto",
        transactions: TransactionOptions | None = None,
    ) -> Closer:
        """One more instance, at work as `role`; its lock timeout outlasts every pause of a test."""
        dsn = self.dsn if role is None else psycopg.conninfo.make_conninfo(self.dsn, options=f"-c role={role}")
        transactions = transactions or TransactionOptions(lock_timeout=timedelta(seconds=PATIENCE_SECONDS))
        self.closers.append(Closer(dsn, transactions, prepared_statements, lanes))
        return self.closers[-1]

    def add_sessions(
        self,
        count: int,
        *,
        idle: timedelta = 20 * MINUTE,
        lasted: timedelta = 10 * MINUTE,
        step: timedelta = timedelta(milliseconds=1),
    ) -> list[UUID]:
        """Active sessions, the first silent for `idle`, each next one for a `step` less; oldest first."""
        parameters = {"count": count, "idle": idle, "lasted": lasted, "step": step}
        personal = {"ip_address": DEVICE_IP_ADDRESS, "user_agent": DEVICE_USER_AGENT}
        marks = {"anonymous": ANONYMOUS_MARK, "user": USER_MARK}
        rows = self.connection.execute(_ADD_SESSIONS, parameters | personal | marks).fetchall()
        return [row_id for row_id, _ in sorted(rows, key=lambda row: row[1])]

    def add_views(
        self,
        session_ids: Sequence[UUID],
        *,
        idle: timedelta = 20 * MINUTE,
        lasted: timedelta = 3 * MINUTE,
        step: timedelta = timedelta(milliseconds=1),
    ) -> list[UUID]:
        """An Active view of each of the sessions, which may repeat; times as for sessions."""
        parameters = {"session_ids": list(session_ids), "idle": idle, "lasted": lasted, "step": step}
        rows = self.connection.execute(_ADD_VIEWS, parameters).fetchall()
        return [row_id for row_id, _ in sorted(rows, key=lambda row: row[1])]

    def add_hanging_views(self, count: int) -> list[UUID]:
        """Stale views of one session that is alive; oldest first."""
        return self.add_views(self.add_sessions(1, idle=timedelta(0), lasted=60 * MINUTE) * count)

    def active(self, table: str) -> set[UUID]:
        """The Active rows of a table."""
        return {row[0] for row in self.execute(f"select id from user_activity.{table} where status = 'Active'")}

    def events_of(self, row_ids: Sequence[UUID]) -> int:
        """How many events there are about these rows."""
        return int(self.value("select count(*) from user_activity.outbox where aggregate_id = any(%s)", list(row_ids)))

    def set_trap(self, table: str, action: str) -> None:
        """A trigger that does something to each marked row as it is closed; `sprung` counts how often it did."""
        self.execute(_TRAP.format(name=f"trap_{table}", table=table, action=action))

    def remove_trap(self, table: str) -> None:
        """From now on the marked rows close like all others."""
        self.execute(f"drop trigger trap_{table} on user_activity.{table}")

    def mark(self, *row_ids: UUID) -> None:
        """Marks the rows for a trap or a pause."""
        self.execute("insert into marked select unnest(%s::uuid[])", list(row_ids))

    def times_sprung(self) -> int:
        """How often a trap was sprung, rolled back attempts included."""
        return int(self.value("select last_value - (not is_called)::int from sprung"))

    def pausing_role(self, table: str) -> str:
        """A role whose locking reads of marked rows pause: with a snapshot, without the lock."""
        role = f"closer_{uuid4().hex}"
        self._roles.append(role)
        self.execute(_READS_THAT_PAUSE.format(role=role, table=table))
        return role

    def plain_role(self) -> str:
        """A role with rights on the tables and no way around row security."""
        role = f"closer_{uuid4().hex}"
        self._roles.append(role)
        self.execute(
            f"""create role {role}; grant usage on schema user_activity to {role};
                grant select, insert, update on all tables in schema user_activity to {role}"""
        )
        return role

    @contextmanager
    def paused(self, action: Callable[[], Answer]) -> Iterator[Future[Answer]]:
        """The action, in a thread of its own, stopped at `pg_advisory_xact_lock_shared(1)` while the block lasts."""
        with ThreadPoolExecutor(1) as threads:
            self.execute("select pg_advisory_lock(1)")
            try:
                future = threads.submit(action)
                wait_until(lambda: future.done() or self.waiting("advisory") > 0)
                assert not future.done(), "it never paused"
                yield future
            finally:
                self.execute("select pg_advisory_unlock(1)")

    def set_role_default(self, name: str, value: str) -> None:
        """What holds in every new connection of the closers' role to this database."""
        database = self.connection.info.dbname
        self.connection.execute(
            SQL("alter role current_user in database {} set {} = {}").format(
                Identifier(database), Identifier(name), Literal(value)
            )
        )

    def waiting(self, event: str | None = None) -> int:
        """How many transactions of this database wait for a lock, or for that kind of lock."""
        return int(
            self.value(
                """select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'
                     and wait_event = coalesce(%s, wait_event)""",
                event,
            )
        )


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that somebody else brings about."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)

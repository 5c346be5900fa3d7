"""The three tables as the rest of the service sees them: rows put in and judged by plain SQL."""

from typing import Any, Final, LiteralString

import psycopg
from attrs import frozen

DEVICE_ADDRESS: Final = "203.0.113.7"
USER_AGENT: Final = "Mozilla/5.0 (device under test)"

_ADD_SESSIONS: Final = f"""
insert into user_activity.sessions
    (id, anonymous_id, user_id, status, device_ip_address, device_user_agent, created_at, last_activity_at)
select gen_random_uuid(), gen_random_uuid(), case mod(number, 2) when 0 then gen_random_uuid() end, 'Active',
       '{DEVICE_ADDRESS}', '{USER_AGENT}', silent_since - number * interval '1.25 s', silent_since
from generate_series(1, %(sessions)s) as number,
     lateral (select clock_timestamp() - %(silent)s::interval - number * interval '1 ms') as silent (silent_since)
returning id
"""
_ADD_VIEWS: Final = """
insert into user_activity.property_object_views
    (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
     last_activity_at)
select gen_random_uuid(), gen_random_uuid(), sessions.id, sessions.anonymous_id, 'Map', '{"rooms": [1, 2]}', 'Active',
       silent_since - (sessions.last_activity_at - sessions.created_at), silent_since
from user_activity.sessions, generate_series(1, %(views)s),
     lateral (select coalesce(clock_timestamp() - %(silent)s::interval, last_activity_at)) as silent (silent_since)
where sessions.id = any(%(ids)s)
"""
_RULES: Final[dict[str, LiteralString]] = {
    "an Active view is under an Inactive session": """
        select views.id from user_activity.property_object_views as views
        join user_activity.sessions on sessions.id = views.session_id
        where views.status = 'Active' and sessions.status = 'Inactive'""",
    "a row has another number of events than it must have": """
        select rows.id from (
            select id, 'Session' as type, status from user_activity.sessions
            union all select id, 'PropertyObjectView', status from user_activity.property_object_views
        ) as rows
        full join user_activity.outbox on outbox.aggregate_id = rows.id and outbox.aggregate_type = rows.type
        group by rows.id, rows.status, outbox.aggregate_id
        having count(outbox.id) <> case when rows.status = 'Inactive' then 1 else 0 end""",
    "duration, closing time and event of a closed row disagree": """
        select rows.id from (
            select id, status, created_at, last_activity_at, ended_at, duration from user_activity.sessions
            union all
            select id, status, created_at, last_activity_at, ended_at, duration from user_activity.property_object_views
        ) as rows
        left join user_activity.outbox on outbox.aggregate_id = rows.id
        where rows.status = 'Inactive' and (
            rows.duration is distinct from rows.last_activity_at - rows.created_at or rows.duration < interval '0'
            or rows.ended_at is distinct from outbox.occurred_at
            or (outbox.payload ->> 'durationSeconds')::bigint
                is distinct from floor(extract(epoch from rows.duration))::bigint)""",
    "an Active row has a closing time or a duration": """
        select id from user_activity.sessions
        where status = 'Active' and (ended_at is not null or duration is not null)
        union all
        select id from user_activity.property_object_views
        where status = 'Active' and (ended_at is not null or duration is not null)""",
}
_SLOW_CLOSING: Final = """
create or replace function slow_closing() returns trigger language plpgsql as $$
begin
    perform pg_sleep({seconds});
    return new;
end $$;
create trigger slow_closing before update on user_activity.{table} for each row execute function slow_closing();
"""


@frozen(kw_only=True)
class Counts:
    """How many rows there are of each kind."""

    active_sessions: int
    active_views: int
    inactive_sessions: int
    inactive_views: int
    events: int


class ActivityTables:
    """The tables of one database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def execute(self, statement: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Runs a statement on a connection of its own, so that it does not matter what became of the last one."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def add_sessions(
        self, sessions: int, *, silent: str = "20 min", views: int = 0, views_silent: str | None = None
    ) -> None:
        """Adds Active sessions that have been silent for so long, each with views as silent as it, or otherwise.

        All appear at once: a worker that runs meanwhile closes no session before its views are there.
        """
        with psycopg.connect(self.dsn) as connection:
            added = connection.execute(_ADD_SESSIONS.encode(), {"sessions": sessions, "silent": silent}).fetchall()
            ids = [row[0] for row in added]
            connection.execute(_ADD_VIEWS.encode(), {"ids": ids, "views": views, "silent": views_silent})

    def slow_down(self, *, seconds_a_row: float, table: LiteralString = "sessions") -> None:
        """Lets each change of a row take so long."""
        self.execute(_SLOW_CLOSING.format(seconds=seconds_a_row, table=table))

    def speed_up(self, *, table: LiteralString = "sessions") -> None:
        """Takes the slowness away."""
        self.execute(f"drop trigger slow_closing on user_activity.{table}")

    def counts(self) -> Counts:
        """What is there now."""
        [row] = self.execute(
            """select (select count(*) from user_activity.sessions where status = 'Active'),
                      (select count(*) from user_activity.property_object_views where status = 'Active'),
                      (select count(*) from user_activity.sessions where status = 'Inactive'),
                      (select count(*) from user_activity.property_object_views where status = 'Inactive'),
                      (select count(*) from user_activity.outbox)"""
        )
        return Counts(
            active_sessions=row[0], active_views=row[1], inactive_sessions=row[2], inactive_views=row[3], events=row[4]
        )

    def closed(self) -> int:
        """How many rows have been closed."""
        counts = self.counts()
        return counts.inactive_sessions + counts.inactive_views

    def assert_rules_hold(self) -> None:
        """What must hold after every scenario: one event a closed row, no orphans, durations that agree."""
        broken = {rule: rows for rule, statement in _RULES.items() if (rows := self.execute(statement))}
        assert not broken

    def assert_nothing_personal_in(self, text: str) -> None:
        """No address, user agent, user or device of any row is in a text."""
        personal = {DEVICE_ADDRESS, USER_AGENT}
        for row in self.execute("select anonymous_id::text, user_id::text from user_activity.sessions"):
            personal.update(filter(None, row))
        assert not [value for value in personal if value in text]

    def backends(self) -> int:
        """How many of the server's processes serve the program on this database."""
        return self._of_the_program("count(*)")

    def end_backends(self) -> int:
        """Ends them, as an administrator does; answers how many there were."""
        return self._of_the_program("count(pg_terminate_backend(pid))")

    def locks_held(self) -> int:
        """How many advisory locks, and locks on the tables, the program's transactions hold."""
        [(number,)] = self.execute(
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where datname = current_database() and application_name = 'activity-closer'"
            "   and locktype in ('advisory', 'relation')"
        )
        return int(number)

    def _of_the_program(self, aggregate: LiteralString) -> int:
        [(number,)] = self.execute(
            f"select {aggregate} from pg_stat_activity"
            " where datname = current_database() and application_name = 'activity-closer'"
        )
        return int(number)

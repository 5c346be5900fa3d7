"""The PostgreSQL store as a subject of the contract suites: a look at its tables by plain SQL."""

from collections.abc import Sequence
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from adapters.postgres.outbox_store import PostgresOutboxStore
from adapters.postgres.store import PostgresActivityStore
from application.ports.outbox import OutboxMessage
from domain.activity import ActivityStatus
from domain.property_object_view import PropertyObjectView
from domain.session import Session

REFUSE = """
create table refused (id uuid);
create function refuse() returns trigger language plpgsql as $$
begin
    if new.status = 'Inactive' and exists (select from refused where refused.id = new.id) then
        raise exception 'a trigger refuses this row';
    end if;
    return new;
end $$;
create trigger refuse before update on user_activity.sessions for each row execute function refuse();
create trigger refuse before update on user_activity.property_object_views for each row execute function refuse();
"""


class PostgresSubject:
    """A store on a database of its own."""

    def __init__(self, dsn: str) -> None:
        self.store = PostgresActivityStore(dsn)
        self.outbox = PostgresOutboxStore(dsn)
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self._connection.execute("set timezone = 'UTC'")
        self._connection.execute(REFUSE)

    def close(self) -> None:
        """Lets go of the database."""
        self.store.close()
        self.outbox.close()
        self._connection.close()

    def session(self, session_id: UUID) -> Session | None:
        row = self._connection.execute(
            """select id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration
               from user_activity.sessions where id = %s""",
            [session_id],
        ).fetchone()
        if row is None:
            return None
        return Session(**row | {"status": ActivityStatus(row["status"])})

    def view(self, view_id: UUID) -> PropertyObjectView | None:
        row = self._connection.execute(
            """select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot::text, status,
                      created_at, last_activity_at, ended_at, duration
               from user_activity.property_object_views where id = %s""",
            [view_id],
        ).fetchone()
        if row is None:
            return None
        return PropertyObjectView(**row | {"status": ActivityStatus(row["status"])})

    def messages(self) -> Sequence[OutboxMessage]:
        rows = self._connection.execute(
            """select id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload::text,
                      correlation_id, trace_parent, occurred_at
               from user_activity.outbox order by id"""
        )
        return [OutboxMessage(**row) for row in rows]

    def refuse(self, row_ids: Sequence[UUID]) -> None:
        with self._connection.transaction():
            self._connection.execute("delete from refused")
            self._connection.execute("insert into refused select unnest(%s::uuid[])", [list(row_ids)])

    def waiting(self) -> int:
        row = self._connection.execute(
            """select count(*) as waiting from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'"""
        ).fetchone()
        assert row is not None
        return int(row["waiting"])

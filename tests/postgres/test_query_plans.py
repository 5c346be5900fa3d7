"""What only PostgreSQL can show: the plans of the statements that run for each page, session and view.

Each statement runs on analysed tables with a few thousand Active rows among a hundred thousand Inactive ones, once with
a plan made for its values and once with the plan for any values, which is where the driver's prepared statements end.
What counts are the rows that a plan touches, whatever its shape: not many more than it has to answer with.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from attrs import field, frozen
from psycopg import ClientCursor
from psycopg.sql import SQL, Literal

from adapters.postgres.statements import statement
from tests.databases import PostgresServer

ACTIVE = 3_000
INACTIVE = 100_000
PAGE = 500
VIEWS_A_SESSION = 3

_SEED = f"""
insert into user_activity.sessions
    (id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration)
select gen_random_uuid(), gen_random_uuid(), null, case when number <= {ACTIVE} then 'Active' else 'Inactive' end,
       now() - interval '2 h' - number * interval '1 s', now() - interval '1 h' - number * interval '1 s',
       case when number > {ACTIVE} then now() end, case when number > {ACTIVE} then interval '1 h' end
from generate_series(1, {ACTIVE + INACTIVE}) as number;
insert into user_activity.property_object_views
    (id, property_object_id, session_id, anonymous_id, view_source, status, created_at, last_activity_at, ended_at,
     duration)
select gen_random_uuid(), gen_random_uuid(), sessions.id, sessions.anonymous_id, 'Map', status,
       created_at, last_activity_at, ended_at, duration
from user_activity.sessions, generate_series(1, case status when 'Active' then {VIEWS_A_SESSION} else 1 end);
analyze user_activity.sessions, user_activity.property_object_views;
"""

_SESSION_INDEXES = ("ix_sessions_active_last_activity",)
_VIEW_INDEXES = ("ix_property_object_views_active_last_activity",)
_VIEWS_OF_SESSION_INDEXES = ("ix_property_object_views_active_session",)
_BEGINNING = (UUID(int=0), "-infinity")


@frozen(kw_only=True)
class Rows:
    """Some of the seeded rows, to ask for."""

    now: datetime
    session_ids: Sequence[UUID]
    """Active ones, oldest first."""
    view_ids: Sequence[UUID]
    """Active ones, oldest first."""
    middle: tuple[UUID, datetime]
    """A view in the middle of the order."""
    device: UUID
    """Of the first session."""


@frozen(kw_only=True)
class Hot:
    """A statement, values for it, and what its plan may do."""

    name: str
    values: Mapping[str, Any]
    touched_max: int
    """Rows that its scans may read, those that a filter throws away included."""
    touched_max_for_known_values: int | None = None
    """Where a plan made for the values may read more, since looking up each seems dearer to the planner."""
    indexes: Sequence[str] = field(factory=tuple)
    """Partial indexes that it has to use."""


@pytest.fixture(scope="module")
def connection(postgres_server: PostgresServer, migrated_template: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with the seeded rows, which no test changes."""
    name = postgres_server.create_database(migrated_template)
    with psycopg.connect(postgres_server.dsn(name), autocommit=True) as connection:
        connection.execute(_SEED.encode())
        connection.execute("set timezone = 'UTC'")
        yield connection
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def rows(connection: psycopg.Connection) -> Rows:
    """Rows to ask for."""
    active = "where status = 'Active' order by last_activity_at, id"
    sessions = connection.execute(f"select id, anonymous_id from user_activity.sessions {active}").fetchall()
    views = connection.execute(
        f"select id, last_activity_at from user_activity.property_object_views {active}"
    ).fetchall()
    clock = connection.execute("select now()").fetchone()
    assert clock is not None
    return Rows(
        now=clock[0],
        session_ids=[row[0] for row in sessions],
        view_ids=[row[0] for row in views],
        middle=views[len(views) // 2],
        device=sessions[0][1],
    )


def _page(rows: Rows, after: tuple[object, object]) -> dict[str, Any]:
    return {"cutoff": rows.now, "after_id": after[0], "after_last_activity_at": str(after[1]), "limit": PAGE}


def _closing(ids: Sequence[UUID], rows: Rows) -> dict[str, Any]:
    return {"ids": ids, "ended_at": [rows.now] * len(ids), "durations": ["1 h"] * len(ids)}


def hot_statements(rows: Rows) -> dict[str, Hot]:
    """Every statement of a run and of a command, by a name that says with which values."""
    return _of_phase_a(rows) | _of_phase_b(rows) | _of_commands(rows)


def _of_phase_a(rows: Rows) -> dict[str, Hot]:
    view, page, cutoff = rows.view_ids[0], rows.view_ids[:PAGE], {"cutoff": rows.now}
    all_views = ACTIVE * VIEWS_A_SESSION
    return {
        # A page of views, and the session of each.
        "first page of views": Hot(
            name="claim_hanging_views_page", values=_page(rows, _BEGINNING), touched_max=2 * PAGE, indexes=_VIEW_INDEXES
        ),
        "middle page of views": Hot(
            name="claim_hanging_views_page",
            values=_page(rows, rows.middle),
            touched_max=2 * PAGE,
            indexes=_VIEW_INDEXES,
        ),
        "references of views": Hot(
            name="find_hanging_views", values=_page(rows, _BEGINNING), touched_max=PAGE, indexes=_VIEW_INDEXES
        ),
        "views by id": Hot(name="claim_hanging_views", values={"ids": page[:250]} | cutoff, touched_max=2 * 250),
        "a view by id": Hot(name="claim_hanging_views", values={"ids": [view]} | cutoff, touched_max=2),
        "newest view": Hot(name="find_newest_hanging_view", values=cutoff, touched_max=1, indexes=_VIEW_INDEXES),
        # Any index on Active rows will do, as all of them are stale.
        "count of views": Hot(name="count_hanging_views", values=cutoff, touched_max=all_views),
        "closing a view": Hot(name="close_views", values=_closing([view], rows), touched_max=1),
        "closing a page of views": Hot(
            name="close_views",
            values=_closing(page, rows),
            touched_max=PAGE,
            touched_max_for_known_values=all_views,
        ),
    }


def _of_phase_b(rows: Rows) -> dict[str, Hot]:
    session, page, cutoff = rows.session_ids[0], rows.session_ids[:PAGE], {"cutoff": rows.now}
    return {
        "first page of sessions": Hot(
            name="find_stale_sessions", values=_page(rows, _BEGINNING), touched_max=PAGE, indexes=_SESSION_INDEXES
        ),
        "middle page of sessions": Hot(
            name="find_stale_sessions", values=_page(rows, rows.middle), touched_max=PAGE, indexes=_SESSION_INDEXES
        ),
        "a stale session": Hot(name="lock_stale_sessions", values={"ids": [session]} | cutoff, touched_max=1),
        "100 stale sessions": Hot(name="lock_stale_sessions", values={"ids": page[:100]} | cutoff, touched_max=100),
        # Locked ones, once, and all that are open, to find those that are not among them.
        "views of a session": Hot(
            name="lock_open_views",
            values={"session_ids": [session]},
            touched_max=1 + 2 * VIEWS_A_SESSION,
            indexes=_VIEWS_OF_SESSION_INDEXES,
        ),
        "views of 100 sessions": Hot(
            name="lock_open_views",
            values={"session_ids": page[:100]},
            touched_max=100 * (1 + 2 * VIEWS_A_SESSION),
            indexes=_VIEWS_OF_SESSION_INDEXES,
        ),
        "newest session": Hot(name="find_newest_stale_session", values=cutoff, touched_max=1, indexes=_SESSION_INDEXES),
        "count of sessions": Hot(name="count_stale_sessions", values=cutoff, touched_max=ACTIVE),
        "closing a session": Hot(name="close_sessions", values=_closing([session], rows), touched_max=1),
        "closing 100 sessions": Hot(name="close_sessions", values=_closing(page[:100], rows), touched_max=100),
    }


def _of_commands(rows: Rows) -> dict[str, Hot]:
    session, view = rows.session_ids[0], rows.view_ids[0]
    values = {"id": session, "last_activity_at": rows.now, "user_id": None}
    return {
        "session of a device": Hot(
            name="lock_active_session",
            values={"anonymous_id": rows.device},
            touched_max=1,
            indexes=("ux_sessions_active_anonymous_id",),
        ),
        "session": Hot(name="lock_session", values={"id": session}, touched_max=1),
        "session of a view": Hot(name="lock_session_of_view", values={"id": view}, touched_max=2),
        "view": Hot(name="lock_view", values={"id": view}, touched_max=1),
        "open views of a session": Hot(
            name="lock_open_views_of_session",
            values={"session_id": session},
            touched_max=VIEWS_A_SESSION,
            indexes=_VIEWS_OF_SESSION_INDEXES,
        ),
        "heartbeat of a session": Hot(name="update_session", values=values, touched_max=1),
        "heartbeat of a view": Hot(
            name="update_view", values={"id": view, "last_activity_at": rows.now}, touched_max=1
        ),
    }


_TYPES = {
    "cutoff": "timestamptz",
    "after_id": "uuid",
    "after_last_activity_at": "text",
    "limit": "bigint",
    "id": "uuid",
    "session_id": "uuid",
    "anonymous_id": "uuid",
    "user_id": "uuid",
    "last_activity_at": "timestamptz",
    "ids": "uuid[]",
    "session_ids": "uuid[]",
    "ended_at": "timestamptz[]",
    "durations": "interval[]",
    "lease": "uuid",
    "now": "timestamptz",
    "at": "timestamptz",
    "before": "timestamptz",
    "ends": "timestamptz",
    "starts": "uuid[]",
    "held_topics": "text[]",
    "held_ids": "uuid[]",
    "turn": "smallint",
    "slices_max": "smallint",
    "refusals": "smallint[]",
    "causes": "text[]",
    "next_attempts_at": "timestamptz[]",
    "after": "uuid",
}
"""As the driver declares the parameters."""


def plan_of(connection: psycopg.Connection, hot: Hot, plan_cache_mode: str) -> dict[str, Any]:
    """The plan as it was carried out; what the statement did is rolled back."""
    numbers = {name: f"${number}" for number, name in enumerate(hot.values, start=1)}
    text = re.sub(r"%\((\w+)\)[sb]", lambda found: numbers[found[1]], statement(hot.name))
    types = f"({', '.join(_TYPES[name] for name in hot.values)})" if hot.values else ""
    arguments = SQL("({})").format(SQL(", ").join(map(Literal, hot.values.values()))) if hot.values else SQL("")
    with connection.transaction(force_rollback=True):
        connection.execute(SQL("set local plan_cache_mode = {}").format(Literal(plan_cache_mode)))
        connection.execute(f"prepare hot {types} as {text}".encode())
        try:
            explained = ClientCursor(connection).execute(
                SQL("explain (analyze, buffers, format json) execute hot {}").format(arguments)
            )
            [([plan],)] = explained.fetchall()
        finally:
            connection.execute("deallocate hot")
    root: dict[str, Any] = plan["Plan"]
    return root


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan's nodes, from the top down."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def touched_by(plan: dict[str, Any]) -> float:
    """How many rows of tables the plan's scans read, those that were thrown away afterwards included."""
    read = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    scans = [node for node in nodes(plan) if "Relation Name" in node and node["Node Type"].endswith("Scan")]
    return float(sum(sum(scan.get(kind, 0) for kind in read) * scan["Actual Loops"] for scan in scans))


_NO_ROWS = Rows(
    now=datetime(2026, 1, 1, tzinfo=UTC),
    session_ids=[UUID(int=0)],
    view_ids=[UUID(int=0)],
    middle=(UUID(int=0), datetime(2026, 1, 1, tzinfo=UTC)),
    device=UUID(int=0),
)


@pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", hot_statements(_NO_ROWS))
def test_a_hot_statement_touches_only_what_it_needs(
    connection: psycopg.Connection, rows: Rows, name: str, plan_cache_mode: str
) -> None:
    """No table is read from end to end, no more is sorted than a page, and the partial index is used if there is one.

    The 100,000 Inactive rows cost nothing, and neither do the Active ones beyond the page.
    """
    hot = hot_statements(rows)[name]
    plan = plan_of(connection, hot, plan_cache_mode)
    kinds = {node["Node Type"] for node in nodes(plan)}
    assert "Seq Scan" not in kinds
    touched_max = hot.touched_max
    if plan_cache_mode == "force_custom_plan":
        touched_max = hot.touched_max_for_known_values or touched_max
    assert touched_by(plan) <= touched_max, plan
    assert set(hot.indexes) <= {node.get("Index Name") for node in nodes(plan)}
    sorts = [node for node in nodes(plan) if node["Node Type"] == "Sort"]
    assert all(child["Actual Rows"] <= PAGE for sort in sorts for child in sort["Plans"])


def test_a_session_of_thousands_of_views_is_locked_in_linear_time(connection: psycopg.Connection, rows: Rows) -> None:
    """Phase B cannot split a session: the many views that the planner did not expect are not compared pair by pair."""
    big = rows.session_ids[0]
    with connection.transaction(force_rollback=True):
        connection.execute(
            """insert into user_activity.property_object_views
                   (id, property_object_id, session_id, anonymous_id, view_source, status, created_at, last_activity_at)
               select gen_random_uuid(), gen_random_uuid(), %s, gen_random_uuid(), 'Map', 'Active', now(), now()
               from generate_series(1, 10000)""",
            [big],
        )
        for plan_cache_mode in ("force_custom_plan", "force_generic_plan"):
            locking = Hot(name="lock_open_views", values={"session_ids": [big]}, touched_max=20_007)
            plan = plan_of(connection, locking, plan_cache_mode)
            assert touched_by(plan) <= locking.touched_max
            assert all(node["Actual Loops"] == 1 for node in nodes(plan))
            ids = connection.execute(
                "select array_agg(id) from user_activity.property_object_views where session_id = %s", [big]
            ).fetchone()
            assert ids is not None
            closing = Hot(
                name="close_views", values=_closing(ids[0], rows), touched_max=10_003 + ACTIVE * VIEWS_A_SESSION
            )
            assert touched_by(plan_of(connection, closing, plan_cache_mode)) <= closing.touched_max

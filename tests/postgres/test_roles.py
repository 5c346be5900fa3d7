"""What each group role of deploy/roles.sql may do on a migrated database, and what it may not (specification §6)."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier, Literal

from adapters.postgres.migrations import migrate, status
from adapters.postgres.outbox_store import PostgresOutboxStore
from application.ports.deliveries import Held, Lease, Refused

_ROLES = Path(__file__).parents[2] / "deploy" / "roles.sql"
_SESSION = UUID("00000000-0000-7000-8000-000000000001")
_VIEW = UUID("00000000-0000-7000-8000-000000000002")
_EVENT = UUID("00000000-0000-7000-8000-000000000003")
_ADDRESS = "203.0.113.77"
_USER_AGENT = "Device/1.0"

_ROWS = f"""
    insert into user_activity.sessions
    values ('{_SESSION}', gen_random_uuid(), null, 'Active', '{_ADDRESS}', '{_USER_AGENT}',
            '2026-01-01 10:00Z', '2026-01-01 09:00Z');
    insert into user_activity.property_object_views
    values ('{_VIEW}', gen_random_uuid(), '{_SESSION}', gen_random_uuid(), 'Map', '{{}}', 'Active',
            '2026-01-01 10:00Z', '2026-01-01 10:05Z');
    insert into user_activity.outbox
    values ('{_EVENT}', 'Session', '{_SESSION}', 'SessionEndedKafkaEvent', 1, 'topic', '{{}}', gen_random_uuid(), null,
            '2026-01-01 10:12Z')"""

_INSERT_EVENT = """
    insert into user_activity.outbox (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload,
                                      correlation_id, occurred_at)
    values (gen_random_uuid(), 'Session', gen_random_uuid(), 'SessionEndedKafkaEvent', 1, 'topic', '{}',
            gen_random_uuid(), '2026-01-01 10:12Z')"""

_READS_SESSIONS = """
    select id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration
      from user_activity.sessions"""
_READS_VIEWS = """
    select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
           last_activity_at, ended_at, duration
      from user_activity.property_object_views"""
_READS_VERSION = "select version_num from user_activity.activity_closer_schema_version"
_READS_OUTBOX = "select * from user_activity.outbox"
_CLOSES = "set status = 'Inactive', ended_at = '2026-01-01 10:12Z', duration = interval '1 s'"
_MARKS = "update user_activity.outbox set published_at = '2026-01-01 10:13Z'"
_DELETES_EVENTS = "delete from user_activity.outbox"
_REFUSES = "update user_activity.outbox set refusals = 1, cause = 'too_large', next_attempt_at = null, dead_at = null"
_ONE_SLICE = "where slice = 3"
_LEASES = f"update user_activity.outbox_slices set lease = gen_random_uuid(), leased_until = null {_ONE_SLICE}"
_READS_SLICES = f"select * from user_activity.outbox_slices {_ONE_SLICE}"

_ALLOWED = {
    "activity_closer": (
        f"{_READS_SESSIONS} where status = 'Active' for update skip locked",
        f"{_READS_VIEWS} where status = 'Active' for update skip locked",
        f"update user_activity.sessions {_CLOSES}",
        f"update user_activity.property_object_views {_CLOSES}",
        _INSERT_EVENT,
        _READS_VERSION,
    ),
    "activity_publisher": (
        f"{_READS_OUTBOX} for update skip locked",
        _MARKS,
        _REFUSES,
        _DELETES_EVENTS,
        f"{_READS_SLICES} for update skip locked",
        _LEASES,
        _READS_VERSION,
    ),
    "activity_reader": (_READS_SESSIONS, _READS_VIEWS, _READS_OUTBOX, _READS_SLICES, _READS_VERSION),
}

_DDL = (
    "create table user_activity.more (id int)",
    "alter table user_activity.sessions add column more int",
    "create index on user_activity.sessions (user_id)",
    "drop table user_activity.outbox",
    "truncate user_activity.outbox",
    "update user_activity.activity_closer_schema_version set version_num = '9999'",
)
_READS_DEVICE = (
    "select * from user_activity.sessions",
    "select device_ip_address from user_activity.sessions",
    "select device_user_agent from user_activity.sessions",
    "select id from user_activity.sessions where device_ip_address = '203.0.113.77'",
)

_REFUSED = {
    "activity_closer": (
        *_DDL,
        *_READS_DEVICE,
        _READS_OUTBOX,
        _MARKS,
        _DELETES_EVENTS,
        _LEASES,
        "update user_activity.sessions set last_activity_at = created_at",
        "update user_activity.sessions set device_ip_address = null",
        "update user_activity.property_object_views set session_id = id",
        "delete from user_activity.sessions",
        "delete from user_activity.property_object_views",
        "insert into user_activity.sessions (id) values (gen_random_uuid())",
        "update user_activity.sessions set status = 'Inactive' returning device_user_agent",
    ),
    "activity_publisher": (
        *_DDL,
        *_READS_DEVICE,
        _INSERT_EVENT,
        "select id from user_activity.sessions",
        "select id from user_activity.property_object_views",
        "update user_activity.sessions set status = 'Inactive'",
        "insert into user_activity.outbox_slices (slice) values (16)",
        f"update user_activity.outbox_slices set slice = 16 {_ONE_SLICE}",
        "delete from user_activity.outbox_slices",
    ),
    "activity_reader": (
        *_DDL,
        *_READS_DEVICE,
        _INSERT_EVENT,
        _MARKS,
        _DELETES_EVENTS,
        _LEASES,
        "select id from user_activity.sessions for update",
        "update user_activity.sessions set status = 'Inactive'",
        "delete from user_activity.property_object_views",
    ),
}


def apply_roles(dsn: str) -> None:
    """Run deploy/roles.sql as an administrator does."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_ROLES.read_bytes())


@contextmanager
def login_role(dsn: str, group: str | None = None) -> Iterator[str]:
    """Yield the connection string of a login user, a member of the group if one is given, who is dropped at the end."""
    name = f"login_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as administrator:
        administrator.execute(
            SQL("create role {} login password {}").format(Identifier(name), Literal(name))
            + (SQL(" in role {}").format(Identifier(group)) if group else SQL(""))
        )
        try:
            yield make_conninfo(dsn, user=name, password=name)
        finally:
            administrator.execute(SQL("drop role {}").format(Identifier(name)))


@pytest.fixture
def guarded_database(database: str) -> str:
    """The connection string of a migrated database with roles and one row in each table."""
    apply_roles(database)
    with psycopg.connect(database) as connection:
        connection.execute(_ROWS.encode())
    return database


@pytest.mark.parametrize("group", _ALLOWED)
def test_a_role_may_do_its_work(guarded_database: str, group: str) -> None:
    """Specification §6: each role has the rights that its process needs, and each of them touches a row."""
    with login_role(guarded_database, group) as login, psycopg.connect(login) as connection:
        for statement in _ALLOWED[group]:
            assert connection.execute(statement.encode()).rowcount == 1, statement
            connection.rollback()


@pytest.mark.parametrize("group", _REFUSED)
def test_a_role_may_do_nothing_else(guarded_database: str, group: str) -> None:
    """Specification §6: no DDL, no device columns, no writes beyond a role's work: each is refused with 42501."""
    with login_role(guarded_database, group) as login, psycopg.connect(login, autocommit=True) as connection:
        answers = {statement: _sqlstate(connection, statement) for statement in _REFUSED[group]}
    assert answers == dict.fromkeys(_REFUSED[group], "42501")


def test_the_publisher_may_do_all_that_its_ports_ask(guarded_database: str) -> None:
    """Specification §6: deliveries and upkeep need no right beyond the role's."""
    with (
        login_role(guarded_database, "activity_publisher") as login,
        closing(PostgresOutboxStore(login)) as store,
        closing(PostgresOutboxStore(guarded_database)) as owner,
    ):
        use_every_right(store)
        with owner.begin() as unit_of_work:
            assert unit_of_work.upkeep.status().pending == 0


def use_every_right(store: PostgresOutboxStore) -> None:
    """Call each method of both ports at least once, and end with an empty outbox."""
    now = store.clock.read()
    lease = Lease(id=_SESSION, begins=now, ends=now)
    refused = Refused(message_id=_EVENT, refusals=1, cause="too_large", next_attempt_at=None)
    with store.begin() as unit_of_work:
        deliveries, upkeep = unit_of_work.deliveries, unit_of_work.upkeep
        assert len(deliveries.lease(lease, limit=1, held=Held())) == 1
        deliveries.record_refused([refused], now)
        deliveries.release(lease)
        assert upkeep.status().dead == {"too_large": 1}
        assert upkeep.dead(None, 1) == [upkeep.find_dead(_EVENT)]
        assert upkeep.retry([_EVENT]) == 1
        assert upkeep.discard([_EVENT]) == 0
        assert upkeep.remove_occurred(now - timedelta(days=36500), 1) == 0
        assert deliveries.count_due(now) == 1
        deliveries.record_delivered([_EVENT], now)
        assert upkeep.remove_published(now + timedelta(seconds=1), 1) == 1
        unit_of_work.commit()


def test_the_closer_closes_without_the_publishers_rights(guarded_database: str) -> None:
    """Specification §6: the event that the closer adds gets the publisher's columns without a right on them."""
    with login_role(guarded_database, "activity_closer") as login, psycopg.connect(login) as connection:
        connection.execute(_INSERT_EVENT.encode())
    with psycopg.connect(guarded_database) as owner:
        added = owner.execute("select refusals, dead_at from user_activity.outbox where id <> %s", [_EVENT])
        assert added.fetchall() == [(0, None)]


def test_the_roles_fit_where_others_read_the_outbox(empty_database: str) -> None:
    """Without a publisher of ours there are no slices, and the roles are applied all the same."""
    migrate(empty_database, has_publisher=False)
    apply_roles(empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute(_ROWS.encode())
    with (
        login_role(empty_database, "activity_publisher") as login,
        closing(PostgresOutboxStore(login)) as store,
        store.begin() as unit_of_work,
    ):
        assert unit_of_work.upkeep.remove_occurred(datetime(2027, 1, 1, tzinfo=UTC), 1) == 1


def test_the_detail_of_a_failing_row_hides_the_device(guarded_database: str) -> None:
    """Specification §6: for the closer not even an error's DETAIL shows the device, as it does for the owner."""
    failing = b"update user_activity.sessions set duration = last_activity_at - created_at"
    with psycopg.connect(guarded_database) as owner, pytest.raises(psycopg.errors.CheckViolation) as shown:
        owner.execute(failing)
    assert _ADDRESS in str(shown.value.diag.message_detail)
    with (
        login_role(guarded_database, "activity_closer") as login,
        psycopg.connect(login) as connection,
        pytest.raises(psycopg.errors.CheckViolation) as hidden,
    ):
        connection.execute(failing)
    assert str(_SESSION) in str(hidden.value.diag.message_detail)
    assert _ADDRESS not in str(hidden.value)
    assert _USER_AGENT not in str(hidden.value)


def test_the_roles_can_be_applied_again(guarded_database: str) -> None:
    """Running deploy/roles.sql twice changes no right."""
    before = _rights(guarded_database)
    apply_roles(guarded_database)
    assert _rights(guarded_database) == before


def test_the_group_roles_cannot_log_in(guarded_database: str) -> None:
    """Specification §6: rights are granted to groups; who logs in is the operator's decision."""
    with psycopg.connect(guarded_database) as connection:
        row = connection.execute(
            "select count(*), bool_or(rolcanlogin or rolsuper or rolcreaterole or rolcreatedb) from pg_roles"
            " where rolname in ('activity_closer', 'activity_publisher', 'activity_reader')"
        ).fetchone()
    assert row == (3, False)


def _sqlstate(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> str | None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as refusal:
        return refusal.sqlstate
    return None


def _rights(dsn: str) -> list[tuple[str, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select relname::text, relacl::text, null from pg_class"
            " where relnamespace = 'user_activity'::regnamespace"
            " union all"
            " select attrelid::regclass::text, attname::text, attacl::text from pg_attribute where attacl is not null"
            " union all"
            " select nspname::text, nspacl::text, null from pg_namespace"
            " order by 1, 2, 3"
        ).fetchall()


@pytest.mark.parametrize("group", ["activity_closer", "activity_publisher", "activity_reader"])
def test_each_role_may_ask_for_the_schemas_version(guarded_database: str, group: str) -> None:
    """`migrate --status` is among an operator's first commands, whoever's login is at hand."""
    with login_role(guarded_database, group) as dsn:
        found = status(dsn)
    assert (found.pending, found.missing) == ((), ())

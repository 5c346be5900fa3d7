"""What a publisher needs in the outbox is there where one reads it, and only there (specification §6)."""

import signal
import subprocess
import sys
from importlib.resources import files

import psycopg
import pytest

from adapters.postgres.migrations import MigrationRefused, migrate, sql, status
from tests.postgres.test_migrations import run_by_psql
from tests.postgres.test_migrations_adoption import execute
from tests.postgres.test_migrations_convergence import make_service_tables, schema_listing
from tests.postgres.test_migrations_interruption import index_begun, wait_until

_PARTS = (
    "column outbox.refusals integer not null default 0",
    "column outbox.next_attempt_at timestamp with time zone",
    "column outbox.cause text",
    "column outbox.dead_at timestamp with time zone",
    "constraint outbox_slices_pkey on user_activity.outbox_slices PRIMARY KEY (slice)",
    "ix_outbox_pending",
    "ix_outbox_published",
    "ix_outbox_dead",
)
_MIGRATIONS_UNDER_WAY = """
    select pid from pg_stat_activity
     where application_name = 'activity-closer migrate' and datname = current_database()"""
_INDEXES = ("ix_outbox_pending", "ix_outbox_published", "ix_outbox_dead")


def parts_of(dsn: str) -> list[str]:
    """Which of the publisher's parts a database has."""
    listing = "\n".join(schema_listing(dsn))
    return [part for part in _PARTS if part in listing]


def slices_of(dsn: str) -> list[tuple[object, ...]]:
    """The rows of the slices."""
    return execute(dsn, "select slice, lease, leased_until from user_activity.outbox_slices order by slice")


def make_schema_as_released(dsn: str) -> None:
    """Make the schema as version 0001 left it before there was a publisher, with an event in the outbox."""
    migrate(dsn, has_publisher=False)
    assert parts_of(dsn) == []
    execute(
        dsn,
        "insert into user_activity.outbox (id, aggregate_type, aggregate_id, event_type, contract_version, topic,"
        " payload, correlation_id, occurred_at) values (gen_random_uuid(), 'Session', gen_random_uuid(),"
        " 'SessionEndedKafkaEvent', 1, 'topic', '{}', gen_random_uuid(), '2026-01-01 10:12Z')",
    )


def test_a_publisher_finds_all_its_parts(database: str) -> None:
    """A new database has the columns, the indexes, and a row for each of sixteen slices, leased by nobody."""
    assert parts_of(database) == list(_PARTS)
    assert slices_of(database) == [(number, None, None) for number in range(16)]


def test_a_released_schema_gets_them(empty_database: str, database: str) -> None:
    """A schema that was migrated before there was a publisher, with events in it, becomes as a new one."""
    make_schema_as_released(empty_database)
    before = status(empty_database)
    assert before.pending == ()
    report = migrate(empty_database)
    assert report.done == before.missing
    assert "refusals, next_attempt_at, cause, dead_at to user_activity.outbox" in report.done[0]
    assert schema_listing(empty_database) == schema_listing(database)
    assert execute(empty_database, "select refusals, dead_at from user_activity.outbox") == [(0, None)]
    assert migrate(empty_database).done == ()


def test_an_adopted_outbox_gets_them(empty_database: str, database: str) -> None:
    """The service's own outbox is adopted with them: only what it lacks is added."""
    make_service_tables(empty_database)
    creation = files("adapters.postgres.migrations").joinpath("sql", "0001_outbox.sql").read_text(encoding="utf-8")
    execute(empty_database, f"{creation}; alter table user_activity.outbox add column cause text")
    report = migrate(empty_database)
    assert "adding columns refusals, next_attempt_at, dead_at to user_activity.outbox" in report.done
    assert schema_listing(empty_database) == schema_listing(database)


def test_the_script_leads_there_too(empty_database: str, database: str) -> None:
    """`migrate --sql` on a released schema: psql runs its output and arrives at the same schema and rows."""
    make_schema_as_released(empty_database)
    run_by_psql(sql(empty_database), empty_database)
    assert schema_listing(empty_database) == schema_listing(database)
    assert slices_of(empty_database) == slices_of(database)
    assert sql(empty_database).startswith("-- nothing to do")


def test_without_a_publisher_nothing_of_it_is_added(empty_database: str) -> None:
    """Where Debezium reads the outbox it is as version 0001 describes it, and nothing is missing."""
    migrate(empty_database, has_publisher=False)
    assert parts_of(empty_database) == []
    assert status(empty_database, has_publisher=False).missing == ()
    assert sql(empty_database, has_publisher=False).startswith("-- nothing to do")


def test_indexes_that_would_grow_for_ever_are_dropped(database: str) -> None:
    """From the publisher to Debezium and back: its indexes go and come, by name; columns and slices stay.

    Nobody marks events as published then, so all of them would stay in the index of the pending ones.
    """
    whole = schema_listing(database)
    expected = tuple(f"dropping index user_activity.{name}, which only a publisher of ours needs" for name in _INDEXES)
    assert status(database, has_publisher=False).missing == expected
    run_by_psql(sql(database, has_publisher=False), database)
    assert parts_of(database) == list(_PARTS[:5])
    assert len(migrate(database).done) == len(_INDEXES)
    assert schema_listing(database) == whole
    assert migrate(database, has_publisher=False).done == expected
    assert migrate(database, has_publisher=False).done == ()
    assert len(slices_of(database)) == 16


def test_an_index_of_the_service_is_not_dropped(empty_database: str) -> None:
    """What only bears the name of ours may serve somebody else."""
    migrate(empty_database, has_publisher=False)
    execute(empty_database, "create index ix_outbox_published on user_activity.outbox (published_at)")
    assert migrate(empty_database, has_publisher=False).done == ()
    assert "ix_outbox_published" in parts_of(empty_database)


@pytest.mark.parametrize(
    "loss",
    [
        "alter table user_activity.outbox drop column refusals",
        "alter table user_activity.outbox drop column next_attempt_at, drop column cause",
        "alter table user_activity.outbox drop column dead_at",
        "drop index user_activity.ix_outbox_pending",
        "drop index user_activity.ix_outbox_published",
        "drop index user_activity.ix_outbox_dead",
        "drop table user_activity.outbox_slices",
        "delete from user_activity.outbox_slices where slice in (3, 15)",
        "truncate user_activity.outbox_slices",
        "drop table user_activity.outbox",
    ],
)
def test_from_wherever_a_run_stopped_the_next_one_arrives(database: str, empty_database: str, loss: str) -> None:
    """Whatever is missing, through an interruption or by hand, is added again, slices without a row included."""
    execute(database, "update user_activity.outbox_slices set leased_until = '2026-01-01 10:00Z' where slice = 4")
    execute(database, loss)
    missing = status(database).missing
    assert missing
    assert migrate(database).done == missing
    migrate(empty_database)
    assert schema_listing(database) == schema_listing(empty_database)
    assert [row[0] for row in slices_of(database)] == list(range(16))
    assert migrate(database).done == ()


def test_an_index_build_that_was_killed_is_completed(database: str, empty_database: str) -> None:
    """Kill -9 while an index of the outbox is being built: the invalid rest is dropped and built again, by name."""
    program = "import sys; from adapters.postgres.migrations import migrate; migrate(sys.argv[1])"
    execute(database, "drop index user_activity.ix_outbox_pending")
    with psycopg.connect(database) as write:
        write.execute("delete from user_activity.outbox")
        with subprocess.Popen([sys.executable, "-c", program, database]) as process:
            wait_until(lambda: index_begun(database, "ix_outbox_pending"))
            process.send_signal(signal.SIGKILL)
        # The build ends with the client that asked for it, although the write it waits for goes on.
        wait_until(lambda: not execute(database, _MIGRATIONS_UNDER_WAY))
        write.rollback()
    assert [line.split(",")[0] for line in migrate(database).done] == [
        "dropping invalid index user_activity.ix_outbox_pending",
        "building index user_activity.ix_outbox_pending concurrently",
    ]
    migrate(empty_database)
    assert schema_listing(database) == schema_listing(empty_database)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            "alter table user_activity.outbox alter refusals type bigint",
            "user_activity.outbox.refusals is bigint, must be integer",
        ),
        (
            "alter table user_activity.outbox alter refusals drop not null",
            "user_activity.outbox.refusals may be null, must be not null with a default of 0",
        ),
        (
            "alter table user_activity.outbox alter cause type varchar(10)",
            "user_activity.outbox.cause is character varying(10), must be text",
        ),
        (
            "alter table user_activity.outbox alter next_attempt_at type timestamp",
            "user_activity.outbox.next_attempt_at is timestamp without time zone, must be timestamp with time zone",
        ),
        (
            "drop table user_activity.outbox_slices; create view user_activity.outbox_slices as select 1 as slice",
            "user_activity.outbox_slices is no ordinary table, must be one (a partitioned table is not supported)",
        ),
        (
            "alter table user_activity.outbox_slices drop constraint outbox_slices_pkey",
            "user_activity.outbox_slices has no primary key on (slice), must have one",
        ),
        (
            "alter table user_activity.outbox_slices drop column lease",
            "user_activity.outbox_slices.lease is missing, must be a column of type uuid",
        ),
        (
            (
                "drop index user_activity.ix_outbox_pending;"
                " create index ix_outbox_pending on user_activity.outbox (id) where published_at is null"
            ),
            (
                "user_activity.ix_outbox_pending must be on (((get_byte(uuid_send(id), 15) & 15)), id)"
                " where published_at is null and dead_at is null: drop or rename what is there"
                " (CREATE INDEX ix_outbox_pending ON user_activity.outbox USING btree (id)"
                " WHERE (published_at IS NULL))"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(database: str, change: str, finding: str) -> None:
    """Before anything is changed; where there is no publisher, it is none of our business."""
    execute(database, change)
    before = schema_listing(database)
    for attempt in (migrate, sql):
        with pytest.raises(MigrationRefused) as refusal:
            attempt(database)
        assert refusal.value.findings == (finding,)
    assert schema_listing(database) == before
    assert status(database).missing == ()
    migrate(database, has_publisher=False)

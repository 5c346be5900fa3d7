"""`activity-closer audit` as its user meets it: what it says, and its exit codes (specification §10)."""

import json
import socket
from typing import Any

import pytest

from tests.end_to_end.activity_tables import ActivityTables
from tests.end_to_end.program import Ending, run, run_once
from tests.postgres.test_roles import apply_roles, login_role

NOTHING_FOUND = "violations: 0, warnings: 0"


def audit(database: str, *arguments: str, **settings: str) -> Ending:
    return run("audit", *arguments, database_url=database, **settings)


def report_of(ended: Ending) -> Any:
    """The one line of JSON."""
    [line] = ended.stdout
    return json.loads(line)


@pytest.fixture
def tables(empty_database: str) -> ActivityTables:
    """A database that was migrated, and used, by the program itself."""
    assert run("migrate", database_url=empty_database).exit_code == 0
    tables = ActivityTables(empty_database)
    tables.add_sessions(20, views=2)
    tables.add_sessions(5, views=1, silent="1 min")
    assert run_once(empty_database).exit_code == 0
    return tables


def test_a_healthy_database(tables: ActivityTables) -> None:
    """0; the result on stdout is a line, how much was looked through is on stderr."""
    ended = audit(tables.dsn)
    assert (ended.exit_code, ended.stdout) == (0, (NOTHING_FOUND,))
    assert ended.stderr == ("looked through: 25 sessions, 45 views, 60 events",)
    ended = audit(tables.dsn, "--output", "json")
    assert ended.exit_code == 0
    assert report_of(ended) == {
        "violations": 0,
        "warnings": 0,
        "examined": {"sessions": 25, "views": 45, "events": 60},
        "findings": [],
    }


def test_findings_are_told_by_their_ids(tables: ActivityTables) -> None:
    """3; each kind with its number and a few examples; nothing personal, in either form."""
    lost = tables.execute("delete from user_activity.outbox where aggregate_type = 'Session' returning aggregate_id")
    [(event, view)] = tables.execute(
        """update user_activity.outbox set payload = payload || '{"viewSource": "Elsewhere", "anonymousId": null}'
           where id = (select min(id::text)::uuid from user_activity.outbox) returning id, aggregate_id"""
    )

    readable = audit(tables.dsn, "--limit", "3")
    assert readable.exit_code == 3
    assert readable.stdout[0] == "violation: closed_row_without_event: 20"
    assert readable.stdout[1].split() == ["Session", str(min(row[0] for row in lost))]
    assert readable.stdout[4:] == (
        "  and 17 more",
        "violation: event_differs_from_row: 1",
        f"  PropertyObjectView {view}, events {event} (anonymousId, viewSource)",
        "violations: 21, warnings: 0",
    )

    ended = audit(tables.dsn, "--limit", "1000", "--output", "json")
    assert ended.exit_code == 3
    report = report_of(ended)
    assert (report["violations"], report["warnings"]) == (21, 0)
    without, differing = report["findings"]
    assert (without["kind"], without["isWarning"], without["count"]) == ("closed_row_without_event", False, 20)
    assert [one["aggregateId"] for one in without["examples"]] == sorted(str(row[0]) for row in lost)
    assert differing["examples"] == [
        {
            "aggregateType": "PropertyObjectView",
            "aggregateId": str(view),
            "eventIds": [str(event)],
            "differences": ["anonymousId", "viewSource"],
        }
    ]
    tables.assert_nothing_personal_in(readable.text + ended.text)


def test_warnings_alone_are_no_violation(tables: ActivityTables) -> None:
    """0; they are said all the same."""
    tables.execute(
        """update user_activity.sessions set created_at = created_at + interval '1 day',
                                             last_activity_at = last_activity_at + interval '1 day'
           where status = 'Inactive'"""
    )
    tables.execute("delete from user_activity.outbox where aggregate_type = 'Session'")
    ended = audit(tables.dsn, "--limit", "0", delivery="debezium")
    assert (ended.exit_code, ended.stdout) == (
        0,
        ("warning: ended_before_last_activity: 20", "violations: 0, warnings: 20"),
    )


def test_the_settings_it_judges_by(tables: ActivityTables) -> None:
    """Events are looked for while they are kept, unless somebody else empties the outbox; rows are overdue in time."""
    tables.execute("delete from user_activity.outbox")
    assert audit(tables.dsn).exit_code == 3
    assert audit(tables.dsn, outbox_retention="30s").exit_code == 0
    assert audit(tables.dsn, delivery="debezium").exit_code == 0
    tables.add_sessions(1, silent="22 min")
    assert audit(tables.dsn, delivery="debezium").exit_code == 0
    overdue = audit(tables.dsn, delivery="debezium", inactivity_threshold="10m")
    assert (overdue.exit_code, overdue.stdout[0]) == (3, "violation: overdue_active_row: 1")


def test_the_readers_role_is_enough(tables: ActivityTables) -> None:
    """The rights of deploy/roles.sql do; without one of them: 77, named, and no result."""
    apply_roles(tables.dsn)
    with login_role(tables.dsn, "activity_reader") as reader:
        assert audit(reader).stdout == (NOTHING_FOUND,)
        tables.execute("revoke select on user_activity.outbox from activity_reader")
        refused = audit(reader)
    assert (refused.exit_code, refused.stdout) == (77, ())
    assert "permission denied for table outbox" in refused.said[-1]


def test_a_database_that_is_not_migrated(empty_database: str) -> None:
    """69, with the hint."""
    ended = audit(empty_database)
    assert (ended.exit_code, ended.stdout) == (69, ())
    assert "run `activity-closer migrate`" in ended.said[0]


def test_a_database_that_does_not_answer() -> None:
    """69."""
    with socket.socket() as taken_by_nobody:
        taken_by_nobody.bind(("127.0.0.1", 0))  # and no listen: it refuses
        ended = audit(f"postgresql://reader:geheim@127.0.0.1:{taken_by_nobody.getsockname()[1]}/activity")
    assert (ended.exit_code, ended.stdout) == (69, ())
    assert "Connection refused" in ended.said[0]
    assert "geheim" not in ended.text


@pytest.mark.parametrize("settings", [{}, {"store": "sqlite_store:open_store"}, {"outbox_retention": "a week"}])
def test_wrong_configuration(settings: dict[str, str]) -> None:
    """78: no database, another store than PostgreSQL, a setting that cannot be read."""
    ended = run("audit", **settings)
    assert (ended.exit_code, ended.stdout, len(ended.said)) == (78, (), 1)


def test_wrong_usage() -> None:
    """2: there are no fewer examples than none."""
    assert run("audit", "--limit", "-1").exit_code == 2

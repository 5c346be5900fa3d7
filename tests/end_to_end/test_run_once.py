"""The whole way on the command line: migrate, rows of the service, `run --once`."""

import json
import random
from pathlib import Path
from uuid import UUID

import pytest

from adapters.embedded import temporary_data_directory
from tests.databases import OwnServer
from tests.end_to_end.activity_tables import ActivityTables, Counts
from tests.end_to_end.faulty_proxy import FaultyProxy
from tests.end_to_end.program import Program, run, run_once, wait_until


def test_from_an_empty_database_to_closed_rows(empty_database: str) -> None:
    """Exactly the stale rows are closed, with exact durations and one event each; a second run finds nothing."""
    migrated = run("migrate", database_url=empty_database)
    assert (migrated.exit_code, migrated.stdout) == (0, ())
    tables = ActivityTables(empty_database)
    tables.add_sessions(30, silent="20 min", views=2)
    tables.add_sessions(20, silent="13 min", views=3, views_silent="1 min")
    tables.add_sessions(10, silent="11 min", views=1, views_silent="14 min")
    tables.add_sessions(40, silent="1 min", views=1)

    ended = run_once(empty_database)

    assert ended.exit_code == 0
    assert ended.said == []
    assert tables.counts() == Counts(
        active_sessions=50, active_views=40, inactive_sessions=50, inactive_views=130, events=180
    )
    tables.assert_rules_hold()
    tables.assert_nothing_personal_in(ended.text)
    again = run_once(empty_database)
    assert again.exit_code == 0
    assert (again.result["closedSessions"], again.result["closedViews"]) == (0, 0)
    assert tables.counts().events == 180


def test_the_result_is_one_line_of_json(database: str) -> None:
    """Specification §10: the last line of stdout has the report, under the names and with the types that are fixed."""
    tables = ActivityTables(database)
    tables.add_sessions(3, views=2)

    ended = run_once(database)

    assert len(ended.stdout) == 1
    result = dict(ended.result)
    assert UUID(result.pop("jobRunId")).version == 7
    assert isinstance(result.pop("durationMs"), int)
    assert result == {
        "outcome": "completed",
        "closedSessions": 3,
        "closedViews": 6,
        "deferredSessions": 0,
        "failedItems": 0,
        "backlogRemaining": {"sessions": 0, "views": 0},
    }
    assert ended.log[0]["event"] == "job started"
    assert ended.log[-1]["event"] == "job completed"
    assert ended.log[-1].items() >= {**result, "jobRunId": ended.result["jobRunId"]}.items()


def test_the_run_limit_ends_a_run_in_order(database: str) -> None:
    """MaxRunDuration: exit code 0, outcome `stopped`, what was closed is whole, and the rest is counted."""
    tables = ActivityTables(database)
    tables.add_sessions(50)
    tables.slow_down(seconds_a_row=0.05)

    ended = run_once(database, max_run_duration="500ms")

    assert (ended.exit_code, ended.result["outcome"]) == (0, "stopped")
    assert 0 < ended.result["closedSessions"] < 50
    assert ended.result["backlogRemaining"]["sessions"] == tables.counts().active_sessions
    tables.assert_rules_hold()


def test_rows_that_fail_are_findings(database: str) -> None:
    """Specification §10: a bad row costs only itself, and the exit code of a run that met one is 3."""
    tables = ActivityTables(database)
    tables.add_sessions(20)
    tables.execute(
        "update user_activity.sessions set created_at = last_activity_at + interval '1 min'"
        " where id = (select min(id::text)::uuid from user_activity.sessions)"
    )

    ended = run_once(database)

    assert ended.exit_code == 3
    assert (ended.result["failedItems"], ended.result["closedSessions"]) == (1, 19)
    assert len([line for line in ended.log if line["event"] == "item failed"]) == 1
    tables.assert_rules_hold()
    tables.assert_nothing_personal_in(ended.text)


def test_a_single_instance_is_refused_while_another_works(database: str) -> None:
    """D-09: with the lock held elsewhere nothing is closed, and `--once` ends with 75."""
    tables = ActivityTables(database)
    tables.add_sessions(20)
    tables.slow_down(seconds_a_row=0.2)
    with Program("run", "--once", database_url=database, single_instance="on") as first:
        wait_until(lambda: tables.closed() > 0)
        refused = run_once(database, single_instance="on")
        assert (refused.exit_code, refused.result["outcome"]) == (75, "skipped")
        assert (refused.result["closedSessions"], refused.result["backlogRemaining"]) == (0, None)
        assert first.ending().result["closedSessions"] == 20
    tables.assert_rules_hold()


@pytest.mark.slow
@pytest.mark.parametrize(("sessions", "connections"), [(5000, "1"), (1000, "3")])
def test_four_instances_share_a_backlog(database: str, sessions: int, connections: str) -> None:
    """INV-SES-006, INV-LV-008: each row is closed by one of four processes, and their counts add up to all rows.

    What one of them leaves because another one holds it (D-03, D-04) is a later run's.
    """
    tables = ActivityTables(database)
    tables.add_sessions(sessions // 2, views=1)
    tables.add_sessions(sessions // 2, views=1, views_silent="1 min")
    instances = [Program("run", "--once", database_url=database, connections=connections) for _ in range(4)]
    endings = []
    for instance in instances:
        with instance:
            endings.append(instance.ending())

    assert [ending.exit_code for ending in endings] == [0] * 4
    assert [ending.said for ending in endings] == [[]] * 4
    left = sessions - sum(ending.result["closedSessions"] for ending in endings)
    assert left == tables.counts().active_sessions <= sum(ending.result["deferredSessions"] for ending in endings)
    tables.assert_rules_hold()
    endings.append(run_once(database))
    assert endings[-1].result["closedSessions"] == left
    assert sum(ending.result["closedViews"] for ending in endings) == sessions
    assert tables.counts() == Counts(
        active_sessions=0, active_views=0, inactive_sessions=sessions, inactive_views=sessions, events=2 * sessions
    )
    tables.assert_rules_hold()


@pytest.mark.slow
def test_killed_runs_leave_nothing_torn_and_nothing_twice(database: str) -> None:
    """SIGKILL at ten random moments of a run: what is closed is whole, and the next run completes the rest."""
    sessions, kills = 1200, 10
    moments = random.Random(20261201)  # noqa: S311 (no secret)
    tables = ActivityTables(database)
    tables.add_sessions(sessions // 2, views=1)
    tables.add_sessions(sessions // 2, views=2, views_silent="1 min")
    tables.slow_down(seconds_a_row=0.001)
    for round_number in range(kills):
        closed = tables.closed()
        aim = closed + moments.randint(1, 100)
        with Program("run", "--once", database_url=database, batch_size="50") as doomed:
            wait_until(lambda aim=aim: tables.closed() >= aim)  # type: ignore[misc]
            doomed.kill()
            assert doomed.ending().exit_code == -9, f"round {round_number} was over before it was killed"
        tables.assert_rules_hold()
    assert tables.counts().active_sessions > 0

    tables.speed_up()
    wait_until(lambda: tables.backends() == 0)
    ended = run_once(database)

    assert (ended.exit_code, ended.result["outcome"]) == (0, "completed")
    assert tables.counts() == Counts(
        active_sessions=0,
        active_views=0,
        inactive_sessions=sessions,
        inactive_views=sessions // 2 * 3,
        events=sessions + sessions // 2 * 3,
    )
    tables.assert_rules_hold()


@pytest.mark.slow
def test_a_crash_of_the_server_in_the_middle_of_a_run(own_server: OwnServer) -> None:
    """D-06: the run says what happened and ends or goes on; the next one completes it, and nothing is closed twice."""
    server = own_server()
    assert run("migrate", database_url=server.dsn()).exit_code == 0
    tables = ActivityTables(server.dsn())
    for _round in range(3):
        tables.add_sessions(100, views=1, views_silent="1 min")
        tables.slow_down(seconds_a_row=0.02)
        aim = tables.closed() + 50
        with Program("run", "--once", database_url=server.dsn()) as program:
            wait_until(lambda aim=aim: tables.closed() >= aim)  # type: ignore[misc]
            server.stop("immediate")
            server.start()
            ended = program.ending()
        # Nothing answered any more, or the reconnection worked and at most the item in hand failed.
        worked = 3 if ended.result["failedItems"] else 0
        assert ended.exit_code == {"failed": 69, "completed": worked}[ended.result["outcome"]]
        assert "Traceback" not in ended.text
        tables.assert_rules_hold()
        tables.speed_up()
    completed = run_once(server.dsn())

    assert (completed.exit_code, completed.result["outcome"]) == (0, "completed")
    assert tables.counts() == Counts(
        active_sessions=0, active_views=0, inactive_sessions=300, inactive_views=300, events=600
    )
    tables.assert_rules_hold()


@pytest.mark.parametrize("sessions_per_transaction", ["1", "10"])
def test_a_commit_whose_answer_is_lost_is_not_done_again(database: str, sessions_per_transaction: str) -> None:
    """INV-SES-006: with each fifth commit's answer lost, rows are still closed once; a retry finds them Inactive."""
    tables = ActivityTables(database)
    with temporary_data_directory() as folder:
        tables.add_sessions(40, views=1, views_silent="1 min")
        tables.add_sessions(40, views=2)
        with FaultyProxy(database, folder=Path(folder), swallow_each=5) as proxy:
            ended = run_once(
                proxy.dsn,
                batch_size="20",
                sessions_per_transaction=sessions_per_transaction,
            )
        assert proxy.swallowed >= 2
        tables.assert_rules_hold()
        tables.assert_nothing_personal_in(ended.text)
        # What was committed without an answer is closed and not counted; what was counted is closed.
        assert ended.result["closedSessions"] + ended.result["closedViews"] <= tables.closed()
        assert run_once(database).exit_code == 0
        assert tables.counts() == Counts(
            active_sessions=0, active_views=0, inactive_sessions=80, inactive_views=120, events=200
        )
        tables.assert_rules_hold()


def test_migrate_says_what_it_did_and_then_nothing(empty_database: str) -> None:
    """A second `migrate` changes nothing; `--status` says so to a program."""
    first = json.loads("\n".join(run("migrate", "--output", "json", database_url=empty_database).stdout))
    second = json.loads("\n".join(run("migrate", "--output", "json", database_url=empty_database).stdout))
    status = json.loads("\n".join(run("migrate", "--status", "--output", "json", database_url=empty_database).stdout))

    assert first["done"]
    assert (second["done"], second["version_before"]) == ([], first["version"])
    assert (status["current"], status["pending"]) == (first["version"], [])

"""The program on somebody else's store: the example in a file of SQLite, named in the settings."""

import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import sqlite_store
from application.contracts.subject import a_session, a_view, put
from domain.activity import ActivityStatus
from tests.contracts.event_schemas import assert_valid
from tests.contracts.sqlite_subject import SqliteSubject
from tests.end_to_end.program import Ending, Program, run

STORES = {"store": "sqlite_store:open_store", "outbox_store": "sqlite_store:open_outbox_store"}


def environment(**variables: str) -> list[str]:
    """A command that starts the program with the example to be imported, and variables of the example's own."""
    env = shutil.which("env")
    assert env
    variables["PYTHONPATH"] = str(Path(sqlite_store.__file__).parent.parent)
    return [env, *(f"{name}={value}" for name, value in variables.items())]


def test_a_run_on_another_store(tmp_path: Path) -> None:
    """`run --once` closes what is stale, with an event each, and the operator's command sees them in the outbox."""
    path = tmp_path / "activity.sqlite"
    before = environment(SQLITE_STORE_PATH=str(path))
    with closing(SqliteSubject(path)) as subject:
        now = subject.store.clock.read()
        stale, alive = a_session(now), a_session(now, idle=timedelta(0))
        views = [a_view(stale, now, idle=timedelta(0)), a_view(alive, now), a_view(alive, now, idle=timedelta(0))]
        put(subject.store, stale, alive, *views)

        ended = run("run", "--once", before=before, **STORES)

        assert (ended.exit_code, ended.said) == (0, [])
        assert (ended.result["closedSessions"], ended.result["closedViews"]) == (1, 2)
        assert ended.result["backlogRemaining"] == {"sessions": 0, "views": 0}
        assert subject.session(alive.id) == alive
        assert subject.view(views[2].id) == views[2]
        closed = [subject.session(stale.id), *(subject.view(view.id) for view in views[:2])]
        assert {row.status for row in closed if row} == {ActivityStatus.INACTIVE}
        messages = subject.messages()
        assert {one.aggregate_id for one in messages} == {stale.id, views[0].id, views[1].id}
        assert len(messages) == 3
        assert_valid(messages)
        assert str(stale.anonymous_id) not in ended.text
    status = run("outbox", "status", before=before, **STORES)
    assert status.stdout[0].split() == ["pending:", "3"]


def test_workers_in_processes_of_their_own(tmp_path: Path) -> None:
    """INV-SES-006: one lock of the file instead of row locks keeps processes apart as well."""
    path = tmp_path / "activity.sqlite"
    with closing(SqliteSubject(path)) as subject:
        now = subject.store.clock.read()
        sessions = [a_session(now) for _ in range(300)]
        put(subject.store, *sessions)
        before = environment(SQLITE_STORE_PATH=str(path))
        workers = [Program("run", "--once", before=before, connections="2", **STORES) for _ in range(2)]
        endings: list[Ending] = []
        for worker in workers:
            with worker:
                endings.append(worker.ending())
        endings.append(run("run", "--once", before=before, **STORES))

        assert sum(ending.result["closedSessions"] for ending in endings) == len(sessions)
        assert endings[-1].result["backlogRemaining"] == {"sessions": 0, "views": 0}
        closed = sorted(message.aggregate_id for message in subject.messages())
        assert closed == sorted(session.id for session in sessions)


def test_a_file_that_is_not_named(tmp_path: Path) -> None:
    """BR-58: wrong configuration ends the program at once; trouble with the file is an unavailable database."""
    unset = run("run", "--once", before=environment(), **STORES)
    assert unset.exit_code == 78
    assert "sqlite_store:open_store" in unset.said[0]
    missing = environment(SQLITE_STORE_PATH=str(tmp_path / "missing" / "activity.sqlite"))
    unavailable = run("run", "--once", before=missing, **STORES)
    assert unavailable.exit_code == 69
    assert "unable to open database file" in unavailable.said[0]

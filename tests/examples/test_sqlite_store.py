"""What only the SQLite store shows: its one lock, its errors, and what its tables rule out."""

import ast
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import sqlite_store
from adapters.in_memory.identifiers import CountingIdentifiers
from adapters.in_memory.observation import NoObservation
from application.close_idle_activity import CloserUseCase
from application.contracts.closer import StopAfter
from application.contracts.subject import a_session, a_view, put
from application.options import CloserOptions
from application.ports.store_errors import (
    AccessDenied,
    ActiveSessionExists,
    LockTimeout,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionRefused,
)
from sqlite_store import SqliteActivityStore
from sqlite_store.connections import LOCK_WAIT_SECONDS_MAX
from sqlite_store.errors import translated
from tests.contracts.sqlite_subject import SqliteSubject


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "activity.sqlite"


@pytest.fixture
def subject(path: Path) -> Iterator[SqliteSubject]:
    with closing(SqliteSubject(path)) as subject:
        yield subject


def test_who_wants_to_write_waits_for_a_short_time(subject: SqliteSubject) -> None:
    """D-03, as far as it goes without row locks: it says that it waited in vain, and readers never wait."""
    session = a_session(subject.store.clock.read())
    put(subject.store, session)
    subject.connection.execute("begin immediate")
    now = subject.store.clock.now()
    with subject.store.begin() as unit_of_work:
        began = subject.store.clock.monotonic()
        assert [one.id for one in unit_of_work.stale_sessions.page(now, None, 10)] == [session.id]
        with pytest.raises(LockTimeout) as refused:
            unit_of_work.stale_sessions.claim([session.id], now)
    assert subject.store.clock.monotonic() - began >= LOCK_WAIT_SECONDS_MAX
    assert refused.value.kind == "SQLITE_BUSY"
    subject.connection.execute("rollback")
    with subject.store.begin() as unit_of_work:
        assert unit_of_work.stale_sessions.claim([session.id], now).rows


@pytest.mark.parametrize(
    ("script", "kind", "name"),
    [
        ("pragma max_page_count = 1; create table t (c)", StoreUnavailable, "SQLITE_FULL"),
        ("pragma query_only = on; create table t (c)", AccessDenied, "SQLITE_READONLY"),
        ("select * from sessions", SchemaMissing, "SQLITE_ERROR"),
        ("create table t (c); select d from t", SchemaMissing, "SQLITE_ERROR"),
        ("create table t (c not null); insert into t values (null)", TransactionRefused, "SQLITE_CONSTRAINT_NOTNULL"),
        (
            """
            create table t (c); insert into t values ('anon-7f3a');
            create trigger r before update on t begin select raise(abort, 'anon-7f3a'); end; update t set c = 1
            """,
            TransactionRefused,
            "SQLITE_CONSTRAINT_TRIGGER",
        ),
        ("select json('{anon-7f3a')", TransactionRefused, "SQLITE_ERROR"),
    ],
)
def test_an_error_has_its_kind(script: str, kind: type[StoreError], name: str) -> None:
    """D-06: what is for the store and what for the row are told apart, and nothing personal is in either text."""
    with pytest.raises(StoreError) as refused, closing(sqlite3.connect(":memory:")) as connection, translated():
        connection.executescript(script)
    assert (type(refused.value), refused.value.kind) == (kind, name)
    assert "7f3a" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """D-06: a missing folder, or a file of another kind, is no fault of any row; once repaired, the store serves."""
    missing, other = tmp_path / "missing" / "activity.sqlite", tmp_path / "other.sqlite"
    other.write_text("not a database, and long enough to be taken for the head of one" * 10)
    with closing(SqliteActivityStore(missing)) as store:
        with pytest.raises(StoreUnavailable, match="SQLITE_CANTOPEN"), store.begin():
            pass
        missing.parent.mkdir()
        put(store, a_session(store.clock.read()))
    with closing(SqliteActivityStore(other)) as store:
        with pytest.raises(StoreUnavailable, match="SQLITE_NOTADB"), store.begin():
            pass
        other.unlink()
        put(store, a_session(store.clock.read()))


def test_a_missing_table_is_named(subject: SqliteSubject) -> None:
    """A table that somebody dropped under a running worker is an operator's to add again."""
    now = subject.store.clock.read()
    with subject.store.begin() as unit_of_work:
        subject.connection.execute("drop table property_object_views")
        with pytest.raises(SchemaMissing, match="no such table: property_object_views"):
            unit_of_work.hanging_views.count(now)


def test_a_refusal_names_columns_and_no_values(subject: SqliteSubject) -> None:
    """`AnonymousId` is in no error's text (specification §8)."""
    session = a_session(subject.store.clock.read())
    put(subject.store, session)
    with pytest.raises(ActiveSessionExists) as refused:
        put(subject.store, a_session(subject.store.clock.now(), anonymous_id=session.anonymous_id))
    assert refused.value.reason == "UNIQUE constraint failed: sessions.anonymous_id"


@pytest.mark.parametrize(
    "change",
    [
        "last_activity_at = 62135596800000000",
        "last_activity_at = 'infinity'",
        "created_at = null",
        "anonymous_id = x'00'",
        "status = 'Idle'",
    ],
)
def test_what_cannot_be_loaded_cannot_be_stored(subject: SqliteSubject, change: str) -> None:
    """D-05: the tables' checks hold against everybody, so that no row is unreadable."""
    put(subject.store, a_session(subject.store.clock.read()))
    with pytest.raises(sqlite3.IntegrityError):
        subject.connection.execute(f"update sessions set {change}")


def test_a_text_that_cannot_be_decoded_costs_only_its_row(subject: SqliteSubject) -> None:
    """The one thing that no check rules out: its row stays Active, its neighbours close, it is not quoted (D-05)."""
    now = subject.store.clock.read()
    session = a_session(now, idle=timedelta(0), lasted=timedelta(hours=1))
    views = [a_view(session, now) for _ in range(5)]
    put(subject.store, session, *views)
    damage = "update property_object_views set view_source = cast(x'616e6f6eff' as text) where id = ?"
    subject.connection.execute(damage, [views[2].id.bytes])
    with pytest.raises(TransactionRefused) as refused, subject.store.begin() as unit_of_work:
        unit_of_work.hanging_views.claim([views[2].id], now)
    assert "anon" not in str(refused.value)
    report = (
        CloserUseCase(
            store=subject.store,
            identifiers=CountingIdentifiers(),
            observation=NoObservation(),
            cancellation=StopAfter(None),
            options=CloserOptions(),
        )
        .run()
        .report
    )
    assert (report.closed_views, report.failed_items) == (4, 1)


def test_it_knows_the_ports_and_the_domain_alone() -> None:
    """An adapter outside of the program needs nothing of it but what the program promises."""
    modules = sorted(Path(sqlite_store.__file__).parent.glob("*.py"))
    imported = {name for module in modules for name in imports_of(ast.parse(module.read_text(encoding="utf-8")))}
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert not {name for name in foreign if not name.startswith(("application.ports.", "domain.", "sqlite_store."))}


def imports_of(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)

"""Version 0001 on any database: what speaks against it, and the steps that are missing."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from adapters.postgres.migrations.catalog import SCHEMA, Catalog, ForeignKey, Index, qualified
from adapters.postgres.migrations.shape import (
    INDEXES,
    ONE_ACTIVE_SESSION,
    OUTBOX,
    PROPERTY_OBJECT_VIEWS,
    SESSIONS,
    TABLES,
    ExpectedIndex,
    ExpectedTable,
    type_finding,
)
from adapters.postgres.migrations.steps import Remark, Step

_ORDINARY_TABLE: Final = "r"
_DELETE_ACTIONS: Final = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}
_FOREIGN_KEY: Final = "fk_property_object_views_session_id"


def findings(catalog: Catalog) -> Iterator[str]:
    """Yield, one line each, what must be put right by hand before version 0001 can be applied."""
    for table in TABLES:
        yield from table_findings(catalog, table)
    for expected in (*INDEXES, ONE_ACTIVE_SESSION):
        yield from index_findings(catalog, expected)


def steps(catalog: Catalog) -> Iterator[Step | Remark]:
    """Yield what version 0001 adds to the database as it is now."""
    for table in TABLES:
        if catalog.relation_kind(table.name) is None:
            yield Step(statement=_creation(table), says=f"creating table {qualified(table.name)}")
        elif table is not OUTBOX:
            yield from _missing_parts(catalog, table)


def one_active_session_steps(catalog: Catalog) -> Iterator[Step | Remark]:
    """Yield how to come to `ux_sessions_active_anonymous_id` on an existing table, as far as its rows allow it.

    Not a part of version 0001 proper: an index that was left out is tried again by each later run.
    """
    if catalog.relation_kind(SESSIONS.name) is None:
        return  # a new table brings the index with it
    index = catalog.index(ONE_ACTIVE_SESSION.name)
    if index is not None and index.valid:
        if not ONE_ACTIVE_SESSION.equals(index):
            yield _accepted(ONE_ACTIVE_SESSION, index)
        return
    if index is not None:
        yield dropping(ONE_ACTIVE_SESSION)
    repeated = catalog.repeated_active_anonymous_id_count()
    if repeated:
        yield left_out_for_repetitions(repeated)
    else:
        yield _building(ONE_ACTIVE_SESSION)


def left_out_for_repetitions(repeated: int) -> Remark:
    """Say that the unique index cannot be built. A count only: the ids are personal data."""
    return Remark(
        text=f"left out unique index {qualified(ONE_ACTIVE_SESSION.name)}: anonymous ids with more than one Active"
        f" session: {repeated}; close the older ones and run migrate again"
    )


def dropping(expected: ExpectedIndex) -> Step:
    """Drop the rest of an interrupted build; as a unique index it would even refuse new rows."""
    return Step(
        statement=f"drop index concurrently {qualified(expected.name)}",
        says=f"dropping invalid index {qualified(expected.name)}, left by an interrupted build",
        concurrent=True,
    )


def table_findings(catalog: Catalog, table: ExpectedTable) -> Iterator[str]:
    """Yield what is wrong with a table that exists."""
    kind = catalog.relation_kind(table.name)
    if kind == _ORDINARY_TABLE:
        yield from column_findings(catalog, table)
        if table.key in catalog.columns(table.name) and not catalog.is_unique_on(table.name, table.key):
            yield f"{qualified(table.name)} has no primary key on ({table.key}), must have one"
    elif kind is not None:
        yield f"{qualified(table.name)} is no ordinary table, must be one (a partitioned table is not supported)"


def column_findings(catalog: Catalog, table: ExpectedTable) -> Iterator[str]:
    """Yield what is wrong with the columns of a table that exists."""
    columns = catalog.columns(table.name)
    for name, expected_type in [*table.required.items(), *table.addable.items()]:
        column = columns.get(name)
        if column is None:
            if name in table.required:
                yield f"{qualified(table.name)}.{name} is missing, must be a column of type {expected_type}"
        elif finding := type_finding(name, column, expected_type):
            yield f"{qualified(table.name)}.{name} {finding}"


def index_findings(catalog: Catalog, expected: ExpectedIndex) -> Iterator[str]:
    """Yield what is wrong with what bears the name of an index."""
    kind = catalog.relation_kind(expected.name)
    if kind is None:
        return
    index = catalog.index(expected.name)
    if index is None or index.table != expected.table:
        yield f"{qualified(expected.name)} is something else than an index of {qualified(expected.table)}: rename it"
    elif index.valid and not expected.unique and not expected.is_served_by(index):
        yield f"{qualified(expected.name)} {expected.demand}: drop or rename what is there ({index.definition})"


def _creation(table: ExpectedTable) -> str:
    source = files("adapters.postgres.migrations").joinpath("sql", f"0001_{table.name}.sql")
    return source.read_text(encoding="utf-8").rstrip()


def _missing_parts(catalog: Catalog, table: ExpectedTable) -> Iterator[Step | Remark]:
    yield from _missing_columns(catalog, table)
    yield from _missing_duration_check(catalog, table)
    if table is PROPERTY_OBJECT_VIEWS:
        yield from _missing_foreign_key(catalog)
    for expected in INDEXES:
        if expected.table == table.name:
            yield from missing_index(catalog, expected)


def _missing_columns(catalog: Catalog, table: ExpectedTable) -> Iterator[Step | Remark]:
    columns = catalog.columns(table.name)
    for name, type_name in table.addable.items():
        if name not in columns:
            yield Step(
                statement=f"alter table {qualified(table.name)} add column {name} {type_name}",
                says=f"adding column {qualified(table.name)}.{name}",
            )
    for name in ("created_at", "last_activity_at", "status"):
        if columns[name].nullable:
            yield Remark(text=f"{qualified(table.name)}.{name} may be null: rows without it are never closed")


def _missing_duration_check(catalog: Catalog, table: ExpectedTable) -> Iterator[Step | Remark]:
    name = table.duration_check
    assert name is not None
    if not catalog.has_check(table.name, name):
        yield Step(
            statement=f"alter table {qualified(table.name)}\n"
            f"    add constraint {name} check (duration >= interval '0') not valid",
            says=f"adding check {name} to {qualified(table.name)}, not valid for the rows that exist",
        )


def _missing_foreign_key(catalog: Catalog) -> Iterator[Step | Remark]:
    existing = catalog.foreign_keys(PROPERTY_OBJECT_VIEWS.name, "session_id", SESSIONS.name)
    if not existing:
        yield Step(
            statement=f"alter table {qualified(PROPERTY_OBJECT_VIEWS.name)} add constraint {_FOREIGN_KEY}\n"
            f"    foreign key (session_id) references {qualified(SESSIONS.name)} (id) on delete restrict not valid",
            says=f"adding foreign key {_FOREIGN_KEY}, not valid for the rows that exist",
        )
    elif not any(_keeps_sessions_with_views(foreign_key) for foreign_key in existing):
        action = _DELETE_ACTIONS[existing[0].delete_action]
        yield Remark(
            text=f"foreign key {existing[0].name} is left as it is: ON DELETE {action},"
            " where the specification wants RESTRICT"
        )


def _keeps_sessions_with_views(foreign_key: ForeignKey) -> bool:
    # NO ACTION refuses as well, only later in the transaction.
    return _DELETE_ACTIONS[foreign_key.delete_action] in ("RESTRICT", "NO ACTION")


def missing_index(catalog: Catalog, expected: ExpectedIndex) -> Iterator[Step | Remark]:
    """Yield how to come to an index while the table is in use."""
    index = catalog.index(expected.name)
    if index is not None and index.valid:
        if not expected.equals(index):
            yield _accepted(expected, index)
        return
    if index is not None:
        yield dropping(expected)
    yield _building(expected)


def _building(expected: ExpectedIndex) -> Step:
    return Step(
        statement=expected.statement,
        says=f"building index {qualified(expected.name)} concurrently, once older transactions have ended",
        concurrent=True,
    )


def _accepted(expected: ExpectedIndex, index: Index) -> Remark:
    return Remark(text=f"{qualified(expected.name)} is accepted with its own shape: {index.definition}")


def schema_step() -> Step:
    """Create the schema."""
    return Step(statement=f"create schema {SCHEMA}", says=f"creating schema {SCHEMA}")

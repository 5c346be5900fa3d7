"""What a publisher of ours needs in the outbox: only there where one reads it, so no part of any version."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from adapters.postgres.migrations.adoption import column_findings, index_findings, missing_index, table_findings
from adapters.postgres.migrations.catalog import Catalog, qualified
from adapters.postgres.migrations.shape import OUTBOX_DELIVERY, OUTBOX_INDEXES, OUTBOX_SLICES
from adapters.postgres.migrations.steps import Remark, Step

_ATTRIBUTES: Final = {"refusals": " not null default 0"}
"""Of columns that are added; with a constant default no row is written."""


def delivery_findings(catalog: Catalog) -> Iterator[str]:
    """Yield, one line each, what must be put right by hand before a publisher can work here."""
    yield from column_findings(catalog, OUTBOX_DELIVERY)
    refusals = catalog.columns(OUTBOX_DELIVERY.name).get("refusals")
    if refusals is not None and refusals.nullable:
        yield f"{qualified(OUTBOX_DELIVERY.name)}.refusals may be null, must be not null with a default of 0"
    yield from table_findings(catalog, OUTBOX_SLICES)
    for expected in OUTBOX_INDEXES:
        yield from index_findings(catalog, expected)


def delivery_steps(catalog: Catalog, *, has_publisher: bool) -> Iterator[Step | Remark]:
    """Yield how to come to what a publisher needs, or, without one, how to get rid of what would grow with the outbox.

    Where somebody else reads the outbox (Debezium, say), no event is ever marked as published: all would stay in the
    index of the pending ones.
    """
    if has_publisher:
        yield from _missing_columns(catalog)
        yield from _missing_slices(catalog)
        for expected in OUTBOX_INDEXES:
            yield from missing_index(catalog, expected)
        return
    for expected in OUTBOX_INDEXES:
        index = catalog.index(expected.name)
        if index is not None and expected.equals(index):
            yield Step(
                statement=f"drop index concurrently {qualified(expected.name)}",
                says=f"dropping index {qualified(expected.name)}, which only a publisher of ours needs",
                concurrent=True,
            )


def _missing_columns(catalog: Catalog) -> Iterator[Step]:
    columns = catalog.columns(OUTBOX_DELIVERY.name)
    missing = {name: kind for name, kind in OUTBOX_DELIVERY.addable.items() if name not in columns}
    if missing:
        # One statement, since each takes a lock that all traffic has to wait for.
        added = ",\n".join(f"    add column {name} {kind}{_ATTRIBUTES.get(name, '')}" for name, kind in missing.items())
        yield Step(
            statement=f"alter table {qualified(OUTBOX_DELIVERY.name)}\n{added}",
            says=f"adding columns {', '.join(missing)} to {qualified(OUTBOX_DELIVERY.name)}",
        )


def _missing_slices(catalog: Catalog) -> Iterator[Step]:
    name = qualified(OUTBOX_SLICES.name)
    if catalog.relation_kind(OUTBOX_SLICES.name) is None:
        source = files("adapters.postgres.migrations") / "sql" / "outbox_slices.sql"
        yield Step(statement=source.read_text(encoding="utf-8").rstrip(), says=f"creating table {name}")
    elif count := catalog.missing_slice_count():
        yield Step(
            statement=f"insert into {name} (slice)\nselect generate_series(0, 15)\non conflict do nothing",
            says=f"adding rows to {name}: {count}",
        )

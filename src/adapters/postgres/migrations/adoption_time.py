"""When the schema was created or adopted: rows that ended before need not keep this program's rules."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from adapters.postgres.migrations.catalog import Catalog, qualified
from adapters.postgres.migrations.steps import Step

ADOPTION_TABLE: Final = "activity_closer_adoption"


def adoption_time_steps(catalog: Catalog) -> Iterator[Step]:
    """Yield how the time is recorded, unless it was recorded before: it never moves."""
    if catalog.relation_kind(ADOPTION_TABLE) is None:
        source = files("adapters.postgres.migrations") / "sql" / "adoption_time.sql"
        yield Step(
            statement=source.read_text(encoding="utf-8").rstrip(),
            says=f"recording the time of adoption in {qualified(ADOPTION_TABLE)}",
        )

"""What the runbook tells people to run does run."""

import re
from pathlib import Path

import psycopg
import pytest

RUNBOOK = Path(__file__).resolve().parents[2] / "docs" / "runbook.md"
BLOCKS = re.findall(r"(?:^ {4}.*\n)+", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
QUERIES = [block for block in BLOCKS if block.lstrip().startswith("select")]
QUERIES += re.findall(r"`(select [^`]*)`", RUNBOOK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_runbook_runs(database: str, query: str) -> None:
    """At three in the morning nobody mends SQL."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(query.replace("'…'", "gen_random_uuid()").encode())


def test_the_runbook_has_queries() -> None:
    """The test above looks at something."""
    assert len(QUERIES) >= 4

"""The SQL of this adapter: one statement a file."""

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """The text of `sql/<name>.sql`.

    A file that ships with the program is as trusted as its source, which is what LiteralString stands for. Comment
    lines stay out: the server need not parse them, and their text may hold what the driver takes for a placeholder.
    """
    text = (files("adapters.postgres") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()

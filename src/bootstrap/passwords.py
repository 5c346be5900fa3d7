"""Keeps passwords out of what people read, wherever a text comes from (specification §4)."""

import re

_URL_WITH_PASSWORD = re.compile(r"(://[^\s:]*):.*@")  # up to the last @: a password may hold one itself
_PASSWORD = re.compile(r"""((?:pass|secret)[a-z_]*\s*=\s*)('(?:[^'\\]|\\.)*'|"[^"]*"|[^\s&]+)""", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return `text` with what looks like the credentials of a URL or of a DSN replaced by `***`."""
    return _PASSWORD.sub(r"\1***", _URL_WITH_PASSWORD.sub(r"\1:***@", text))

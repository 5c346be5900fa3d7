"""The database's URL or DSN: whether libpq can read it, and how to show it without its password."""

from psycopg import OperationalError
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

MASK = "***"


def check_database_url(database_url: str) -> None:
    """Raise ValueError, without the text, if libpq cannot read `database_url`, or would read it wrongly."""
    try:
        options = Conninfo.parse(database_url.encode())
    except (OperationalError, UnicodeEncodeError):  # both quote the text
        raise ValueError("not a libpq URL or DSN") from None
    if any(option.keyword in {b"host", b"dbname"} and b"@" in (option.val or b"") for option in options):
        # What libpq takes for the host is a piece of the password then, and errors would say it.
        raise ValueError("a password in a URL needs @ : / ? percent-encoded")


def masked_database_url(database_url: str) -> str:
    """Return a readable `database_url` as a DSN (`host=… dbname=…`) with its secrets masked.

    libpq itself takes the text apart and says which parts are secret, so what is shown is what it will use. A password
    with an unescaped `@` or `/` splits at the wrong place, and the pieces turn up in other parts: if anything looks
    like it, nothing is shown.
    """
    shown: dict[str, str] = {}
    for option in Conninfo.parse(database_url.encode()):
        if option.val is None:
            continue
        keyword, value = option.keyword.decode(), option.val.decode(errors="replace")
        if option.dispchar:  # libpq's mark of what must not be displayed
            shown[keyword] = MASK
        elif _may_hold_a_password(keyword, value):
            return MASK
        else:
            shown[keyword] = value
    return make_conninfo(**shown)


def _may_hold_a_password(keyword: str, value: str) -> bool:
    return (
        ("@" in value and keyword != "user")
        or ("=" in value and keyword != "options")
        or ("password" in value.lower() and keyword != "passfile")
    )

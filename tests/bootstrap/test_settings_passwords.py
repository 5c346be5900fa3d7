"""Passwords are never shown (specification §4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bootstrap.configuration import configure
from bootstrap.database_url import masked_database_url
from bootstrap.exit_codes import ExpectedError
from bootstrap.passwords import without_passwords

URL = "ACTIVITY_CLOSER_DATABASE_URL"


@pytest.mark.parametrize(
    ("database_url", "shown"),
    [
        ("postgresql://closer:geheim@db:5432/activity", "user=closer password=*** dbname=activity host=db port=5432"),
        ("postgres://closer@db/activity?password=geheim", "user=closer password=*** dbname=activity host=db"),
        ("postgresql://closer@db/a?sslpassword=geheim", "user=closer dbname=a host=db sslpassword=***"),
        ("host=db user=closer password='ge he\\'im'", "user=closer password=*** host=db"),
        ("host = db password = geheim", "password=*** host=db"),
        ("host=db passfile=/run/passfile", "passfile=/run/passfile host=db"),
        ("postgresql://u:p%40geheim@db", "user=u password=*** host=db"),
        ("postgresql://u:x@geheim@db/a", "***"),
        ("postgresql://u:x/geheim@db/a", "***"),
        ("postgresql://u:x/geheim@[::1]/a", "***"),
        ("host=db dbname='host=db password=geheim'", "***"),
        ("host=db application_name='password: geheim'", "***"),
    ],
)
def test_a_database_url_is_shown_without_its_password(database_url: str, shown: str) -> None:
    """URL and DSN keep what is harmless; a text that splits at the wrong place is not shown at all."""
    assert sorted(masked_database_url(database_url).split()) == sorted(shown.split())


@given(password=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_no_password_of_a_dsn_survives(password: str) -> None:
    """Whatever the password is, the shown DSN has three asterisks in its place."""
    shown = masked_database_url(make_conninfo(host="db", user="closer", password=password))
    assert conninfo_to_dict(shown) == {"host": "db", "user": "closer", "password": "***"}


@given(password=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_no_unescaped_password_of_a_url_survives(password: str) -> None:
    """A URL with a raw password is refused without quoting it, or shown without it."""
    database_url = f"postgresql://closer:§{password}§@db/activity"
    try:
        settings = configure(environment={URL: database_url}, command_line={}).settings
        shown = masked_database_url(settings.required_database_url())
    except ExpectedError as refused:
        shown = str(refused)
    assert "§" not in shown


@pytest.mark.parametrize(
    "database_url",
    ["mysql://u:geheim@db", "password=my geheim host=db", "postgresql://u:geheim%zz@db", "passwort=geheim", "geheim"],
)
def test_an_unreadable_database_url_is_not_quoted(database_url: str) -> None:
    """The line names the variable and what is allowed, and nothing of what was given."""
    with pytest.raises(ExpectedError) as refused:
        configure(environment={URL: database_url}, command_line={})
    (line,) = refused.value.lines
    assert line.startswith(f"{URL} must be a libpq URL or DSN")
    assert "geheim" not in line
    assert refused.value.__cause__ is None


def test_settings_do_not_print_the_password() -> None:
    """Neither the settings' repr nor the database URL's own holds the password."""
    configuration = configure(environment={URL: "postgresql://u:geheim@db"}, command_line={})
    assert "geheim" not in repr(configuration)
    assert "geheim" not in str(configuration.settings.database_url)
    assert configuration.settings.required_database_url() == "postgresql://u:geheim@db"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("extra argument (postgresql://u:geheim@x@db/a)", "extra argument (postgresql://u:***@db/a)"),
        ("see postgresql://u@db:5432/a", "see postgresql://u@db:5432/a"),
        ("host=db password=geheim port=1", "host=db password=*** port=1"),
        ("password = 'geheim geheim' port=1", "password = *** port=1"),
        ("?sslpassword=geheim&port=1", "?sslpassword=***&port=1"),
        ("password authentication failed for user", "password authentication failed for user"),
    ],
)
def test_texts_for_people_lose_their_passwords(text: str, shown: str) -> None:
    """What looks like a password in a URL or DSN is masked, the rest stays."""
    assert without_passwords(text) == shown

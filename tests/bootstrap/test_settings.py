"""Typed settings: defaults, allowed values, and what does not go together (specification §4)."""

from datetime import timedelta

import pytest
from typed_settings import Secret

from application.options import CloserOptions, PublisherOptions
from bootstrap.configuration import configure
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.setting import SETTINGS
from bootstrap.settings import ContradictionError, Delivery, LogFormat, LogLevel, PreparedStatements, Settings


def settings_of(**variables: str) -> Settings:
    """Return the settings that `ACTIVITY_CLOSER_…` variables make, named without their prefix."""
    environment = {f"ACTIVITY_CLOSER_{name}": value for name, value in variables.items()}
    return configure(environment=environment, command_line={}).settings


def refusal_of(**variables: str) -> tuple[str, ...]:
    """Return the lines with which wrong variables are refused."""
    with pytest.raises(ExpectedError) as refused:
        settings_of(**variables)
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    return refused.value.lines


def test_the_defaults_are_those_of_the_specification() -> None:
    """Without any source, each setting has the default that specification §4 names."""
    assert settings_of() == Settings(
        config=None,
        inactivity_threshold=timedelta(minutes=12),
        polling_interval=timedelta(minutes=1),
        batch_size=500,
        max_run_duration=timedelta(minutes=5),
        sessions_per_transaction=1,
        database_url=None,
        connections=1,
        statement_timeout=timedelta(seconds=30),
        lock_timeout=timedelta(seconds=2),
        prepared_statements=PreparedStatements.AUTO,
        single_instance=False,
        start_jitter=timedelta(0),
        store=None,
        outbox_store=None,
        delivery=Delivery.PUBLISHER,
        publish_polling_interval=timedelta(seconds=1),
        publish_batch_size=1_000,
        publish_attempts=10,
        publish_stop_limit=timedelta(seconds=10),
        outbox_retention=timedelta(days=7),
        kafka={},
        log_format=LogFormat.JSON,
        log_level=LogLevel.INFO,
    )


def test_the_limits_of_a_run_are_the_defaults_of_the_application() -> None:
    """The settings' defaults and the application's are one."""
    assert settings_of().closer_options() == CloserOptions()


def test_settings_become_the_options_of_a_run() -> None:
    """Each limit of a run can be set."""
    chosen = settings_of(
        INACTIVITY_THRESHOLD="15m", BATCH_SIZE="20", MAX_RUN_DURATION="50s", SESSIONS_PER_TRANSACTION="20"
    )
    assert chosen.closer_options() == CloserOptions(
        inactivity_threshold=timedelta(minutes=15),
        batch_size=20,
        max_run_duration=timedelta(seconds=50),
        sessions_per_transaction=20,
    )


def test_settings_become_the_options_of_publishing() -> None:
    """Each limit of publishing can be set, and its default is the application's."""
    assert settings_of().publisher_options() == PublisherOptions()
    chosen = settings_of(
        PUBLISH_BATCH_SIZE="20", PUBLISH_ATTEMPTS="3", PUBLISH_STOP_LIMIT="0s", OUTBOX_RETENTION="1d12h"
    )
    assert chosen.publisher_options() == PublisherOptions(
        batch_size=20, attempts_max=3, stop_limit=timedelta(0), retention=timedelta(hours=36)
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("INACTIVITY_THRESHOLD", "10m", timedelta(minutes=10)),
        ("INACTIVITY_THRESHOLD", " 00:15:00 ", timedelta(minutes=15)),
        ("BATCH_SIZE", "500 ", 500),
        ("CONNECTIONS", "16", 16),
        ("PREPARED_STATEMENTS", " Off", PreparedStatements.OFF),
        ("SINGLE_INSTANCE", "on ", True),
        ("SINGLE_INSTANCE", "false", False),
        ("START_JITTER", "0s", timedelta(0)),
        ("STORE", "my_package.store:make", "my_package.store:make"),
        ("OUTBOX_STORE", "my_package.store:make_outbox", "my_package.store:make_outbox"),
        ("OUTBOX_RETENTION", "7d", timedelta(days=7)),
        ("PUBLISH_BATCH_SIZE", "10000", 10_000),
        ("PUBLISH_ATTEMPTS", "30", 30),
        ("DELIVERY", "Debezium", Delivery.DEBEZIUM),
        ("LOG_FORMAT", "console", LogFormat.CONSOLE),
        ("LOG_LEVEL", "DEBUG", LogLevel.DEBUG),
    ],
)
def test_allowed_values_are_taken(name: str, text: str, value: object) -> None:
    """Limits are included where specification §4 says so, and surrounding blanks are fine (BR-58)."""
    assert getattr(settings_of(**{name: text}), name.lower()) == value


@pytest.mark.parametrize("text", ["12", "", "9", "9m", "9m59s999ms", "15m1ms", "16", "16m", "12.5", "NaN", "-12m"])
def test_a_wrong_threshold_is_one_line_with_the_range(text: str) -> None:
    """The line names the variable, what was given, and 10 to 15 minutes, both included (BR-58)."""
    allowed = "a duration (such as 12m, 90s, 1m30s, PT12M or 00:12:00) from 10m to 15m"
    assert refusal_of(INACTIVITY_THRESHOLD=text) == (
        f"ACTIVITY_CLOSER_INACTIVITY_THRESHOLD must be {allowed}, not {text!r}",
    )


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("BATCH_SIZE", "0", "a whole number above 0"),
        ("BATCH_SIZE", "-1", "a whole number above 0"),
        ("BATCH_SIZE", "1.0", "a whole number above 0"),
        ("BATCH_SIZE", "1e3", "a whole number above 0"),
        ("BATCH_SIZE", "9" * 5000, "up to 999999999"),
        ("POLLING_INTERVAL", "0", "above 0s"),
        ("POLLING_INTERVAL", "0s", "above 0s"),
        ("MAX_RUN_DURATION", "0s", "above 0s"),
        ("SESSIONS_PER_TRANSACTION", "0", "a whole number above 0"),
        ("CONNECTIONS", "0", "from 1 to 16"),
        ("CONNECTIONS", "17", "from 1 to 16"),
        ("STATEMENT_TIMEOUT", "0s", "above 0s"),
        ("STATEMENT_TIMEOUT", "25d", "up to 24d"),
        ("LOCK_TIMEOUT", "0s", "above 0s"),
        ("START_JITTER", "-1s", "from 0s"),
        ("PREPARED_STATEMENTS", "maybe", "auto, on or off"),
        ("SINGLE_INSTANCE", "2", "on or off"),
        ("SINGLE_INSTANCE", "", "on or off"),
        ("STORE", "no_factory", "module:factory"),
        ("OUTBOX_STORE", "no_factory", "module:factory"),
        ("PUBLISH_POLLING_INTERVAL", "0s", "above 0s"),
        ("PUBLISH_BATCH_SIZE", "10001", "a whole number from 1 to 10000"),
        ("PUBLISH_ATTEMPTS", "31", "a whole number from 1 to 30"),
        ("PUBLISH_STOP_LIMIT", "10", "from 0s to 365d"),
        ("OUTBOX_RETENTION", "7 days", "from 0s to 365d"),
        ("DELIVERY", "kafka", "publisher or debezium"),
        ("LOG_FORMAT", "xml", "json, console or auto"),
        ("LOG_LEVEL", "loud", "debug, info, warning or error"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_setting(name: str, text: str, allowed: str) -> None:
    """One line says which setting, what is allowed, and what was given, however long that is (BR-58)."""
    (line,) = refusal_of(**{name: text})
    assert line.startswith(f"ACTIVITY_CLOSER_{name} must be ")
    assert allowed in line
    assert repr(text)[:50] in line
    assert len(line) < 250


def test_several_wrong_settings_are_a_line_each() -> None:
    """Everything that is wrong is said at once."""
    lines = refusal_of(BATCH_SIZE="0", CONNECTIONS="17", LOG_LEVEL="loud")
    assert [line.split()[0] for line in lines] == [
        "ACTIVITY_CLOSER_BATCH_SIZE",
        "ACTIVITY_CLOSER_CONNECTIONS",
        "ACTIVITY_CLOSER_LOG_LEVEL",
    ]


def test_settings_that_do_not_go_together_are_named() -> None:
    """A transaction has at most a batch of sessions, and a single instance one connection: both are said at once."""
    lines = refusal_of(BATCH_SIZE="10", SESSIONS_PER_TRANSACTION="11", SINGLE_INSTANCE="on", CONNECTIONS="2")
    assert lines == (
        "ACTIVITY_CLOSER_SESSIONS_PER_TRANSACTION: sessions_per_transaction must be at most batch_size (10), not 11",
        "ACTIVITY_CLOSER_SINGLE_INSTANCE: single_instance needs connections = 1, not 2",
    )


def test_settings_made_by_a_program_are_judged_too() -> None:
    """No Settings exist with a value or a combination that is not allowed."""
    with pytest.raises(ValueError, match="connections"):
        Settings(connections=17)
    with pytest.raises(ContradictionError, match="single_instance"):
        Settings(connections=2, single_instance=True)
    with pytest.raises(ValueError, match="libpq"):
        Settings(database_url=Secret("mysql://host"))


def test_a_command_that_needs_a_database_says_how_to_name_it() -> None:
    """Without a database URL, the line names each way to give it (BR-58 a)."""
    with pytest.raises(ExpectedError, match=r"ACTIVITY_CLOSER_DATABASE_URL,.*--database-url") as refused:
        settings_of().required_database_url()
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_described(name: str) -> None:
    """Each setting has a help text and says what is allowed."""
    assert SETTINGS[name].help.endswith(".")
    assert SETTINGS[name].allowed

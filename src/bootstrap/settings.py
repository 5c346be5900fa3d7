"""What an operator may set, typed and validated (specification §4).

The docstring of each attribute is its help text on the command line.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import Attribute, field, fields, frozen
from attrs.validators import and_, ge, gt, le, matches_re, optional
from typed_settings import Secret
from typed_settings.cls_attrs import SECRET

from application.options import CloserOptions, PublisherOptions
from bootstrap.database_url import check_database_url
from bootstrap.exit_codes import ExitCode, ExpectedError

ALLOWED = "allowed"
"""Key of a field's metadata: what is allowed, in words, where the field's type does not say it."""

_RUN = fields(CloserOptions)  # states the defaults and the limits of a run
_PUBLISH = fields(PublisherOptions)  # and of publishing
_FACTORY = optional(matches_re(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"))
_LONGEST_TIMEOUT = timedelta(days=24)  # PostgreSQL counts a timeout's milliseconds in 31 bits


class PreparedStatements(StrEnum):
    """Whether statements are prepared on the server; old connection poolers cannot carry them."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Delivery(StrEnum):
    """Who brings the events of the outbox to Kafka."""

    PUBLISHER = "publisher"
    DEBEZIUM = "debezium"


class LogFormat(StrEnum):
    """How a line of the log looks; `auto` is `console` on a terminal and `json` elsewhere."""

    JSON = "json"
    CONSOLE = "console"
    AUTO = "auto"


class LogLevel(StrEnum):
    """The least severe event that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ContradictionError(ValueError):
    """Settings that are right alone and wrong together; `problems` maps a setting's name to what is wrong."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


def limits(validator: object) -> list[Any]:
    """Return the limits (attrs' `ge`, `le`, …) among the parts of a field's validator: those with a `bound`."""
    return [part for part in getattr(validator, "_validators", (validator,)) if hasattr(part, "bound")]


def _readable_by_libpq(_settings: object, _attribute: "Attribute[Any]", value: Secret[str]) -> None:
    check_database_url(value.get_secret_value())


@frozen(kw_only=True)
class Settings:
    """All settings of one process.

    Raises ValueError when a value is outside of what is allowed, ContradictionError when values do not go together.
    """

    config: Path | None = field(default=None, metadata={ALLOWED: "the path of a TOML file"})
    """The settings file (TOML); environment and command line override it."""

    inactivity_threshold: timedelta = field(
        default=_RUN.inactivity_threshold.default, validator=limits(_RUN.inactivity_threshold.validator)
    )
    """How long a row is silent before it is closed; durations are written 12m, 90s, 1m30s, PT12M or 00:12:00."""

    polling_interval: timedelta = field(default=timedelta(minutes=1), validator=gt(timedelta(0)))
    """Time from the start of one run to the start of the next."""

    batch_size: int = field(default=_RUN.batch_size.default, validator=limits(_RUN.batch_size.validator))
    """Rows of one selection, and of one transaction that closes hanging views."""

    max_run_duration: timedelta = field(
        default=_RUN.max_run_duration.default, validator=limits(_RUN.max_run_duration.validator)
    )
    """When a run ends in order and leaves the rest to the next one."""

    sessions_per_transaction: int = field(
        default=_RUN.sessions_per_transaction.default, validator=limits(_RUN.sessions_per_transaction.validator)
    )
    """Sessions closed in one transaction; at most the batch size."""

    database_url: Secret[str] | None = field(
        default=None,
        repr=SECRET,
        validator=optional(_readable_by_libpq),
        metadata={
            ALLOWED: "a libpq URL or DSN, as postgresql://user@host/database; in a URL passwords are percent-encoded"
        },
    )
    """The PostgreSQL database; a password is better given by environment or file, where `ps` does not show it."""

    connections: int = field(default=1, validator=and_(ge(1), le(16)))
    """Connections that close stale sessions side by side."""

    statement_timeout: timedelta = field(
        default=timedelta(seconds=30), validator=and_(gt(timedelta(0)), le(_LONGEST_TIMEOUT))
    )
    """How long a statement may take; set for each transaction."""

    lock_timeout: timedelta = field(
        default=timedelta(seconds=2), validator=and_(gt(timedelta(0)), le(_LONGEST_TIMEOUT))
    )
    """How long a statement may wait for a table's lock; set for each transaction."""

    prepared_statements: PreparedStatements = PreparedStatements.AUTO
    """Whether to prepare statements on the server; `off` for old connection poolers."""

    single_instance: bool = False
    """Whether one instance at a time works, held by an advisory lock; needs connections = 1."""

    start_jitter: timedelta = field(default=timedelta(0), validator=ge(timedelta(0)))
    """The first run waits for a random time up to this."""

    store: str | None = field(default=None, validator=_FACTORY, metadata={ALLOWED: "written module:factory"})
    """Another store than PostgreSQL: a callable that makes it."""

    outbox_store: str | None = field(default=None, validator=_FACTORY, metadata={ALLOWED: "written module:factory"})
    """Another outbox than PostgreSQL's, for publish and outbox: a callable that makes its store."""

    delivery: Delivery = Delivery.PUBLISHER
    """Who brings the events to Kafka: the command publish, or Debezium."""

    publish_polling_interval: timedelta = field(default=timedelta(seconds=1), validator=gt(timedelta(0)))
    """How long the publisher waits once nothing is due any more."""

    publish_batch_size: int = field(
        default=_PUBLISH.batch_size.default, validator=limits(_PUBLISH.batch_size.validator)
    )
    """Events that are sent at once."""

    publish_attempts: int = field(
        default=_PUBLISH.attempts_max.default, validator=limits(_PUBLISH.attempts_max.validator)
    )
    """How often an event may be refused before it is set aside as dead."""

    publish_stop_limit: timedelta = field(
        default=_PUBLISH.stop_limit.default, validator=limits(_PUBLISH.stop_limit.validator)
    )
    """How long the publisher waits for events under way once it is asked to end."""

    outbox_retention: timedelta = field(
        default=_PUBLISH.retention.default, validator=limits(_PUBLISH.retention.validator)
    )
    """How long the publisher keeps events that it has delivered."""

    kafka: Mapping[str, str] = field(factory=dict, repr=False)
    """Properties of librdkafka, by their own names; some are secrets."""

    log_format: LogFormat = LogFormat.JSON
    """How the log on stderr looks; `auto` is console on a terminal and json elsewhere."""

    log_level: LogLevel = LogLevel.INFO
    """The least severe event that is logged."""

    def __attrs_post_init__(self) -> None:
        if problems := dict(self._contradictions()):
            raise ContradictionError(problems)

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        try:
            self.closer_options()
        except ValueError as error:  # each value is within its own limits here
            yield "sessions_per_transaction", str(error)
        if self.single_instance and self.connections > 1:
            # Its own connections would refuse each other the lock of the transaction.
            yield "single_instance", f"single_instance needs connections = 1, not {self.connections}"

    def closer_options(self) -> CloserOptions:
        """Return the limits of a run."""
        return CloserOptions(
            inactivity_threshold=self.inactivity_threshold,
            batch_size=self.batch_size,
            max_run_duration=self.max_run_duration,
            sessions_per_transaction=self.sessions_per_transaction,
        )

    def publisher_options(self) -> PublisherOptions:
        """Return the limits of publishing."""
        return PublisherOptions(
            batch_size=self.publish_batch_size,
            attempts_max=self.publish_attempts,
            stop_limit=self.publish_stop_limit,
            retention=self.outbox_retention,
        )

    def required_kafka_properties(self) -> Mapping[str, str]:
        """Return librdkafka's properties, secrets included, for the command that needs a broker.

        Raises ExpectedError (wrong configuration) when none of them says where a broker is.
        """
        if not {"bootstrap.servers", "metadata.broker.list"} & self.kafka.keys():
            raise ExpectedError(
                "no Kafka broker is set: give ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS=host:port[,host:port…],"
                " ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS_FILE, or bootstrap.servers in the section [kafka] of the"
                " settings file",
                exit_code=ExitCode.WRONG_CONFIGURATION,
            )
        return self.kafka

    def required_database_url(self) -> str:
        """Return the database's URL or DSN, password included, for the commands that need a database.

        Raises ExpectedError (wrong configuration) when it is not set.
        """
        if self.database_url is None:
            raise ExpectedError(
                "no database is set: give ACTIVITY_CLOSER_DATABASE_URL, ACTIVITY_CLOSER_DATABASE_URL_FILE,"
                " --database-url, or database_url in the settings file",
                exit_code=ExitCode.WRONG_CONFIGURATION,
            )
        return self.database_url.get_secret_value()

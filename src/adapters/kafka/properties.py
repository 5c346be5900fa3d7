"""The properties of librdkafka that a sender works with: defaults, and which of the user's are refused."""

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

_MESSAGE_TIMEOUT: Final = "message.timeout.ms"
_LONGEST_PAUSE: Final = "reconnect.backoff.max.ms"
_SHORTEST_PAUSE: Final = "reconnect.backoff.ms"
_LARGEST_INTEGER: Final = 2**31 - 1

_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client.id": "activity-closer",
        # Longer than a change of leaders takes; not so long that a publisher would keep events from others.
        _MESSAGE_TIMEOUT: "30000",
        # Java's clients put a key into the same partition.
        "partitioner": "murmur2_random",
        # A topic that is missing is a matter of the operator's: a broker would make one with settings of its own.
        "allow.auto.create.topics": "false",
        # A topic that has gone is found missing, not waited for until its events time out. For a new one that not
        # every broker knows yet the publisher tries again by itself.
        "topic.metadata.propagation.max.ms": "1000",
        # Found by measuring shipments of 1,000 events: 0 makes many small batches, more gains nothing.
        "linger.ms": "5",
        # A broker that is back is found at once, not after 10 s.
        _LONGEST_PAUSE: "1000",
        # The other strategy makes new connections twice a second as long as no broker is there, and an error of each
        # that nobody fetches from an idle sender. A sender begins with the bootstrap servers after each outage anyway.
        "metadata.recovery.strategy": "none",
        "socket.keepalive.enable": "true",
    }
)
_SILENT: Final[Mapping[str, str]] = MappingProxyType({"log_level": "0"})
"""What is not logged needs no room until somebody fetches it."""
_KEPT_PROMISE: Final[Mapping[str, str]] = MappingProxyType({"enable.idempotence": "true", "acks": "all"})

_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "delivery.timeout.ms": _MESSAGE_TIMEOUT,
        "queue.buffering.max.ms": "linger.ms",
        "request.required.acks": "acks",
        "metadata.broker.list": "bootstrap.servers",
    }
)
"""Other names of properties that have to be known here."""

_TRUE: Final = frozenset({"true", "t", "1"})
_ONLY: Final[Mapping[str, tuple[frozenset[str], str]]] = MappingProxyType(
    {
        "enable.idempotence": (_TRUE, "only true is allowed, or a retry would reorder or double events"),
        "acks": (frozenset({"all", "-1"}), "only all is allowed, or acknowledged events could be lost"),
        "delivery.report.only.error": (
            frozenset({"false", "f", "0"}),
            "only false is allowed, or nobody would hear what has arrived",
        ),
    }
)
_NEVER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transactional.id": "not allowed: events are not sent in transactions",
        "test.mock.num.brokers": "not allowed: events would go to a broker inside of this process and vanish with it",
        "topic.blacklist": "not allowed: events of such a topic would time out again and again",
        "log.queue": "not allowed: nobody would read that queue",
        "statistics.interval.ms": "not allowed: nobody would read the statistics, and they would fill the memory",
        **dict.fromkeys(
            ("error_cb", "throttle_cb", "stats_cb", "oauth_cb", "on_delivery", "logger", "default.topic.config"),
            "not allowed: it is no text",
        ),
    }
)
_ALLOWED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "security.protocol": "plaintext, ssl, sasl_plaintext or sasl_ssl",
        "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        "sasl.mechanisms": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        "sasl.oauthbearer.method": "default or oidc",
        "ssl.endpoint.identification.algorithm": "none or https",
        "compression.codec": "none, gzip, snappy, lz4 or zstd",
        "compression.type": "none, gzip, snappy, lz4 or zstd",
        "partitioner": "consistent, consistent_random, murmur2, murmur2_random, fnv1a or fnv1a_random",
        "broker.address.family": "any, v4 or v6",
        "client.dns.lookup": "use_all_dns_ips or resolve_canonical_bootstrap_servers_only",
        "metadata.recovery.strategy": "none or rebootstrap",
    }
)
"""Where librdkafka itself does not say it."""

_MAY_BE_SECRET: Final = re.compile(r"password|passphrase|secret|pem|oauthbearer|kinit")


class PropertyRefused(Exception):
    """A property of librdkafka is wrong, or would break a promise: one line that names it and says what is allowed.

    It holds no value that may be a secret.
    """

    def __init__(self, name: str | None, reason: str) -> None:
        super().__init__(f"Kafka property {name}: {reason}" if name else f"Kafka properties: {reason}")
        self.name = name
        """As the user wrote it; None where librdkafka does not tell which of several it is."""


def completed(given: Mapping[str, str]) -> dict[str, str]:
    """The properties to make a producer of: the user's over the defaults, under what the promise needs.

    Raises PropertyRefused.
    """
    canonical: dict[str, str] = {}
    for name, value in given.items():
        _check(name, value)
        other = canonical.setdefault(_ALIASES.get(name, name), name)
        if other != name:
            raise PropertyRefused(name, f"is another name of {other}, which is given too; only one of them is allowed")
    if "bootstrap.servers" not in canonical:
        raise PropertyRefused("bootstrap.servers", "must be given: host:port of some brokers, separated by commas")
    defaults = dict(_DEFAULTS)
    if canonical.keys().isdisjoint({"log_level", "debug"}):
        defaults |= _SILENT
    if _SHORTEST_PAUSE in canonical:  # which may be longer than our longest one
        del defaults[_LONGEST_PAUSE]
    return {
        **{name: value for name, value in defaults.items() if name not in canonical},
        **{name: value for name, value in given.items() if _ALIASES.get(name, name) not in _ONLY},
        **_KEPT_PROMISE,
    }


def is_silent(properties: Mapping[str, str]) -> bool:
    """Whether nobody asked for librdkafka's own log."""
    return properties.items() >= _SILENT.items()


def message_timeout_of(properties: Mapping[str, str]) -> timedelta:
    """How long an event is tried, by completed properties."""
    [text] = (text for name, text in properties.items() if _ALIASES.get(name, name) == _MESSAGE_TIMEOUT)
    return timedelta(milliseconds=int(text))


def allowed_values_of(name: str) -> str | None:
    """What a property takes, where it is one of some words."""
    return _ALLOWED.get(name)


def without_secrets(text: str, given: Mapping[str, str]) -> str:
    """A text from which every value that may be a secret has been taken."""
    for name, value in given.items():
        if value and _MAY_BE_SECRET.search(name):
            text = text.replace(value, "…")
    return text


def _check(name: str, value: str) -> None:
    if not _is_plain_text(value):
        raise PropertyRefused(name, "must be a text in UTF-8 without NUL")
    own_name = _ALIASES.get(name, name)
    if own_name in _NEVER:
        raise PropertyRefused(name, _NEVER[own_name])
    if own_name in _ONLY:
        allowed, reason = _ONLY[own_name]
        if value.lower() not in allowed:
            raise PropertyRefused(name, reason)
    if own_name == _MESSAGE_TIMEOUT and not (
        re.fullmatch(r"[0-9]{1,10}", value) and 1 <= int(value) <= _LARGEST_INTEGER
    ):
        raise PropertyRefused(
            name, f"must be a whole number of milliseconds, 1 to {_LARGEST_INTEGER}, not 0, which is for ever"
        )
    if own_name == "partitioner" and value == "random":
        raise PropertyRefused(name, f"must be {_ALLOWED[name]}, or events of an aggregate would be in any partition")


def _is_plain_text(value: str) -> bool:
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False

"""Which properties of librdkafka a user may set, and how wrong ones are refused."""

from collections.abc import Mapping

import pytest

from adapters.kafka import KafkaSender, PropertyRefused
from adapters.kafka.properties import completed

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SECRET = "geheim-7f3a"  # noqa: S105 (the point)


def refusal_of(properties: Mapping[str, str]) -> PropertyRefused:
    """Return how a sender with these properties is refused."""
    with pytest.raises(PropertyRefused) as refused:
        KafkaSender({**NOWHERE, **properties})
    assert "\n" not in str(refused.value)
    return refused.value


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"enable.idempotence": "false"}, "enable.idempotence: only true is allowed"),
        ({"acks": "1"}, "acks: only all is allowed"),
        ({"acks": "0"}, "acks: only all is allowed"),
        ({"request.required.acks": "1"}, "request.required.acks: only all is allowed"),
        ({"delivery.report.only.error": "true"}, "delivery.report.only.error: only false is allowed"),
        ({"transactional.id": "x"}, "transactional.id: not allowed"),
        ({"test.mock.num.brokers": "3"}, "test.mock.num.brokers: not allowed"),
        ({"topic.blacklist": "^x"}, "topic.blacklist: not allowed"),
        ({"log.queue": "true"}, "log.queue: not allowed"),
        ({"partitioner": "random"}, "partitioner: must be consistent, "),
        ({"message.timeout.ms": "0"}, "message.timeout.ms: must be a whole number of milliseconds, 1 to 2147483647"),
        ({"delivery.timeout.ms": "0"}, "delivery.timeout.ms: must be a whole number of milliseconds, 1 to 2147483647"),
        ({"message.timeout.ms": "30s"}, "message.timeout.ms: must be a whole number"),
        ({"message.timeout.ms": "2147483648"}, "message.timeout.ms: must be a whole number"),
        ({"default.topic.config": "x"}, "default.topic.config: not allowed: it is no text"),
        ({"logger": "x"}, "logger: not allowed: it is no text"),
        *(
            ({name: "x"}, f"{name}: not allowed: it is no text")
            for name in ("error_cb", "throttle_cb", "stats_cb", "oauth_cb", "on_delivery")
        ),
    ],
)
def test_what_would_break_a_promise_is_refused(properties: dict[str, str], line: str) -> None:
    """No setting makes of at-least-once something less, or of a bounded wait an endless one."""
    assert str(refusal_of(properties)).startswith(f"Kafka property {line}")


@pytest.mark.parametrize(
    ("properties", "name", "text"),
    [
        ({"acks": "all", "linger.ms": "900001"}, "linger.ms", "is outside allowed range 0..900000"),
        ({"linger.ms": "soon"}, "linger.ms", "Invalid value"),
        ({"acks": "all", "lingr.ms": "5"}, "lingr.ms", "No such configuration property"),
        ({"security.protocol": "tls"}, "security.protocol", "allowed: plaintext, ssl, sasl_plaintext or sasl_ssl"),
        ({"compression.type": "brotli"}, "compression.type", "allowed: none, gzip, snappy, lz4 or zstd"),
        ({"partitioner": "mine"}, "partitioner", "allowed: consistent, "),
        ({"socket.keepalive.enable": "yes"}, "socket.keepalive.enable", "true or false"),
        ({"dr_cb": "x"}, "dr_cb", "must be set through"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location", "use `ssl.ca.location`"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, "ssl.ca.location", "ssl.ca.location failed"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "FOO"}, "sasl.mechanisms", "allowed: PLAIN, "),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, None, "sasl.username and sasl.password must be"),
        ({"message.timeout.ms": "5", "linger.ms": "10"}, "message.timeout.ms", "must be greater than `linger.ms`"),
        ({"max.in.flight": "6"}, "max.in.flight", "must be set <= 5"),
        (
            {"sasl.oauthbearer.metadata.authentication.type": "aws_iam"},
            "sasl.oauthbearer.metadata.authentication.type",
            "requires 'sasl.oauthbearer.method=oidc'",
        ),
    ],
)
def test_what_librdkafka_refuses_is_named(properties: dict[str, str], name: str | None, text: str) -> None:
    """The line names the property as the user wrote it, and says what is allowed."""
    refused = refusal_of(properties)
    assert refused.name == name
    assert str(refused).startswith(f"Kafka property {name}: " if name else "Kafka properties: ")
    assert text in str(refused)


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": SECRET, "linger.ms": "x"},
        {"security.protocol": SECRET, "sasl.password": SECRET},
        {"security.protocol": "ssl", "ssl.key.pem": SECRET},
        {"security.protocol": "ssl", "ssl.certificate.pem": SECRET},
        {"security.protocol": "ssl", "ssl.ca.pem": SECRET},
        {"security.protocol": "ssl", "ssl.keystore.location": "/nowhere", "ssl.keystore.password": SECRET},
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "u",
            "sasl.oauthbearer.client.secret": SECRET,
        },
        {"sasl.jaas.config": SECRET},
        {"sasl.password": f"{SECRET}\0"},
        {"sasl.password": f"{SECRET}\udcff"},
    ],
)
def test_no_secret_is_quoted(properties: dict[str, str]) -> None:
    """Whatever is wrong, beside a secret or with it, its line can be logged."""
    refused = refusal_of(properties)
    assert SECRET not in str(refused)
    assert SECRET not in repr(refused)


@pytest.mark.parametrize("value", ["a\0b", "\udcff"])
def test_a_value_that_is_no_text_is_refused(value: str) -> None:
    """A variable may hold any bytes, of which librdkafka would cut off some and take others for nothing."""
    assert str(refusal_of({"client.id": value})) == "Kafka property client.id: must be a text in UTF-8 without NUL"


def test_two_names_of_one_property_are_refused() -> None:
    """Which one holds would depend on their order."""
    refused = refusal_of({"message.timeout.ms": "1000", "delivery.timeout.ms": "2000"})
    assert str(refused) == (
        "Kafka property delivery.timeout.ms: is another name of message.timeout.ms, which is given too;"
        " only one of them is allowed"
    )


def test_a_broker_has_to_be_named() -> None:
    """A sender without any address would wait for ever; which of its two names is used does not matter."""
    with pytest.raises(PropertyRefused, match=r"^Kafka property bootstrap\.servers: must be given: host:port"):
        KafkaSender({})
    KafkaSender({"metadata.broker.list": "127.0.0.1:1"}).close()


@pytest.mark.parametrize(
    "properties",
    [{"acks": "-1"}, {"acks": "ALL"}, {"enable.idempotence": "True"}, {"delivery.report.only.error": "false"}],
)
def test_what_is_promised_anyway_may_be_said(properties: dict[str, str]) -> None:
    """A property that asks for what holds is no mistake."""
    KafkaSender({**NOWHERE, **properties}).close()


def test_the_users_properties_win() -> None:
    """Defaults are replaced, by any of a property's names; the promise is not."""
    given = {
        "partitioner": "fnv1a",
        "queue.buffering.max.ms": "20",
        "delivery.timeout.ms": "45000",
        "client.id": "mine",
        "log_level": "3",
        "request.required.acks": "-1",
    }
    properties = completed({**NOWHERE, **given})
    assert properties.items() >= {**given, "enable.idempotence": "true", "acks": "all"}.items() - {
        ("request.required.acks", "-1")
    }
    assert properties.keys().isdisjoint({"linger.ms", "message.timeout.ms", "request.required.acks"})
    assert properties["reconnect.backoff.max.ms"] == "1000"


def test_a_long_pause_needs_no_second_property() -> None:
    """Defaults never keep a single property of the user's from being taken."""
    KafkaSender({**NOWHERE, "reconnect.backoff.ms": "5000"}).close()


def test_the_limit_follows_the_users_timeout() -> None:
    """By whichever name it is given; half a minute is the default."""
    limits = []
    for properties in ({}, {"message.timeout.ms": "1500"}, {"delivery.timeout.ms": "60000"}):
        sender = KafkaSender({**NOWHERE, **properties})
        limits.append(sender.delivery_limit.total_seconds())
        sender.close()
    assert limits == [35.0, 6.5, 65.0]

"""The properties that pass through to librdkafka: their names, and which of them may be shown (specification §4)."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from attrs import frozen

from bootstrap.database_url import MASK
from bootstrap.setting import PREFIX

KAFKA = "kafka"
"""The section of the settings file, and how the names of these settings begin."""

KAFKA_PREFIX = f"{PREFIX}KAFKA_"

_UNDERSCORED: Mapping[str, str] = MappingProxyType({"log.level": "log_level"})
"""librdkafka's only property with an underscore that a text can set; the others are functions and pointers."""

_HARMLESS_NAMES = """
    acks allow.auto.create.topics api.version.request api.version.request.timeout.ms batch.num.messages batch.size
    bootstrap.servers broker.address.family broker.address.ttl client.dns.lookup client.id client.rack compression.codec
    compression.level compression.type connections.max.idle.ms debug delivery.timeout.ms enable.idempotence
    enable.metrics.push enable.ssl.certificate.verification https.ca.location linger.ms log.connection.close log_level
    max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes message.max.bytes
    message.send.max.retries message.timeout.ms metadata.broker.list metadata.max.age.ms metadata.recovery.strategy
    partitioner plugin.library.paths queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
    receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms
    retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.id sasl.oauthbearer.grant.type sasl.oauthbearer.method sasl.oauthbearer.scope sasl.username
    security.protocol socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location
    ssl.certificate.location ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm
    ssl.key.location ssl.keystore.location ssl.providers ssl.sigalgs.list statistics.interval.ms
    sticky.partitioning.linger.ms topic.metadata.propagation.max.ms topic.metadata.refresh.interval.ms
"""
_MASKED_NAMES = """
    https.ca.pem sasl.kerberos.kinit.cmd sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.token.endpoint.url sasl.password ssl.ca.pem ssl.certificate.pem ssl.key.password ssl.key.pem
    ssl.keystore.password
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
KNOWN = _HARMLESS | frozenset(_MASKED_NAMES.split())
"""What is set for a producer in practice. Any other name passes as well, masked: librdkafka judges it."""


@frozen
class KafkaProperty:
    """A property as its user meets it, whether or not librdkafka knows it."""

    own_name: str
    """As librdkafka writes it."""

    @property
    def name(self) -> str:
        """Its name among the settings."""
        return f"{KAFKA}.{self.own_name}"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return KAFKA_PREFIX + self.own_name.upper().replace(".", "_")

    @property
    def file_variable(self) -> str:
        """The environment variable that names a file with its value."""
        return f"{self.variable}_FILE"


_NAME_A_FILE = frozenset(KafkaProperty(name).variable for name in KNOWN if name.endswith(".file"))
"""Variables that end in `_FILE` because the property does."""


def properties_named_by(variables: Iterable[str]) -> list[KafkaProperty]:
    """Return the properties that `ACTIVITY_CLOSER_KAFKA_…` variables set, in the order of their names."""
    own_names = set()
    for variable in variables:
        if variable.startswith(KAFKA_PREFIX):
            stem = variable if variable in _NAME_A_FILE else variable.removesuffix("_FILE")
            dotted = stem.removeprefix(KAFKA_PREFIX).lower().replace("_", ".")
            own_names.add(_UNDERSCORED.get(dotted, dotted))
    return [KafkaProperty(own_name) for own_name in sorted(own_names)]


def parse_value(own_name: str, text: str) -> str:
    """Return the value to hand on: surrounding blanks are a part of secrets only.

    Raises ValueError, without the text, if it is empty or librdkafka could not take it whole.
    """
    value = text.strip() if own_name in _HARMLESS else text
    if not value or "\0" in value:
        raise ValueError("empty, or with a NUL")
    return value


def shown_value(own_name: str, value: str) -> str:
    """Return `value` as people see it: masked unless the property is known to hold no secret."""
    # A URL with credentials is no broker's address, but somebody may write one.
    return value if own_name in _HARMLESS and "@" not in value else MASK


def suggestion(own_name: str) -> str:
    """Return what may have been meant by a name that is not known here, as the end of a line."""
    close = [] if own_name in KNOWN else get_close_matches(own_name, KNOWN, 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""

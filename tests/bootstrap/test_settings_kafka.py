"""The properties that pass through to librdkafka: where they come from, what is shown of them (specification §4)."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer

from bootstrap.cli import activity_closer
from bootstrap.configuration import Configuration, configure
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.kafka_properties import KNOWN, KafkaProperty, shown_value, suggestion
from bootstrap.setting_sources import Origin


def configured_by(environment: Mapping[str, str]) -> Configuration:
    """Return what variables configure that are named without `ACTIVITY_CLOSER_`."""
    variables = {f"ACTIVITY_CLOSER_{name}": value for name, value in environment.items()}
    return configure(environment=variables, command_line={})


def properties_of(**environment: str) -> Mapping[str, str]:
    return configured_by(environment).settings.kafka


def refusal_of(**environment: str) -> tuple[str, ...]:
    """Return the lines with which wrong variables are refused."""
    with pytest.raises(ExpectedError) as refused:
        configured_by(environment)
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    return refused.value.lines


def configured_by_file(file: Path, text: str, **environment: str) -> Configuration:
    file.write_text(text)
    return configured_by({"CONFIG": str(file), **environment})


def test_variables_become_properties() -> None:
    """`_` stands for `.`, security included; what librdkafka does not know passes too, for it to judge."""
    assert properties_of(
        KAFKA_BOOTSTRAP_SERVERS="a:9092,b:9092",
        KAFKA_SECURITY_PROTOCOL="SASL_SSL",
        KAFKA_SASL_PASSWORD="geheim",  # noqa: S106 (that it is a secret is the point)
        KAFKA_NOT_YET_INVENTED="1",
    ) == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.password": "geheim",
        "not.yet.invented": "1",
    }


def test_the_property_with_an_underscore_can_be_set() -> None:
    """The name is `log_level`, where every other property has dots."""
    assert properties_of(KAFKA_LOG_LEVEL="3") == {"log_level": "3"}


@pytest.mark.parametrize("own_name", sorted(KNOWN))
def test_each_known_property_has_its_variable(own_name: str, tmp_path: Path) -> None:
    """Whatever a property is called, its variable sets it, and so does a file that `…_FILE` names."""
    variable = KafkaProperty(own_name).variable
    (tmp_path / "value").write_text("x\n")
    for environment in ({variable: "x"}, {f"{variable}_FILE": str(tmp_path / "value")}):
        assert configure(environment=environment, command_line={}).settings.kafka == {own_name: "x"}


@pytest.mark.parametrize("own_name", sorted(KNOWN))
def test_each_known_property_is_one_of_librdkafka(own_name: str) -> None:
    """What is shown, or suggested, exists: librdkafka finds fault with its value, or only with what comes after it."""
    with pytest.raises(KafkaException) as refused:
        Producer({own_name: "x", "no.such.property": "x"})
    assert f'No such configuration property: "{own_name}"' not in str(refused.value)


def test_a_secret_can_stand_in_a_file(tmp_path: Path) -> None:
    """`…_FILE` names a file with the value, of which only the last newline is taken away: blanks may belong to it."""
    file = tmp_path / "password"
    file.write_text(" geheim \n")
    configuration = configured_by({"KAFKA_SASL_PASSWORD_FILE": str(file)})
    assert configuration.settings.kafka == {"sasl.password": " geheim "}
    source = configuration.sources["kafka.sasl.password"]
    assert source.name == f"ACTIVITY_CLOSER_KAFKA_SASL_PASSWORD_FILE ({file})"
    assert refusal_of(KAFKA_SASL_PASSWORD_FILE=str(file), KAFKA_SASL_PASSWORD="x")[0].endswith(  # noqa: S106 (no secret)
        " are both set; only one of them is allowed"
    )
    (line,) = refusal_of(KAFKA_SASL_PASSWORD_FILE=str(tmp_path / "none"))
    assert line.startswith("ACTIVITY_CLOSER_KAFKA_SASL_PASSWORD_FILE: cannot read ")


@pytest.mark.parametrize(
    "text",
    [
        '[kafka]\n"bootstrap.servers" = "a:9092"\n"linger.ms" = 5\n"enable.idempotence" = true',
        '[kafka]\nbootstrap.servers = "a:9092"\nlinger.ms = 5\nenable.idempotence = true',
        'kafka."bootstrap.servers" = "a:9092"\n[kafka.linger]\nms = "5"\n[kafka.enable]\nidempotence = "true"',
    ],
    ids=["quoted", "dotted", "tables"],
)
def test_the_file_has_a_section_for_them(tmp_path: Path, text: str) -> None:
    """Keys are librdkafka's own names, however TOML lets one write a dot; numbers and truth values become texts."""
    configuration = configured_by_file(tmp_path / "closer.toml", text)
    assert configuration.settings.kafka == {
        "bootstrap.servers": "a:9092",
        "linger.ms": "5",
        "enable.idempotence": "true",
    }
    source = configuration.sources["kafka.linger.ms"]
    assert (source.origin, source.name) == (Origin.FILE, f"kafka.linger.ms in {tmp_path / 'closer.toml'}")


def test_the_environment_is_stronger_than_the_file(tmp_path: Path) -> None:
    """Property by property: what the environment leaves out is the file's."""
    text = '[kafka]\n"bootstrap.servers" = "file:9092"\n"client.id" = "file"'
    configuration = configured_by_file(tmp_path / "closer.toml", text, KAFKA_BOOTSTRAP_SERVERS="environment:9092")
    assert configuration.settings.kafka == {"bootstrap.servers": "environment:9092", "client.id": "file"}
    assert configuration.sources["kafka.bootstrap.servers"].origin is Origin.ENVIRONMENT


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('kafka = "a:9092"', "kafka in {file} must be a section, [kafka], of librdkafka's properties"),
        ('[kafka]\n"a.b" = 1\na.b = 2', "kafka.a.b is set twice in {file}"),
        (
            '[kafka]\n"bootstrap.servers" = ["a"]',
            "kafka.bootstrap.servers in {file} must be a text, a number, true or false",
        ),
        (
            '[kafka]\n"sasl.password" = ""',
            "kafka.sasl.password in {file} must be a text that is not empty, for librdkafka",
        ),
        (
            '[kafka]\n"sasl.password" = "ge\\u0000heim"',
            "kafka.sasl.password in {file} must be a text that is not empty, for librdkafka",
        ),
    ],
)
def test_a_wrong_section_is_one_line_that_names_it(tmp_path: Path, text: str, line: str) -> None:
    """The file and the key are named, and no value."""
    file = tmp_path / "closer.toml"
    with pytest.raises(ExpectedError) as refused:
        configured_by_file(file, text)
    assert refused.value.lines == (line.format(file=file),)


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_value_is_refused(text: str) -> None:
    """A template that was not filled in is no broker."""
    (line,) = refusal_of(KAFKA_BOOTSTRAP_SERVERS=text)
    assert line == "ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS must be a text that is not empty, for librdkafka"


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("KAFAK_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_bootstrap.servers", "KAFKA_BOOTSTRAP_SERVERS"),
        ("BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"),
    ],
)
def test_a_variable_that_is_almost_one_of_kafka_is_an_error_with_a_suggestion(name: str, suggested: str) -> None:
    """Specification §4: a variable that sets nothing is not passed over."""
    (line,) = refusal_of(**{name: "geheim"})
    assert line == f"unknown environment variable ACTIVITY_CLOSER_{name}; did you mean ACTIVITY_CLOSER_{suggested}?"


def test_a_property_that_does_not_exist_may_be_a_slip_of_the_pen() -> None:
    """When librdkafka has refused a name, the nearest one that exists is suggested."""
    assert suggestion("bootstrap.server") == "; did you mean bootstrap.servers?"
    assert suggestion("bootstrap_servers") == "; did you mean bootstrap.servers?"
    assert suggestion("xyz") == ""


def test_what_kubernetes_sets_for_a_broker_is_left_alone() -> None:
    """A Service activity-closer-kafka, or -kafka-bootstrap, gives every pod beside it variables that look like ours."""
    endings = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_TCP_CLIENTS", "PORT", "PORT_9092_TCP_ADDR"]
    names = [f"KAFKA_{service}{ending}" for service in ("", "BOOTSTRAP_", "KAFKA_BROKERS_") for ending in endings]
    assert properties_of(**dict.fromkeys(names, "tcp://10.0.0.1:9092")) == {}


def test_a_command_that_needs_a_broker_says_how_to_name_it() -> None:
    """BR-58: without a broker the line names each way to give one; librdkafka's old name counts as well."""
    settings = configured_by({}).settings
    with pytest.raises(ExpectedError, match=r"ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS=.*\[kafka\]") as refused:
        settings.required_kafka_properties()
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    properties = properties_of(KAFKA_METADATA_BROKER_LIST="a:9092")
    assert properties == {"metadata.broker.list": "a:9092"}


def shown_by_config(output: str, **environment: str) -> str:
    variables = {f"ACTIVITY_CLOSER_{name}": value for name, value in environment.items()}
    result = CliRunner(env=variables).invoke(activity_closer, ["config", "show", "--output", output])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_config_show_says_where_each_property_comes_from() -> None:
    """A line each, or an entry each, as of every setting; secrets are masked."""
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "a:9092", "KAFKA_SASL_PASSWORD": "geheim"}
    lines = shown_by_config("readable", **environment).splitlines()
    assert [line.split() for line in lines if line.startswith("kafka.")] == [
        ["kafka.bootstrap.servers", "a:9092", "environment:", "ACTIVITY_CLOSER_KAFKA_BOOTSTRAP_SERVERS"],
        ["kafka.sasl.password", "***", "environment:", "ACTIVITY_CLOSER_KAFKA_SASL_PASSWORD"],
    ]
    assert json.loads(shown_by_config("json", **environment))["kafka.sasl.password"] == {
        "value": "***",
        "origin": "environment",
        "name": "ACTIVITY_CLOSER_KAFKA_SASL_PASSWORD",
    }


@pytest.mark.parametrize(
    "own_name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.certificate.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.kerberos.kinit.cmd",
        "sasl.jaas.config",
        "some.future.property",
    ],
)
def test_what_may_hold_a_secret_is_never_shown(own_name: str) -> None:
    """Only what is known to be harmless is shown; a property that nobody has heard of is not."""
    assert shown_value(own_name, "geheim") == "***"
    configuration = configured_by({f"KAFKA_{own_name.upper().replace('.', '_')}": "geheim"})
    assert "geheim" not in repr(configuration)


def test_credentials_in_a_harmless_place_are_not_shown() -> None:
    """Somebody may write a broker's address as a URL with a password."""
    assert shown_value("bootstrap.servers", "SASL_SSL://u:geheim@broker:9092") == "***"
    assert shown_value("bootstrap.servers", "SSL://broker:9092") == "SSL://broker:9092"

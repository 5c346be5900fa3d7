"""Where settings come from, and which source is the stronger one (specification §4)."""

from pathlib import Path

import pytest

from bootstrap.configuration import Configuration, configure
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.setting_sources import Origin


def refusal_of(environment: dict[str, str]) -> tuple[str, ...]:
    """Return the lines with which a wrong environment is refused."""
    with pytest.raises(ExpectedError) as refused:
        configure(environment=environment, command_line={})
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    return refused.value.lines


def configured_by(file: Path, text: str) -> Configuration:
    """Return what a settings file with `text` configures."""
    file.write_text(text)
    return configure(environment={"ACTIVITY_CLOSER_CONFIG": str(file)}, command_line={})


def test_the_later_source_wins(tmp_path: Path) -> None:
    """Command line over environment over file over default, and each value knows its origin."""
    file = tmp_path / "closer.toml"
    file.write_text('batch_size = 1\nlock_timeout = "3s"\nconnections = 2\n')
    configuration = configure(
        environment={"ACTIVITY_CLOSER_BATCH_SIZE": "2", "ACTIVITY_CLOSER_LOCK_TIMEOUT": "4s"},
        command_line={"config": str(file), "batch_size": "3", "single_instance": False, "log_level": None},
    )
    assert configuration.settings.batch_size == 3
    origins = {name: (source.origin, source.name) for name, source in configuration.sources.items()}
    assert origins["batch_size"] == (Origin.COMMAND_LINE, "--batch-size")
    assert origins["lock_timeout"] == (Origin.ENVIRONMENT, "ACTIVITY_CLOSER_LOCK_TIMEOUT")
    assert origins["connections"] == (Origin.FILE, f"connections in {file}")
    assert origins["single_instance"] == (Origin.COMMAND_LINE, "--no-single-instance")
    assert origins["log_level"] == (Origin.DEFAULT, None)


def test_the_file_takes_what_toml_writes(tmp_path: Path) -> None:
    """Keys in snake_case or kebab-case; numbers, booleans, texts, and a bare .NET duration."""
    settings = configured_by(
        tmp_path / "closer.toml",
        'batch-size = 20\nconnections = "1"\nsingle_instance = true\npolling_interval = 00:01:30\nlog_level = "debug"',
    ).settings
    assert settings.batch_size == 20
    assert settings.single_instance
    assert settings.polling_interval.total_seconds() == 90
    assert settings.log_level == "debug"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("batch_sise = 1", "unknown key 'batch_sise' in {file}; did you mean batch_size?"),
        (
            "[closer]\nbatch_size = 1",
            "unknown section [closer] in {file}; keys stand at the top of the file, only librdkafka's in [kafka]",
        ),
        ("config = 'other.toml'", "unknown key 'config' in {file}"),
        ("batch_size = 1\nbatch-size = 2", "batch_size is set twice in {file}"),
        ("batch_size = 0", "batch_size in {file} must be a whole number above 0, up to 999999999, not '0'"),
        ("batch_size = true", "batch_size in {file} must be a whole number above 0, up to 999999999, not 'True'"),
        ("connections = [1]", "connections in {file} must be a whole number from 1 to 16, not '[1]'"),
        ("batch_size = ", "ACTIVITY_CLOSER_CONFIG: {file} is not a TOML file: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path: Path, text: str, line: str) -> None:
    """Unknown keys, wrong values and text that is not TOML: a line with key and file."""
    file = tmp_path / "closer.toml"
    with pytest.raises(ExpectedError) as refused:
        configured_by(file, text)
    assert refused.value.lines == (line.format(file=file),)


def test_a_missing_file_is_named_with_its_variable(tmp_path: Path) -> None:
    """A settings file that was asked for must be there."""
    path = str(tmp_path / "none.toml")
    assert refusal_of({"ACTIVITY_CLOSER_CONFIG": path}) == (
        f"ACTIVITY_CLOSER_CONFIG: cannot read {path!r}: No such file or directory",
    )
    assert refusal_of({"ACTIVITY_CLOSER_CONFIG": " "}) == (
        "ACTIVITY_CLOSER_CONFIG must be the path of a TOML file, not ' '",
    )


@pytest.mark.parametrize("content", ["250", "250\n", "250\r\n", " 250 \n"])
def test_a_value_can_stand_in_a_file(tmp_path: Path, content: str) -> None:
    """`…_FILE` names a file with the value; its last newline does not belong to it."""
    file = tmp_path / "batch_size"
    file.write_bytes(content.encode())
    configuration = configure(environment={"ACTIVITY_CLOSER_BATCH_SIZE_FILE": str(file)}, command_line={})
    assert configuration.settings.batch_size == 250
    assert configuration.sources["batch_size"].name == f"ACTIVITY_CLOSER_BATCH_SIZE_FILE ({file})"


def test_a_value_and_a_file_with_it_are_refused(tmp_path: Path) -> None:
    """Nobody can tell which of the two is meant."""
    file = tmp_path / "batch_size"
    file.write_text("250")
    environment = {"ACTIVITY_CLOSER_BATCH_SIZE": "1", "ACTIVITY_CLOSER_BATCH_SIZE_FILE": str(file)}
    assert refusal_of(environment) == (
        "ACTIVITY_CLOSER_BATCH_SIZE and ACTIVITY_CLOSER_BATCH_SIZE_FILE are both set; only one of them is allowed",
    )


def test_an_unreadable_file_is_named_with_its_variable(tmp_path: Path) -> None:
    """Missing, a directory, or not text: a line with variable and path, and nothing of the content."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"geheim\xff")
    for path, reason in [
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (binary, "it is not UTF-8 text"),
        ("", "No such file or directory"),
    ]:
        (line,) = refusal_of({"ACTIVITY_CLOSER_DATABASE_URL_FILE": str(path)})
        assert line.startswith(f"ACTIVITY_CLOSER_DATABASE_URL_FILE: cannot read {str(path)!r}: ")
        assert reason in line or not path  # an empty path is the current directory
        assert "geheim" not in line


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ACTIVITY_CLOSER_BATCHSIZE", "; did you mean ACTIVITY_CLOSER_BATCH_SIZE?"),
        ("ACTIVITY_CLOSER_TRESHOLD", "; did you mean ACTIVITY_CLOSER_INACTIVITY_THRESHOLD?"),
        ("ACTIVITY_CLOSER_DATABASE_URL_FILES", "; did you mean ACTIVITY_CLOSER_DATABASE_URL_FILE?"),
        ("ACTIVITY_CLOSER_CONFIG_FILE", "; did you mean ACTIVITY_CLOSER_CONFIG?"),
        ("ACTIVITY_CLOSER_ZZZ", ""),
    ],
)
def test_an_unknown_variable_is_an_error_with_a_suggestion(name: str, suggestion: str) -> None:
    """A misspelt variable stops the start; its value is not shown."""
    assert refusal_of({name: "geheim"}) == (f"unknown environment variable {name}{suggestion}",)


def test_variables_that_are_not_settings_are_left_alone() -> None:
    """The test suite's variables, other programs' and those that Kubernetes makes of a Service's name."""
    names = ["TEST_POSTGRES", "SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_9464_TCP", "PORT_9464_TCP_ADDR"]
    environment = {f"ACTIVITY_CLOSER_{name}": "x" for name in names}
    environment |= {"HOME": "x", "ACTIVITY": "x"}
    assert configure(environment=environment, command_line={}) == configure(environment={}, command_line={})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "[" * 100_000, "is not a settings file: it is nested too deeply"),
        ("batch_size = " + "9" * 10_000, "is not a TOML file"),
        ("# " + "x" * 1_100_000, "it is longer than 1000000 characters"),
        ("[activity_closer]\nbatch_size = 5", "unknown section [activity_closer]"),
    ],
    ids=["deep", "long number", "long file", "section"],
)
def test_a_file_that_is_no_settings_file_is_one_clear_line(tmp_path: Path, content: str, said: str) -> None:
    """Whatever stands in it, the file is named and what is wrong with it (specification §4)."""
    file = tmp_path / "settings.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ExpectedError) as refused:
        configure(environment={"ACTIVITY_CLOSER_CONFIG": str(file)}, command_line={})
    assert refused.value.exit_code is ExitCode.WRONG_CONFIGURATION
    [line] = refused.value.lines
    assert said in line
    assert str(file) in line
    assert len(line) < 400

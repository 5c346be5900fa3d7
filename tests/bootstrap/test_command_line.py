"""The command line's frame: usage, configuration, errors, exit codes (specification §10)."""

import errno
import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from bootstrap.cli import COMMANDS, CommandEntry, CommandLine, activity_closer
from bootstrap.cli.options import settings_options
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.setting import SETTINGS
from bootstrap.settings import Settings

PROGRAM = Path(sysconfig.get_path("scripts")) / "activity-closer"


def run(*arguments: str, **environment: str) -> Result:
    """Run the program in this process, with `ACTIVITY_CLOSER_…` variables named without their prefix."""
    variables = {f"ACTIVITY_CLOSER_{name}": value for name, value in environment.items()}
    return CliRunner(env=variables).invoke(activity_closer, arguments)


def run_program(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the installed program in a process of its own, without any inherited variable."""
    variables = {f"ACTIVITY_CLOSER_{name}": value for name, value in environment.items()}
    return subprocess.run([PROGRAM, *arguments], env=variables, capture_output=True, text=True, timeout=10, check=False)


@click.command()
@click.argument("ending")
@settings_options
def end(*, settings: Settings, ending: str) -> ExitCode | None:
    """End in a way of its own."""
    endings: dict[str, BaseException] = {
        "unavailable": ExpectedError("postgresql://u:geheim@db is away", exit_code=ExitCode.UNAVAILABLE),
        "unexpected": KeyError("anon-7f3a"),
        "interrupted": KeyboardInterrupt(),
        "unread": BrokenPipeError(errno.EPIPE, "Broken pipe"),
    }
    if ending in endings:
        raise endings[ending]
    click.echo(settings.batch_size)
    return {"done": None, "findings": ExitCode.FINDINGS}[ending]


def ended(*arguments: str) -> Result:
    """Run a command line that knows the command `end` only."""
    entries = {"end": CommandEntry(module=__name__, attribute="end", summary="End.")}
    return CliRunner().invoke(CommandLine(name="program", entries=entries), ["end", *arguments])


def test_exit_codes_are_those_of_the_specification() -> None:
    """Supervisors and scripts depend on the numbers of specification §10."""
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 69, 75, 77, 78]


def test_a_command_gets_its_settings_and_returns_its_exit_code() -> None:
    """Nothing returned is success; an ExitCode is the process's; settings come from the options."""
    done = ended("done", "--batch-size", "7")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "7\n", "")
    assert ended("findings").exit_code == 3


def test_an_expected_error_is_a_line_and_an_exit_code() -> None:
    """No traceback, and no password, whoever wrote the line."""
    result = ended("unavailable")
    assert (result.exit_code, result.stdout) == (69, "")
    assert result.stderr == "Error: postgresql://u:***@db is away\n"


def test_an_unexpected_error_is_one_line_without_its_text() -> None:
    """The text of an unknown error may hold personal data: only its type and its place are shown, exit code 1."""
    result = ended("unexpected")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: unexpected KeyError at test_command_line.py:")
    assert result.stderr.count("\n") == 1
    assert "anon-7f3a" not in result.output


def test_an_interrupted_command_ends_as_a_shell_expects() -> None:
    """SIGINT in a command that does not handle it: 130, no traceback."""
    result = ended("interrupted")
    assert (result.exit_code, result.output.strip()) == (130, "")


def test_an_output_that_nobody_reads_is_no_noise() -> None:
    """A broken pipe ends the program quietly."""
    result = ended("unread")
    assert (result.exit_code, result.output) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope"],
        ["--nope"],
        ["config"],
        ["config", "show", "--nope"],
        ["config", "show", "surplus"],
        ["config", "show", "--batch-size"],
        ["config", "show", "--output", "xml"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    """An unknown command or option, a missing or surplus argument: exit code 2, said on stderr."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr or "Error: " in result.stderr


def test_wrong_usage_quotes_no_password() -> None:
    """A database URL in the wrong place is not printed with its password."""
    result = run("config", "show", "postgresql://u:geheim@db")
    assert result.exit_code == 2
    assert "geheim" not in result.output


def test_a_wrong_value_of_an_option_is_wrong_configuration() -> None:
    """A setting's wrong value is 78 by whatever source it came, and the option is named."""
    result = run("config", "show", "--connections", "17", "--database-url", "mysql://geheim")
    assert (result.exit_code, result.stdout) == (78, "")
    assert "Error: --connections must be a whole number from 1 to 16, not '17'\n" in result.stderr
    assert "Error: --database-url must be a libpq URL or DSN" in result.stderr
    assert "geheim" not in result.stderr


def test_help_lists_every_command_and_imports_none() -> None:
    """`--help` is quick because it loads no driver, no container and no settings."""
    code = (
        "import sys\nfrom bootstrap.cli import activity_closer\n"
        "try: activity_closer.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'psycopg', 'alembic', 'cattrs', 'attrs', 'dependency_injector'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=10, check=True).stdout
    assert shown.endswith("[]\n")
    for name, entry in COMMANDS.items():
        assert f"{name} " in shown
        assert entry.summary in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists(name: str) -> None:
    """Each entry of the list of commands can be imported and explains itself."""
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert f"activity-closer {name}" in result.stdout


def test_help_shows_every_setting_and_no_value_in_force() -> None:
    """Each setting is an option with its default; what the environment holds, passwords above all, is not shown."""
    result = run("config", "show", "--help", DATABASE_URL="postgresql://u:geheim@db", BATCH_SIZE="0")
    assert result.exit_code == 0
    for setting in SETTINGS.values():
        assert f"{setting.flag} " in result.stdout
    assert "geheim" not in result.output


def test_config_show_says_value_and_origin_of_each_setting() -> None:
    """Readable by default: a line each, with the name under which it was given; passwords masked."""
    result = run("config", "show", "--single-instance", DATABASE_URL="postgresql://u:geheim@db", BATCH_SIZE=" 20")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines.keys() == SETTINGS.keys()
    assert lines["batch_size"].split() == ["batch_size", "20", "environment:", "ACTIVITY_CLOSER_BATCH_SIZE"]
    assert lines["single_instance"].split() == ["single_instance", "on", "command", "line:", "--single-instance"]
    assert lines["inactivity_threshold"].split() == ["inactivity_threshold", "12m", "default"]
    assert "user=u password=*** host=db" in lines["database_url"]
    assert "geheim" not in result.output


def test_config_show_speaks_json(tmp_path: Path) -> None:
    """For programs: an object with value, origin and name for each setting."""
    file = tmp_path / "closer.toml"
    file.write_text('inactivity-threshold = "PT15M"')
    result = run("config", "show", "--output", "json", "--config", str(file))
    shown = json.loads(result.stdout)
    assert shown.keys() == SETTINGS.keys()
    assert shown["inactivity_threshold"] == {
        "value": "15m",
        "origin": "file",
        "name": f"inactivity-threshold in {file}",
    }
    assert shown["batch_size"] == {"value": 500, "origin": "default", "name": None}
    assert shown["single_instance"]["value"] is False


def test_the_installed_program_refuses_wrong_settings_quickly() -> None:
    """One line on stderr, 78, within 3 s, and no connection is tried: nothing listens at the address (BR-58)."""
    started = time.monotonic()
    result = run_program("config", "show", INACTIVITY_THRESHOLD="9", DATABASE_URL="host=127.0.0.1 port=1")
    assert time.monotonic() - started < 3
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ACTIVITY_CLOSER_INACTIVITY_THRESHOLD must be ")


def test_the_installed_program_knows_its_version() -> None:
    """`--version` names program and version."""
    result = run_program("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("activity-closer, version ")

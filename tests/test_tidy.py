"""Our own rules over the sources, those that no linter knows."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = sorted((ROOT / "src").rglob("*.py"))
TESTS: Final = sorted((ROOT / "tests").rglob("*.py"))
PYTHON_FILES: Final = [*SOURCES, *TESTS]

MODULE_BYTES_MAX: Final = 24 * 1024
FUNCTION_LINES_MAX: Final = 60
BANNED_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "manager", "common", "base", "misc"})
LIBRARY: Final = "uuid_utils"
"""An adapter's folder is named for its technology, whatever that is called."""

MONOTONIC_PLACES: Final = ("src/adapters/", "src/bootstrap/")
"""The application and the domain have a port for time."""
SLEEP_PLACES: Final = ("src/adapters/embedded/", "src/adapters/postgres/migrations/", "src/application/contracts/")
"""Who waits for another process, a table lock or a test's other thread, to a deadline; the worker waits by events."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls_of(path: Path) -> Iterator[tuple[str, int]]:
    """The text of what is called, and the line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def lines_with(pattern: str, paths: list[Path]) -> list[str]:
    found = re.compile(pattern)
    return [
        f"{name_of(path)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if found.search(line)
    ]


def calls_matching(pattern: str, *, outside: tuple[str, ...] = ()) -> list[str]:
    found = re.compile(pattern)
    return [
        f"{name_of(path)}:{line}"
        for path in SOURCES
        if not name_of(path).startswith(outside or ("nowhere",))
        for called, line in calls_of(path)
        if found.fullmatch(called)
    ]


def tracked_texts() -> list[Path]:
    """The files that are, or will be, under version control, and are text."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout.decode()
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def test_modules_are_named_after_nouns_of_the_field() -> None:
    """No `utils`: a name that fits anything says nothing."""
    names = (name_of(path) for path in PYTHON_FILES)
    words = {name: set(re.split(r"[/_.]", name.replace(LIBRARY, ""))) for name in names}
    assert not [name for name, parts in words.items() if parts & BANNED_NAMES]


def test_modules_are_small() -> None:
    """A module can be read in one sitting."""
    assert not [name_of(path) for path in PYTHON_FILES if path.stat().st_size > MODULE_BYTES_MAX]


def test_functions_are_short() -> None:
    """A function fits on a screen."""
    long = [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in PYTHON_FILES
        for function in functions_of(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_every_test_says_its_rule() -> None:
    """A test function has a docstring with the rule that it protects."""
    suites = [*TESTS, *(ROOT / "src" / "application" / "contracts").glob("*.py")]
    silent = [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in suites
        for function in functions_of(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert not silent


def test_nobody_asks_the_host_for_the_time() -> None:
    """Time is the store's, through the clock's port (D-01)."""
    assert not calls_matching(r"(.*\.)?(utcnow|utcfromtimestamp|today)|(datetime\.)*datetime\.now|time\.(time|time_ns)")


def test_the_application_measures_time_through_its_port() -> None:
    """A monotonic clock is an adapter's, or the host's; a simulation can then move it."""
    assert not calls_matching(r"(time\.)?(monotonic|perf_counter)(_ns)?", outside=MONOTONIC_PLACES + SLEEP_PLACES)


def test_no_statement_but_the_clocks_reads_the_time() -> None:
    """The faster clock of the demo holds everywhere (D-01)."""
    statements = sorted((ROOT / "src" / "adapters" / "postgres" / "sql").glob("*.sql"))
    time = r"(?i)\b(now\s*\(|current_timestamp|clock_timestamp|statement_timestamp|transaction_timestamp|localtime)"
    assert {line.split(":")[0].rsplit("/", 1)[1] for line in lines_with(time, statements)} == {"read_clock.sql"}


def test_nobody_sleeps() -> None:
    """What waits, waits for something: an event, a notification, a condition with a deadline."""
    assert not calls_matching(r"(.*\.)?sleep", outside=SLEEP_PLACES)


def test_nobody_prints() -> None:
    """Results go to stdout by the command line's one way, logs to stderr by the log's."""
    assert not calls_matching(r"print")


def test_an_ignored_type_error_has_its_code() -> None:
    """An ignore without a code hides the next error as well."""
    assert not lines_with(r"#\s*type:\s*" + r"ignore(?!\[)", PYTHON_FILES)


def test_nothing_is_left_to_do() -> None:
    """What is to be done is an issue, not a comment."""
    assert not lines_with(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b", tracked_texts())


def test_no_path_of_a_machine_and_no_host_of_a_registry() -> None:
    """Nothing depends on where it was written, or on where its packages were fetched from."""
    # Written apart, so that this file does not find itself.
    paths = r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me)/\w"
    hosts = r"py" + r"pi\.org|python" + r"hosted|arti" + r"factory|registry\.\w+\.\w+|proxy\.gol" + r"ang"
    assert not lines_with(f"{paths}|{hosts}", tracked_texts())


def test_every_statement_is_used_and_every_used_one_is_there() -> None:
    """One statement, one file: neither dead SQL nor a name without its file."""
    adapter = ROOT / "src" / "adapters" / "postgres"
    files = {path.stem for path in (adapter / "sql").glob("*.sql")}
    named = {name for path in adapter.glob("*.py") for name in statements_named_in(path)}
    assert named == files


def statements_named_in(path: Path) -> Iterator[str]:
    """The literals in the places of whatever takes the name of a statement."""
    takers = {"send", "fetch", "fetch_partially", "fetch_all_partially", "_execute", "_send_closed", "_page"}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in takers:
            for argument in node.args:
                name = argument.elts[0] if isinstance(argument, ast.Tuple) else argument
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("domain/session.py", "import application.options"),
        ("domain/activity.py", "import orjson"),
        ("application/record_ended.py", "import adapters.in_memory.store"),
        ("application/lanes.py", "import psycopg"),
        ("adapters/in_memory/clock.py", "import adapters.postgres.clock"),
        ("adapters/postgres/clock.py", "import bootstrap.settings"),
        ("adapters/structlog/run_log.py", "import dependency_injector"),
    ],
)
def test_a_forbidden_import_is_found(module: str, line: str, tmp_path: Path) -> None:
    """The contracts between the layers bite: each step from the way breaks one."""
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert broken_contracts(tmp_path) == 0
    with (copy / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    assert broken_contracts(tmp_path) > 0


def broken_contracts(folder: Path) -> int:
    """How many contracts a tree of sources breaks."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    ended = subprocess.run(
        [*command, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = re.search(r"Contracts: (\d+) kept, (\d+) broken", ended.stdout)
    assert report, ended.stdout + ended.stderr
    return int(report[2])

"""What the page of guarantees says can be looked up."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "guarantees.md"
NAMED: Final = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8"))))


def test_each_promise_names_a_test() -> None:
    """A promise that nothing shows is none."""
    promises = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(promises) > 20
    unshown = [line for line in promises if not line.startswith("| promise |") and ".py" not in line]
    assert not unshown


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_the_named_tests_exist(file: str, test: str) -> None:
    """A test that was renamed or deleted takes its promise along."""
    suites = ROOT / "src" / "application"
    path = suites / file if file.startswith("contracts/") else ROOT / "tests" / file
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert test in functions if test else any(name.startswith("test_") for name in functions)

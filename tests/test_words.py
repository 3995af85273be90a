"""Rules of language that a program can check: names, first lines of docstrings, and words that nobody would say."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "deepsep"
FILES = sorted(SRC.rglob("*.py"))
# Words of a private dialect, and what to write in their place.
DIALECT = {
    r"\banew\b": "again",
    r"\bmend(s|ed|ing)?\b": "fix, correct",
    r"\bwhatever\b": "any",
    r"\blikeliest\b": "most probable",
    r"\bso many (columns|rows|times|seconds|labels)\b": "a number",
    r"\bgo(es)? on where\b": "resumes where",
    r"\bcame of it\b": "result",
    r"\bmade population\b": "synthetic population",
    r"\bspoke (most )?for\b": "contributed to",
    r"\bbelieved\b": "predicted",
}


def structure() -> ModuleType:
    """Return the module that counts."""
    spec = importlib.util.spec_from_file_location("structure", ROOT / "tools" / "structure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["structure"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def facts() -> dict[str, int]:
    return {fact.title: fact.count for fact in structure().read_facts(SRC)}


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            assert isinstance(first.value, ast.Constant)
            yield first.value


def places(pattern: str) -> list[str]:
    return [
        f"{file.relative_to(SRC)}:{number}: {line.strip()}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]


@pytest.mark.parametrize(("pattern", "better"), DIALECT.items())
def test_nobody_speaks_the_dialect(pattern: str, better: str) -> None:
    assert places(pattern) == [], f"write {better}"


def test_docstrings_say_what_a_thing_is(facts: dict[str, int]) -> None:
    assert facts["docstrings that begin with What, How, Which or Where"] == 0


def test_identifiers_are_spelled_as_in_scikit_learn(facts: dict[str, int]) -> None:
    assert facts["identifiers with “labelled”"] == 0


@pytest.mark.parametrize(
    ("title", "most"),
    [
        ("module constants of one word", 20),
        ("public names defined in several modules", 8),
        ("file names that occur twice", 0),
        ("side channels", 0),
        ("`isinstance(…, Pipeline)`", 1),
    ],
)
def test_the_structure_stays_as_it_is(facts: dict[str, int], title: str, most: int) -> None:
    assert facts[title] <= most, f"see tools/structure.py --list: {title}"


def test_messages_of_the_library_name_no_options() -> None:
    """Only commands know their options; ``errors.Setting`` turns the name of a setting into one."""
    named = []
    for file in FILES:
        if file.relative_to(SRC).parts[0] in ("cli", "datasets"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        free = {id(node) for node in docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in free:
                option = re.search(r"(?<![\w-])--[a-z][a-z-]+", node.value)
                if option and option[0] not in ("--head", "--width"):  # of Ray, and of a style sheet
                    named.append(f"{file.relative_to(SRC)}:{node.lineno}: {node.value[:80]}")
    assert named == []

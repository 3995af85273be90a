"""The order of the packages, read from the source of every module: imports go up the list, to public names only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

# From top to bottom. A package may import from those above it, and any of its own modules that do not lead back.
RANKS = (
    *("errors", "_lazy", "_version"),
    *("core", "solvers", "networks", "drift", "files", "evaluation", "classifiers", "zoo", "survey", "models"),
    *("table", "scoring", "report", "model", "datasets", "study", "apps", "demo_example", "cli"),
    "__main__",
)
# Packages that others do without: the catalogue names the methods of the zoo, and only commands import apps.
IMPORTED_BY = {"zoo": (), "apps": ("cli",)}
# What these packages may import beside the standard library and deepsep.
LIBRARIES = {
    "errors": (),
    "_lazy": (),
    "_version": (),
    "solvers": ("numpy", "scipy"),
    "networks": ("numpy", "scipy", "torch", "safetensors"),
}
ABOVE = {  # fewer than their rank would allow
    "solvers": ("errors",),
    "networks": ("errors", "_lazy"),
}
# Own modules are imported at the top of a file, except where the command line starts: its help must not wait for them.
LOADS_LATE = ("model", "cli", "__main__")


def package_of(name: str) -> str:
    """The second part of a dotted name: the package, or the module at the top level."""
    return name.partition(".")[2].partition(".")[0]


def own_imports(source: str, module: str, is_package: bool = False) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line, module, name, inside a function) for every import; the name is "" for ``import a``."""
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        inside = id(node) in late
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name, "", inside) for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                base = resolve_name("." * level + (base or ""), package) if level else base
                yield from ((node.lineno, base, alias.name, inside) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, resolve_name(name, package), "", inside


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Every import in the source of ``module`` that the order forbids."""
    own, bad = package_of(module), []
    for line, base, name, inside in own_imports(source, module, is_package):
        root = base.partition(".")[0]
        target = f"{base}.{name}" if base == "deepsep" and name else base
        say = f"{module}, line {line}: must not import {base}{'.' if name else ''}{name}"
        if root in sys.stdlib_module_names:
            continue
        if root != "deepsep":
            if own in LIBRARIES and root not in LIBRARIES[own]:
                bad.append(say)
            continue
        other = package_of(target)
        if own == other == "apps" and target.split(".")[2] != module.split(".")[2]:
            bad.append(say)  # an app does without the others
        if module == "deepsep" or other == own or target == "deepsep":
            continue
        private = any(part.startswith("_") for part in (*target.split(".")[2:], name) if not part.startswith("__"))
        upward = other not in RANKS[: RANKS.index(own)] or (own in ABOVE and other not in ABOVE[own])
        upward = upward or own not in IMPORTED_BY.get(other, (own,))
        if private or upward or (inside and own not in LOADS_LATE):
            bad.append(say)
    return bad


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    result = {}
    for path in sorted(SRC.glob("deepsep/**/*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def cycles(sources: dict[str, str], packages: set[str]) -> list[str]:
    """Modules from which imports, those inside functions too, lead back to them."""
    edges: dict[str, set[str]] = {}
    for module, source in sources.items():
        targets = set()
        for _, base, name, _ in own_imports(_without_type_checking(source), module, module in packages):
            targets |= {t for t in (f"{base}.{name}", base) if t in sources and t not in packages}
        edges[module] = targets - {module}
    reached = {module: set(targets) for module, targets in edges.items()}
    changed = True
    while changed:
        changed = False
        for targets in reached.values():
            more = set().union(*(reached[target] for target in targets)) if targets else set()
            if not more <= targets:
                targets |= more
                changed = True
    return sorted(module for module, targets in reached.items() if module in targets)


def _without_type_checking(source: str) -> str:
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
    ]
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("module", "path"), modules().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_module_keeps_to_its_place(module: str, path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py") == []


def test_every_package_has_a_rank() -> None:
    assert {package_of(module) for module in modules() if module != "deepsep"} == set(RANKS)


def test_no_imports_go_in_a_circle() -> None:
    sources = {module: path.read_text(encoding="utf-8") for module, path in modules().items()}
    packages = {module for module, path in modules().items() if path.name == "__init__.py"}
    assert cycles(sources, packages) == []


def test_a_planted_circle_is_found() -> None:
    sources = {
        "deepsep.table.a": "from deepsep.table.b import f",
        "deepsep.table.b": "def f():\n    from deepsep.table.c import g",
        "deepsep.table.c": "from deepsep.table import a",
        "deepsep.table.d": "from deepsep.table.a import f",
    }
    assert cycles(sources, {"deepsep.table"}) == ["deepsep.table.a", "deepsep.table.b", "deepsep.table.c"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        # other libraries
        ("deepsep.solvers.cccp", "import sklearn.svm"),
        ("deepsep.solvers.cccp", "import numpy, torch"),
        ("deepsep.solvers.cccp", "def f():\n    from sklearn import svm"),
        ("deepsep.solvers.cccp", "import importlib\nimportlib.import_module('pandas')"),
        ("deepsep.networks.mlp", "from sklearn.base import BaseEstimator"),
        ("deepsep.errors", "import sklearn.exceptions"),
        # upward
        ("deepsep.solvers.cccp", "from deepsep.classifiers.tsvm.tsvm import TSVM"),
        ("deepsep.solvers.cccp", "from deepsep.core import labels"),
        ("deepsep.solvers.cccp", "from deepsep import TSVM"),
        ("deepsep.solvers.cccp", "from ..classifiers import tsvm"),
        ("deepsep.networks.mlp", "from deepsep.solvers.cccp import cccp"),
        ("deepsep.core.labels", "import deepsep.table"),
        ("deepsep.evaluation.folds", "from deepsep.classifiers.catalogue import method"),
        ("deepsep.classifiers.tsvm.tsvm", "def f():\n    from deepsep.models import save"),
        ("deepsep.report.page", "from deepsep.cli import app"),
        ("deepsep.report.page", "import importlib\nimportlib.import_module('deepsep.cli')"),
        # what others do without
        ("deepsep.classifiers.supervised", "from deepsep.zoo.graphs import mincut"),
        ("deepsep.report.page", "from deepsep.apps.workbook import make_workbook"),
        ("deepsep.apps.typing.typing_tool", "from deepsep.apps.workbook.sheets import write_sheet"),
        # private
        ("deepsep.report.page", "from deepsep.table.columns import _as_text"),
        ("deepsep.report.page", "from deepsep.table._columns import as_text"),
        # late
        ("deepsep.report.page", "def f():\n    from deepsep.table.columns import as_frame"),
    ],
)
def test_a_planted_import_is_found(module: str, source: str) -> None:
    (message,) = violations(source, module)
    assert message.startswith(f"{module}, line ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("deepsep.solvers.cccp", "import math\nimport scipy.linalg\nfrom numpy import linalg"),
        ("deepsep.solvers.cccp", "from . import newton\nfrom ..errors import DeepSepError"),
        ("deepsep.networks.mlp", "import torch\nfrom torch import nn\nfrom deepsep.networks.loop import _adam"),
        ("deepsep.classifiers.tsvm.tsvm", "from sklearn.base import BaseEstimator\nfrom deepsep.solvers import cccp"),
        ("deepsep.classifiers.mlp", "def f():\n    import torch"),
        ("deepsep.cli.fit", "def f():\n    from deepsep.models import load"),
        ("deepsep.__main__", "from deepsep.cli import app"),
    ],
)
def test_a_lawful_import_is_accepted(module: str, source: str) -> None:
    assert violations(source, module) == []


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after the statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_deepsep_loads_nothing_heavy() -> None:
    loaded = loaded_by("import deepsep")
    assert "deepsep" in loaded
    assert loaded.isdisjoint({"torch", "sklearn", "pandas", "numpy", "scipy", "matplotlib"})


def test_importing_the_solvers_loads_no_estimator_or_network_library() -> None:
    assert loaded_by("import deepsep.solvers").isdisjoint({"torch", "sklearn", "pandas"})


def test_the_default_network_needs_no_torch() -> None:
    assert "torch" not in loaded_by("from deepsep import DeepSep")

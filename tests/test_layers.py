"""The dependency rule between the layers, read from the source of every module."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

NETWORKS = ("deepsep._net", "deepsep._train", "deepsep.networks")

# (members of a layer, what they may import beside the standard library)
LAYERS = [
    (("deepsep.errors",), ()),
    (("deepsep.solvers",), ("numpy", "scipy", "deepsep.solvers", "deepsep.errors")),
    (NETWORKS, ("torch", "numpy", "safetensors", "deepsep.errors", *NETWORKS)),
]


def within(name: str, roots: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the roots or lies below one."""
    return any(name == root or name.startswith(root + ".") for root in roots)


def imported_names(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute name) for every import, inside functions too.

    ``from a import b`` yields ``a.b``: whether b is a module does not matter, since rules are prefixes.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = resolve_name("." * level + (module or ""), package)
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, resolve_name(name, package)


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Every import in the source of ``module`` that its layer forbids."""
    package = module if is_package else module.rpartition(".")[0]
    bad = []
    for line, name in imported_names(source, package):
        stdlib = name.partition(".")[0] in sys.stdlib_module_names
        allowed = all(stdlib or within(name, may) for members, may in LAYERS if within(module, members))
        if module == "deepsep":
            allowed = stdlib or within(name, ("deepsep",))
        if within(name, ("deepsep.cli",)) and not within(module, ("deepsep.cli", "deepsep.__main__")):
            allowed = False
        if not allowed:
            bad.append(f"{module}, line {line}: must not import {name}")
    return bad


@pytest.mark.parametrize("path", sorted(SRC.glob("deepsep/**/*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_module_keeps_to_its_layer(path: Path) -> None:
    parts = path.relative_to(SRC).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    assert violations(path.read_text(encoding="utf-8"), module, is_package=is_package) == []


@pytest.mark.parametrize(
    ("module", "source", "culprit"),
    [
        ("deepsep.solvers.cccp", "import sklearn.svm", "sklearn.svm"),
        ("deepsep.solvers.cccp", "import numpy, torch", "torch"),
        ("deepsep.solvers.cccp", "def f():\n    from sklearn import svm", "sklearn.svm"),
        ("deepsep.solvers.cccp", "from .._tsvm import TSVM", "deepsep._tsvm.TSVM"),
        ("deepsep.solvers.cccp", "from .. import _labels", "deepsep._labels"),
        ("deepsep.solvers.cccp", "from deepsep import TSVM", "deepsep.TSVM"),
        ("deepsep.solvers.cccp", "import importlib\nimportlib.import_module('pandas')", "pandas"),
        ("deepsep._net", "from sklearn.base import BaseEstimator", "sklearn.base.BaseEstimator"),
        ("deepsep._net", "from . import solvers", "deepsep.solvers"),
        ("deepsep.networks.mlp", "from ..solvers.cccp import cccp", "deepsep.solvers.cccp.cccp"),
        ("deepsep.errors", "import sklearn.exceptions", "sklearn.exceptions"),
        ("deepsep._tsvm", "from . import cli", "deepsep.cli"),
        ("deepsep.report.html", "from ..cli import app", "deepsep.cli.app"),
    ],
)
def test_forbidden_import_is_flagged(module: str, source: str, culprit: str) -> None:
    (message,) = violations(source, module)
    assert message.startswith(module)
    assert message.endswith(f"must not import {culprit}")


def test_forbidden_import_is_flagged_in_a_package() -> None:
    # In a package's __init__, one dot is the package itself.
    assert violations("from .._tsvm import TSVM", "deepsep.solvers", is_package=True)
    assert not violations("from .cccp import cccp", "deepsep.solvers", is_package=True)
    assert violations("import numpy", "deepsep", is_package=True)
    assert not violations("from ._version import __version__", "deepsep", is_package=True)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("deepsep.solvers.cccp", "import math\nimport scipy.linalg\nfrom numpy import linalg"),
        ("deepsep.solvers.cccp", "from . import newton\nfrom ..errors import DeepsepError"),
        ("deepsep._train", "import torch\nfrom torch import nn\nfrom ._net import Net"),
        ("deepsep._tsvm", "from sklearn.base import BaseEstimator\nfrom .solvers import cccp"),
        ("deepsep.__main__", "from .cli import app"),
        # A similar name is not the same name.
        ("deepsep._tsvm", "import deepsep.clients"),
    ],
)
def test_lawful_import_is_accepted(module: str, source: str) -> None:
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

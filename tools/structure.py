"""Print facts about the structure of the library as a Markdown table, one column per source tree.

    python tools/structure.py                            # this checkout
    python tools/structure.py before=../old after=.      # two checkouts side by side
    python tools/structure.py --list                     # also every place that was counted

A tree is a checkout, its ``src`` or the package itself. What is counted:

- Lines of code are neither blank nor comment nor docstring.
- An import between packages is private if it names a module or an object that starts with an underscore. The modules
  directly under ``deepsep`` count as one package here. ``_lazy``, ``_version`` and names such as ``__version__`` may be
  imported everywhere.
- Imports inside functions are those of the library's own modules.
- For cycles, each module directly under ``deepsep`` is a package of its own. Imports for type checkers alone do not
  count; imports inside functions do.
- A table of methods is a value assigned at the top of a module that contains at least four names of methods or of their
  classes; ``__all__`` is not one.
- Equal lines are compared without indentation; blank lines, comments, docstrings and imports are skipped. A block
  is counted once, however long it is and however often it occurs.
- A run passes through a file if it executes a function there; what runs while a module is imported does not count.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import resolve_name
from inspect import CO_OPTIMIZED
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

Node = TypeVar("Node")

PACKAGE = "deepsep"
SHARED = {"_lazy", "_version"}  # private modules that every package may import
SOME_METHODS = {"deepsep", "tsvm", "mean-teacher", "pi-model", "label-spreading", "random-forest", "knn"}
TABLE_SIZE = 4  # names of methods that make a table
BLOCK_SIZE = 10  # equal lines that make a block
LOG, TREE = "DEEPSEP_STRUCTURE_LOG", "DEEPSEP_STRUCTURE_TREE"  # environment of the runs


@dataclass(frozen=True)
class Fact:
    """One row of the table."""

    title: str
    count: int
    places: Sequence[str] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print facts about the structure of deepsep as a Markdown table.")
    parser.add_argument("trees", nargs="*", metavar="[NAME=]SRC", help="a checkout, its src or the package itself")
    parser.add_argument("--list", action="store_true", help="also list every place that was counted")
    parser.add_argument("--no-runs", action="store_true", help="read the source only; run nothing")
    options = parser.parse_args()
    columns: dict[str, list[Fact]] = {}
    for argument in options.trees or [f"now={Path(__file__).parents[1]}"]:
        name, _, path = argument.rpartition("=")
        root = find_package(Path(path))
        columns[name or path] = read_facts(root) + ([] if options.no_runs else run_facts(root))
    print(as_markdown(columns))
    if options.list:
        print(as_lists(columns))


def find_package(path: Path) -> Path:
    """Return the folder of the package in a checkout, in its ``src``, or given as such."""
    for folder in (path / "src" / PACKAGE, path / PACKAGE, path):
        if folder.resolve().name == PACKAGE and (folder / "__init__.py").exists():
            return folder.resolve()
    raise SystemExit(f"{path} holds no package {PACKAGE}: name a checkout, its src, or src/{PACKAGE}.")


def as_markdown(columns: dict[str, list[Fact]]) -> str:
    """Return the table."""
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(f"| {row[0].title} | {' | '.join(f'{fact.count:,}' for fact in row)} |")
    return "\n".join(lines)


def as_lists(columns: dict[str, list[Fact]]) -> str:
    """Return the places behind each number."""
    lines = []
    for name, facts in columns.items():
        for fact in facts:
            if fact.places:
                lines += ["", f"## {fact.title} ({name})", "", *(f"- {place}" for place in fact.places)]
    return "\n".join(lines)


# -- source --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """An import of one of the library's own modules."""

    line: int
    module: str  # the one named after "from" or "import", in full
    names: tuple[str, ...]  # those taken from it
    in_function: bool
    for_types: bool


@dataclass(frozen=True)
class Module:
    """A source file of the library."""

    path: Path
    root: Path

    @property
    def place(self) -> str:
        return self.path.relative_to(self.root).as_posix()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names below the package: ``("report", "figures")``; none for the package's own ``__init__``."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def package(self) -> str:
        """The subpackage, or the library itself for modules directly under it."""
        folders = self.path.relative_to(self.root).parts[:-1]
        return folders[0] if folders else PACKAGE

    @property
    def unit(self) -> str:
        """The subpackage, or the module itself if it is directly under the library."""
        return self.parts[0] if self.parts else PACKAGE

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def code(self) -> dict[int, str]:
        """Line number → line, stripped, of all that is neither blank nor comment nor docstring."""
        lines = {i: line.strip() for i, line in enumerate(self.source.splitlines(), 1)}
        texts = [node for node in ast.walk(self.tree) if isinstance(node, ast.Constant | ast.JoinedStr)]
        in_text = {i for node in texts for i in range(node.lineno + 1, (node.end_lineno or 0) + 1)}
        documentation = {
            i
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for i in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        return {
            i: line
            for i, line in lines.items()
            if line and i not in documentation and (i in in_text or not line.startswith("#"))
        }

    @cached_property
    def imports(self) -> list[Import]:
        """The library's own modules that this one imports."""
        package = ".".join((PACKAGE, *(self.parts if self.path.name == "__init__.py" else self.parts[:-1])))
        return [found for found in _imports(self.tree, package) if found.module.split(".")[0] == PACKAGE]


def _imports(node: ast.AST, package: str, in_function: bool = False, for_types: bool = False) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(node.lineno, alias.name, (), in_function, for_types)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = resolve_name("." * level + (module or ""), package) if level else str(module)
            yield Import(node.lineno, base, tuple(alias.name for alias in names), in_function, for_types)
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield Import(node.lineno, resolve_name(name, package), (), in_function, for_types)
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for child in node.body:
                yield from _imports(child, package, in_function, True)
            for child in node.orelse:
                yield from _imports(child, package, in_function, for_types)
            return
    inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for below in ast.iter_child_nodes(node):
        yield from _imports(below, package, inside, for_types)


def read_facts(root: Path) -> list[Fact]:
    """Return what the source says."""
    modules = [Module(path, root) for path in sorted(root.rglob("*.py"))]
    named = [module for module in modules if module.path.stem not in ("__init__", "__main__")]
    underscored = [module.place for module in named if module.path.name.startswith("_")]
    homes: dict[str, list[str]] = defaultdict(list)
    for module in named:
        homes[module.path.name].append(str(module.path.parent.relative_to(root.parent)))
    duplicates = [f"{name}: {', '.join(folders)}" for name, folders in sorted(homes.items()) if len(folders) > 1]
    private = [
        f"{module.place}:{found.line} imports {_words(found)}"
        for module in modules
        for found in module.imports
        if is_private(found, module, root)
    ]
    lazy = [
        (module, f"{module.place}:{found.line} imports {_words(found)}")
        for module in modules
        for found in module.imports
        if found.in_function and not found.for_types
    ]
    edges = package_imports(modules)
    mutual = [f"{a} ↔ {b}" for a, b in combinations(sorted(edges), 2) if b in edges[a] and a in edges[b]]
    circular = sorted(unit for unit in edges if unit in reachable(edges, unit))
    tables = method_tables(modules)
    blocks = equal_blocks(modules)
    elsewhere = [place for module, place in lazy if module.unit != "cli"]
    return [
        Fact("modules", len(modules)),
        Fact("lines of code", sum(len(module.code) for module in modules)),
        Fact("modules whose name starts with an underscore", len(underscored), underscored),
        Fact("file names that occur in several packages", len(duplicates), duplicates),
        Fact("private imports between packages", len(private), private),
        Fact("imports inside functions", len(lazy), [place for _, place in lazy]),
        Fact("imports inside functions, outside `cli`", len(elsewhere), elsewhere),
        Fact("pairs of packages that import each other", len(mutual), mutual),
        Fact("packages in an import cycle of any length", len(circular), circular),
        Fact("tables of methods", len(tables), tables),
        Fact(f"blocks of {BLOCK_SIZE} or more equal lines that occur more than once", len(blocks), blocks),
    ]


def _words(found: Import) -> str:
    return f"{found.module} ({', '.join(found.names)})" if found.names else found.module


def is_private(found: Import, module: Module, root: Path) -> bool:
    """Whether an import takes a private name of another package."""
    below = found.module.split(".")[1:]
    # In "from deepsep import report", the package is among the names.
    for parts in [[*below, name] for name in found.names] or [below]:
        package = parts[0] if parts and (root / parts[0]).is_dir() else PACKAGE
        if package != module.package and any(part.startswith("_") and not _is_open(part) for part in parts):
            return True
    return False


def _is_open(name: str) -> bool:
    return name in SHARED or (name.startswith("__") and name.endswith("__"))


def package_imports(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return package → the other packages that it imports when it is run."""
    units = {module.unit for module in modules}
    # A name that the library itself offers stands for the package that it comes from.
    homes = {
        name: found.module.split(".")[1]
        for module in modules
        if not module.parts
        for found in module.imports
        for name in found.names
        if "." in found.module
    }
    edges: dict[str, set[str]] = {unit: set() for unit in units}
    for module in modules:
        for found in module.imports:
            if found.for_types:
                continue
            below = found.module.split(".")[1:]
            targets = below[:1] or [name if name in units else homes.get(name, PACKAGE) for name in found.names]
            edges[module.unit].update(target for target in targets if target in units and target != module.unit)
    return edges


def reachable(edges: dict[Node, set[Node]], start: Node) -> set[Node]:
    """Return the nodes of a graph that one leads to, directly or by way of others."""
    found: set[Node] = set()
    waiting = list(edges[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges[node]
    return found


# -- tables of methods ---------------------------------------------------------------------------------------


def method_tables(modules: Sequence[Module]) -> list[str]:
    """Return where values are assigned that contain names of several methods or of their classes."""
    values = [
        (f"{module.place}:{node.lineno} {target}", node.value)
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in [ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)]
        if target != "__all__"
    ]
    catalogue = max((value for _, value in values), key=lambda value: len(SOME_METHODS & _texts(value)))
    methods = method_names(catalogue)
    known = {_plain(name) for name in methods}
    # A class may have another name than its method, such as SVC: then the tables say where it is.
    for _, value in values:
        texts = _texts(value)
        if len(methods & texts) >= TABLE_SIZE:
            places = (re.fullmatch(r"[\w.]+:([A-Z]\w+)", text) for text in texts)
            known |= {_plain(match[1]) for match in places if match}
    tables = []
    for place, value in values:
        found = known & {_plain(text) for text in _texts(value)}
        if len(found) >= TABLE_SIZE:
            tables.append(f"{place} ({len(found)} names)")
    return tables


def _plain(name: str) -> str:
    """Return what a method's name and its class's have in common: ``randomforest``."""
    return name.lower().replace("-", "").removesuffix("classifier")


def method_names(catalogue: ast.expr) -> set[str]:
    """Return the names of the methods in the catalogue: its keys, or the names of its records."""
    if isinstance(catalogue, ast.Dict):
        return {key.value for key in catalogue.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    names: set[str] = set()
    for node in ast.walk(catalogue):
        if isinstance(node, ast.Dict):
            names |= method_names(node)
        elif isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "name"] or node.args[:1]
            names |= {a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {name for name in names if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)}


def _texts(value: ast.expr) -> set[str]:
    return {node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


# -- equal lines ---------------------------------------------------------------------------------------------


def equal_blocks(modules: Sequence[Module]) -> list[str]:
    """Return each block that occurs more than once, with all its places."""
    sequences = []
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for which, module in enumerate(modules):
        imported = {
            i
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for i in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        sequence = [(i, line) for i, line in module.code.items() if i not in imported]
        sequences.append(sequence)
        for start in range(len(sequence) - BLOCK_SIZE + 1):
            windows[tuple(line for _, line in sequence[start : start + BLOCK_SIZE])].append((which, start))
    # Windows are of one block if they have the same lines, or overlap in a file.
    neighbours: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for places in windows.values():
        first, last = places[0], places[-1]
        if first[0] != last[0] or last[1] - first[1] >= BLOCK_SIZE:
            neighbours.update((place, set(places)) for place in places)
    for which, start in neighbours:
        near = {(which, start + step) for step in range(1 - BLOCK_SIZE, BLOCK_SIZE)}
        neighbours[which, start] |= near & neighbours.keys()
    blocks, seen = [], set()
    for place in sorted(neighbours):
        if place not in seen:
            block = reachable(neighbours, place)
            seen |= block
            blocks.append(", ".join(_ranges(block, modules, sequences)))
    return blocks


def _ranges(
    block: set[tuple[int, int]], modules: Sequence[Module], sequences: Sequence[Sequence[tuple[int, str]]]
) -> Iterator[str]:
    """Yield the lines of a block, file by file."""
    for which in sorted({which for which, _ in block}):
        starts = sorted(start for other, start in block if other == which)
        for k, start in enumerate(starts):
            if k == 0 or start >= starts[k - 1] + BLOCK_SIZE:
                first = sequences[which][start][0]
            if k == len(starts) - 1 or starts[k + 1] >= start + BLOCK_SIZE:
                yield f"{modules[which].place}:{first}–{sequences[which][start + BLOCK_SIZE - 1][0]}"


# -- runs ----------------------------------------------------------------------------------------------------
# Each run is a process of its own that imports this file; so do the workers that it starts, through sitecustomize.

QUICK: dict[str, Any] = {"rounds": 1, "initial_epochs": 5}


def run_facts(root: Path) -> list[Fact]:
    """Return how many files each run passes through."""
    facts = []
    for title, run in RUNS.items():
        files = files_of(run, root)
        facts.append(Fact(f"files that {title} passes through", len(files), files))
    return facts


def files_of(run: Callable[[Path], None], root: Path) -> list[str]:
    """Run in a process of its own and return the files in which it executed a function."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "start").mkdir()
        (folder / "start" / "sitecustomize.py").write_text("import structure\n\nstructure.watch_worker()\n")
        paths = [folder / "start", root.parent, Path(__file__).resolve().parent]
        environment = {
            **{key: value for key, value in os.environ.items() if key != LOG},
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            TREE: str(root),
        }
        code = f"import structure, pathlib; structure.{run.__name__}(pathlib.Path({name!r}))"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{run.__name__} failed on {root}:\n{done.stdout}{done.stderr}")
        return sorted(set((folder / "files.log").read_text(encoding="utf-8").split("\n")) - {""})


def watch(folder: Path) -> None:
    """Note from now on each of the library's files in which a function is executed, also in workers."""
    os.environ[LOG] = str(folder / "files.log")
    watch_worker()


def watch_worker() -> None:
    """Do so in this process if the run asks for it."""
    if LOG not in os.environ:
        return
    log, root = Path(os.environ[LOG]), os.environ[TREE] + os.sep
    settled: set[str] = set()

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or file in settled:
            return
        if not file.startswith(root) or not file.endswith(".py"):  # templates have functions too
            settled.add(file)
        elif _is_run(frame, root):
            settled.add(file)
            with log.open("a", encoding="utf-8") as stream:
                stream.write(f"{Path(file).relative_to(root).as_posix()}\n")

    threading.setprofile(on_event)
    sys.setprofile(on_event)


def _is_run(frame: FrameType, root: str) -> bool:
    """Whether a function is executed, and not for the sake of an import."""
    code = frame.f_code
    if not code.co_flags & CO_OPTIMIZED or code.co_name in ("__getattr__", "__dir__"):
        return False  # the body of a module or of a class, or names that load on first use
    above = frame.f_back
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(root):
            return False
        above = above.f_back
    return True


def estimator_fit(folder: Path) -> None:
    from deepsep import DeepSep

    rows = make_rows()
    X = [[row["age"], row["visits"]] for row in rows]
    y = [row["segment"] or None for row in rows]
    watch(folder)
    DeepSep(**QUICK, random_state=0).fit(X, y)


def command_fit(folder: Path) -> None:
    _command(folder, *_fit_arguments(folder), "--no-report")


def command_fit_with_report(folder: Path) -> None:
    _command(folder, *_fit_arguments(folder))


def experiment_cell(folder: Path) -> None:
    import pandas as pd

    from deepsep.experiments import prepare, run

    frame = pd.DataFrame(make_rows(labelled=None)).drop(columns="customer")
    sizes: dict[str, Any] = {"labels": [12], "shuffles": 1, "validation": 6, "test_per_class": 30}
    experiment = prepare(
        "people", frame, folder, label="segment", methods=["deepsep"], settings={"deepsep": QUICK}, trials=0, **sizes
    )
    watch(folder)
    run(experiment, jobs=1)


def command_score(folder: Path) -> None:
    from deepsep.cli import app

    app([*_fit_arguments(folder), "--no-report"], standalone_mode=False)
    model, table, target = (str(folder / name) for name in ("model", "people.csv", "scored.csv"))
    _command(folder, "score", model, table, "--id", "customer", "-o", target)


def _command(folder: Path, *arguments: str) -> None:
    """Run the command line; the process ends with it."""
    from deepsep.cli import app

    watch(folder)
    app(list(arguments))


def _fit_arguments(folder: Path) -> list[str]:
    table = folder / "people.csv"
    rows = make_rows()
    with table.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    settings = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    return ["fit", str(table), "--label", "segment", "--id", "customer", "-o", str(folder / "model"), *settings]


def make_rows(n: int = 150, labelled: int | None = 40) -> list[dict[str, Any]]:
    """Return people in two segments that show in their features; by default, the segments of most are unknown."""
    draw = random.Random(0)
    rows = []
    for i in range(n):
        kind = draw.randrange(2)
        rows.append(
            {
                "customer": f"c{i:03d}",
                "age": round(30 + 20 * kind + draw.gauss(0, 6), 1),
                "visits": round(draw.gauss(5 - 3 * kind, 1), 2),
                "plan": draw.choice(("free", "basic") if kind else ("basic", "pro")),
                "segment": ("blue", "gold")[kind] if labelled is None or i < labelled else "",
            }
        )
    return rows


RUNS: dict[str, Callable[[Path], None]] = {
    "`DeepSep.fit`": estimator_fit,
    "`deepsep fit --no-report`": command_fit,
    "`deepsep fit`": command_fit_with_report,
    "one experiment cell": experiment_cell,
    "`deepsep score`": command_score,
}

if __name__ == "__main__":
    main()

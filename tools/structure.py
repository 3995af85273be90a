"""Print facts about the structure of the library as a Markdown table, one column per checkout.

    python tools/structure.py                            # this checkout
    python tools/structure.py before=../old after=.      # two checkouts side by side
    python tools/structure.py --list                     # also every place that was counted
    python tools/structure.py --no-runs                  # read the source only
    python tools/structure.py --write                    # put the table of this checkout into CONTRIBUTING.md

What is counted:

- Modules are all source files, packages the folders below ``deepsep``.
- A side channel is an attribute with an underscore that a class declares with a value, and that other code sets on its
  instances, in another module.
- The largest signature is that of a function outside the command line, without ``self``.
- Public names are functions and classes at the top of a module.
- Constants are names in capitals at the top of a module; those of one word have no underscore.
- Identifiers are counted as often as they occur.
- A committee of three members in three folds needs its rows checked once.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "deepsep"
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"(?<=<!-- structure -->\n\n)(\|.*?)(?=\n\n<!-- end -->)", re.S)
OUTER = {"zoo", "apps", "study"}  # packages beside the core
QUESTION = re.compile(r"(What|How|Which|Where)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fact:
    """One row of the table."""

    title: str
    count: int
    places: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Module:
    """A source file of the library."""

    place: str
    source: str
    tree: ast.Module

    @property
    def top(self) -> str:
        """The first folder, or the file itself."""
        return self.place.partition("/")[0]

    def walk(self, kind: type | tuple[type, ...]) -> Iterator[ast.AST]:
        """Yield all nodes of a kind."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))


def main() -> None:
    parser = argparse.ArgumentParser(description="Print facts about the structure of deepsep as a Markdown table.")
    parser.add_argument("trees", nargs="*", metavar="[NAME=]CHECKOUT")
    parser.add_argument("--list", action="store_true", help="also list every place that was counted")
    parser.add_argument("--no-runs", action="store_true", help="read the source only; run nothing")
    parser.add_argument("--write", action="store_true", help="put the table of this checkout into CONTRIBUTING.md")
    options = parser.parse_args()
    if options.write and options.trees:
        parser.error("--write is for this checkout: name no other.")
    columns: dict[str, list[Fact]] = {}
    for argument in options.trees or [f"now={ROOT}"]:
        name, _, path = argument.rpartition("=")
        root = (Path(path) / "src" / PACKAGE).resolve()
        if not root.is_dir():
            raise SystemExit(f"{path} has no src/{PACKAGE}: name a checkout.")
        columns[name or path] = read_facts(root) + ([] if options.no_runs else run_facts(root))
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    lines += [row_of(facts) for facts in zip(*columns.values(), strict=True)]
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BLOCK.sub(lambda block: updated(block[0], lines), text), encoding="utf-8")
    for name, facts in columns.items() if options.list else ():
        for fact in facts:
            lines += (
                ["", f"## {fact.title} ({name})", "", *(f"- {each}" for each in fact.places)] if fact.places else []
            )
    print("\n".join(lines))


def row_of(facts: Sequence[Fact]) -> str:
    """Return a row of the table: the same fact of every checkout."""
    return f"| {facts[0].title} | {' | '.join(f'{fact.count:,}{fact.note}' for fact in facts)} |"


def updated(table: str, lines: Sequence[str]) -> str:
    """Return the new lines, and the rows of the table that are not among them: those of runs, with ``--no-runs``."""
    titles = {line.split(" | ")[0] for line in lines}
    return "\n".join([*lines, *(row for row in table.splitlines()[2:] if row.split(" | ")[0] not in titles)])


def read_facts(root: Path) -> list[Fact]:
    """Return what the source says."""
    modules = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        modules.append(Module(path.relative_to(root).as_posix(), source, ast.parse(source)))
    lines = {module.place: len(module.source.splitlines()) for module in modules}
    core = [module for module in modules if module.top not in OUTER]
    packages = {place.rpartition("/")[0] for place in lines} - {""}
    constants = list(_constants(modules))
    pipelines = list(_calls_about_pipelines(modules))
    (size, largest), *_ = sorted(_signatures(modules), reverse=True)
    titles = [(module, node) for module in modules for node in module.walk((ast.Module, ast.ClassDef, Function))]
    questions = [f"{m.place}: {text}" for m, node in titles if QUESTION.match(text := ast.get_docstring(node) or "")]
    return [
        Fact("lines", sum(lines.values())),
        Fact("lines outside `zoo`, `apps` and `study`", sum(lines[module.place] for module in core)),
        Fact("modules", len(modules)),
        Fact("packages", len(packages)),
        _several("file names that occur twice", ((Path(place).name, place) for place in lines), {"__init__.py"}),
        _several("public names defined in several modules", _public_names(modules)),
        Fact("side channels", len(channels := _side_channels(modules)), channels),
        Fact("`isinstance(…, Pipeline)`", len(pipelines), pipelines),
        Fact("parameters of the largest signature", size, note=f" (`{largest}`)"),
        Fact("module constants", len(constants)),
        Fact("module constants of one word", len(short := [each for each in constants if "_" not in each]), short),
        Fact("docstrings that begin with What, How, Which or Where", len(questions), questions),
        Fact("identifiers with “labelled”", sum("labelled" in name.lower() for name in _identifiers(modules))),
    ]


def _several(title: str, found: Iterator[tuple[str, str]], without: set[str] = frozenset()) -> Fact:
    """Return how many names occur in several places."""
    homes: dict[str, set[str]] = defaultdict(set)
    for name, place in found:
        homes[name].add(place)
    several = [f"{name}: {', '.join(sorted(at))}" for name, at in sorted(homes.items()) if len(at) > 1]
    several = [each for each in several if each.partition(":")[0] not in without]
    return Fact(title, len(several), several)


def _public_names(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, module.place


def _side_channels(modules: Sequence[Module]) -> list[str]:
    homes, places = defaultdict(set), defaultdict(set)
    for module in modules:
        for kind in module.walk(ast.ClassDef):
            for name in _assigned(kind.body):
                homes[name].add(module.place)
        for node in module.walk(ast.Attribute):
            if isinstance(node.ctx, ast.Store) and ast.unparse(node.value) not in ("self", "cls"):
                places[node.attr].add(module.place)
    names = [name for name in sorted(homes.keys() & places.keys()) if re.match(r"_[^_]", name)]
    elsewhere = {name: sorted(places[name] - homes[name]) for name in names}
    return [f"{name}: {', '.join(found)}" for name, found in elsewhere.items() if found]


def _calls_about_pipelines(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for call in module.walk(ast.Call):
            if ast.unparse(call.func) == "isinstance" and re.search(r"\bPipeline\b", ast.unparse(call.args[1])):
                yield f"{module.place}:{call.lineno}"


def _signatures(modules: Sequence[Module]) -> Iterator[tuple[int, str]]:
    for module in modules:
        for node in () if module.top == "cli" else module.walk(Function):
            given = node.args
            names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            yield len([name for name in names if name not in ("self", "cls")]), node.name


def _constants(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        yield from (name for name in _assigned(module.tree.body) if re.fullmatch(r"[A-Z][A-Z0-9_]*", name))


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that get a value in the body of a module or of a class."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def _identifiers(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for node in ast.walk(module.tree):
            for field in ("id", "attr", "arg", "name"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    yield name


# -- runs ----------------------------------------------------------------------------------------------------


def run_facts(root: Path) -> list[Fact]:
    """Return what two short runs do, each in a process of its own."""
    return [
        Fact("times `deepsep fit t.csv` opens its CSV", count_in(opens_of_the_table, root)),
        Fact("times it opens either of two, with `--labels`", count_in(opens_with_labels, root)),
        Fact("times a committee checks its rows", count_in(checks_of_the_rows, root)),
    ]


def count_in(run: Callable[[], None], root: Path) -> int:
    """Return the number that a run prints last."""
    paths = os.pathsep.join(map(str, (root.parent, Path(__file__).resolve().parent)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", f"import structure; structure.{run.__name__}()"]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{run.__name__} failed on {root}:\n{done.stdout}{done.stderr}")
    return int(done.stdout.split()[-1])


def opens_of_the_table() -> None:
    """Fit to a small CSV file, with a report, and print how often it was opened."""
    print(_opens_of_a_fit()["t.csv"])


def opens_with_labels() -> None:
    """Fit to a small CSV file with labels in another one, and print how often the one opened more often was opened."""
    Path("more.csv").write_text("customer,segment\n" + "".join(f"c{i},gold\n" for i in range(41, 61, 2)))
    print(max(_opens_of_a_fit("--labels", "more.csv", "--no-report").values()))


def _opens_of_a_fit(*options: str) -> Counter[str]:
    from deepsep.cli import app

    rows = [f"c{i},{20 + i % 7 + 30 * (i % 2)},{i % 5},{('blue', 'gold')[i % 2] if i < 40 else ''}" for i in range(150)]
    Path("t.csv").write_text("\n".join(["customer,age,visits,segment", *rows]) + "\n", encoding="utf-8")
    opens: Counter[str] = Counter()
    sys.addaudithook(lambda event, about: opens.update([Path(str(about[0])).name] if event == "open" else []))
    command = ["fit", "t.csv", "--label", "segment", "--id", "customer", "--method", "tsvm", "-o", "model", "--quiet"]
    try:
        app([*command, *options])
    except SystemExit as end:
        if end.code:
            raise
    return Counter({name: opens[name] for name in ("t.csv", "more.csv")})


def checks_of_the_rows() -> None:
    """Fit a committee of three members, and print how often rows were checked."""
    import numpy as np

    from deepsep import Committee

    rng, calls = np.random.default_rng(0), []
    X = rng.normal(size=(90, 3))
    y = np.where(np.arange(90) < 45, np.where(X[:, 0] > 0, "a", "b"), None)
    members = ["tsvm", "logistic-regression", "knn"]
    committee = Committee(members=members, effort="fast", student=False, n_jobs=1, random_state=0)
    sys.setprofile(
        lambda frame, event, _: (
            calls.append(1) if event == "call" and frame.f_code.co_name == "read_training_rows" else None
        )
    )
    committee.fit(X, y)
    sys.setprofile(None)
    print(len(calls))


if __name__ == "__main__":
    main()

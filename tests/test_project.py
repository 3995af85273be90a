"""The project's own files agree with one another."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import deepsep
from tools import structure

ROOT = Path(__file__).parents[1]
repository = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="not part of the distribution")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pin_lines() -> list[str]:
    return [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]


def direct_requirements() -> list[Requirement]:
    """What the core and the test and dev extras name, apart from deepsep's own extras."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    named = map(Requirement, project["dependencies"] + extras["test"] + extras["dev"])
    return [requirement for requirement in named if requirement.name != "deepsep"]


def test_metadata_has_the_package_version() -> None:
    assert version("deepsep") == deepsep.__version__


def test_citation_has_the_package_version() -> None:
    assert re.findall(r"^version: (\S+)$", read("CITATION.cff"), re.M) == [deepsep.__version__]


def test_newest_changelog_section_has_the_package_version() -> None:
    sections = re.findall(r"^## \[(.+?)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.M)
    assert sections[0] == deepsep.__version__


def test_the_wheel_contains_the_weights_and_nothing_that_made_them() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="run make again, which installs hatchling")
    paths = {file.distribution_path for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()}
    assert "deepsep/networks/in_context.safetensors" in paths
    assert "deepsep/networks/in_context_network.py" in paths
    assert {f"deepsep/apps/label/page.{kind}" for kind in ("html", "css", "js")} <= paths
    assert {path.split("/")[0] for path in paths} == {"deepsep"}
    assert (ROOT / "src/deepsep/networks/in_context.safetensors").stat().st_size < 16e6


def test_constraints_are_exact_versions_named_once() -> None:
    lines = pin_lines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    names = [canonicalize_name(line.partition("==")[0]) for line in lines]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("requirement", direct_requirements(), ids=str)
def test_direct_dependency_is_pinned(requirement: Requirement) -> None:
    pins = {canonicalize_name(name): pin for name, _, pin in (line.partition("==") for line in pin_lines())}
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def targets() -> dict[str, list[str]]:
    """The targets of the Makefile that it lists, each with those it consists of."""
    lines = re.findall(r"^([a-z]+):(.*?)##", read("Makefile"), re.M)
    return {name: needs.split() for name, needs in lines}


@repository
def test_every_way_to_check_runs_the_same_targets() -> None:
    yaml = pytest.importorskip("yaml", reason="run make again, which installs pre-commit and with it PyYAML")
    (job,) = yaml.safe_load(read(".github/workflows/check.yml"))["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [step for step in job["steps"] if not step.get("uses", "actions/").startswith("actions/")] == []
    assert [command for command in commands if not re.fullmatch(r"make [a-z]+", command)] == []
    workflow = {command.removeprefix("make ") for command in commands}
    script = " ".join(re.findall(r"^make (.*)$", read(".ci/run"), re.M)).split()
    assert workflow == set(script) == set(targets()["check"])
    assert workflow <= targets().keys()


@repository
def test_contributing_shows_the_structure_of_the_source() -> None:
    shown = structure.BLOCK.search(read("CONTRIBUTING.md"))
    assert shown is not None
    now = [structure.row_of([fact]) for fact in structure.read_facts(ROOT / "src" / "deepsep")]
    differ = [row for row in now if row not in shown[0].splitlines()]
    assert differ == [], "run: python tools/structure.py --write"


def test_writing_the_structure_keeps_the_rows_of_runs() -> None:
    table = "| | now |\n|---|---:|\n| modules | 7 |\n| times it opens its CSV | 4 |"
    new = ["| | now |", "|---|---:|", "| modules | 8 |"]
    assert structure.updated(table, new).splitlines() == [*new, "| times it opens its CSV | 4 |"]


@repository
def test_pages_name_targets_that_exist() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "docs/index.md", ".github/pull_request_template.md"):
        named = re.findall(r"(?:`|^)make ([a-z]+)(?:`| +#)", read(page), re.M)
        assert named
        assert set(named) <= targets().keys(), page

"""Numbers on the pages agree with the results that they come from (`tools/check_numbers.py`)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_numbers

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def problems(text: str) -> list[str]:
    return check_numbers.check("page.md", text, all_marked=True)[0]


@pytest.mark.parametrize("page", check_numbers.PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_agrees_with_its_sources(page: Path) -> None:
    assert check_numbers.check_page(page)[0] == []


OTHER_PAGES = sorted(set((ROOT / "docs").rglob("*.md")) - set(check_numbers.PAGES))


@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_other_pages_leave_measured_numbers_to_the_results(page: Path) -> None:
    markers = [marker[0] for marker in check_numbers.MARKER.finditer(page.read_text(encoding="utf-8"))]
    assert markers == [], f"{page.name}: state the figure on a page in docs/results/, and link to it"


FOREST = '<!-- = methods.accuracy("random-forest", 35) -->'
TABLE = "<!-- table: tsvm_quoted.table('set', 'LDS (book)', labels=10) -->"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"The forest gets 53.9 %{FOREST} right.", "page.md:1: shown 53.9, now 53.5"),
        (f"The forest gets 60 %{FOREST[:-4]}, within 2 --> right.", "shown 60, now 54"),
        (f"It is ahead by six points{FOREST}.", "shown six, now 54"),
        ('At 24, 24 and 18 points<!-- = methods.errors("deepsep") -->.', "shown 18, now 17"),
        ('It leads.<!-- holds: methods.rank("deepsep", "splice", 35) == 1 -->', "is no longer so"),
        (f"{TABLE}\n\n| set | LDS (book) |\n|---|---|\n| Digit1 | 15.64 |\n\n<!-- end -->", "now | Digit1 | 15.63 |"),
        (f"{TABLE}\n\n| set |", "no <!-- end -->"),
        ("It gets 53.5 %<!-- = forests.accuracy(35) -->.", "NameError: name 'forests'"),
        ("It gets 53.5 %<!-- = methods.accuracy('forest', 35) -->.", "KeyError"),
        ("It gets 53.5 %<!-- equals: 53.5 -->.", "there is no marker 'equals'"),
        (f"It gets 53.5 %\n{FOREST} right.", "not at the beginning of the next"),
        ("```console\n$ deepsep fit 73\n72 % right\n```\n\nIt gets 73 %<!-- shown -->.", "73 is not in an output"),
        ("One sentence.\n\nIt is 3 times as fast.", "page.md:3: '3 times as fast.' has no source"),
        (f"It gets 53.5 %{FOREST} right, and 1.2 more.", "'1.2 more.' has no source"),
        ("It is 5 s.<!-- given --> Here are 6 s.", "'6 s.' has no source"),
        ("| a | b |\n|---|---|\n| 12.5 | c |", "'12.5 | c |' has no source"),
        ("Two points behind, or two points ahead.", "'two points ahead.' has no source"),
    ],
)
def test_planted_error_is_seen(text: str, problem: str) -> None:
    assert any(problem in one for one in problems(text)), problems(text)


@pytest.mark.parametrize(
    "text",
    [
        f"The forest gets 53.5 %{FOREST} right, and 35 labels are few.",
        f"The forest gets 52 %{FOREST[:-4]}, within 2 --> right.",
        f"It gets **54 %**{FOREST}: with 35 labels of 1,250.",
        'Errors are 24, 24 and 17<!-- = methods.errors("deepsep") --> points.',
        "A 95 % interval<!-- given -->, and Algorithm 1.",
        "<!-- given -->\n\n| a |\n|---|\n| 0.5 |\n\n<!-- end -->",
        "```text\n5 % of code\n```\n\n    8 s of code\n\nand `0.5` inline, [a link](page-2.5.md).",
        "```console\n$ deepsep fit\n71.6 % right\n```\n\nIt gets 72 %<!-- shown --> right.",
    ],
)
def test_what_agrees_passes(text: str) -> None:
    assert problems(text) == []


def test_write_brings_numbers_and_tables_up_to_date() -> None:
    text = f"The forest gets 50.1 %{FOREST} right.\n\n{TABLE}\n\nold\n\n<!-- end -->\n"
    new = check_numbers.check("page.md", text)[1]
    assert "gets 53.5 %<!--" in new
    assert "| Digit1 | 15.63 |" in new
    assert check_numbers.check("page.md", new) == ([], new)


def listed() -> dict[str, str]:
    """Return the file and the command of every row in the table of benchmarks/README.md."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| `(.+?)`", text, re.M)
    return dict(rows)


def test_every_result_has_a_command() -> None:
    assert sorted(listed()) == sorted(path.name for path in RESULTS.iterdir() if path.is_file())


@pytest.mark.parametrize("command", sorted(set(listed().values())))
def test_scripts_of_results_exist(command: str) -> None:
    assert command.startswith(("deepsep ", "python "))
    assert all((ROOT / script).exists() for script in re.findall(r"\S+\.py", command))


def test_benchmarks_can_be_imported() -> None:
    scripts = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    process = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(scripts)}"],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr

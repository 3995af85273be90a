"""Hold the numbers on the pages against the results that they come from.

    python tools/check_numbers.py            # list the numbers, statements and tables that parted from their sources
    python tools/check_numbers.py --write    # bring numbers and tables up to date; statements are for people to mend

Pages are README.md and docs/. A number names its source in a comment that readers do not see, on the same line:

    a forest gets 53.5 %<!-- = methods.accuracy("random-forest", 35) --> right          the number is this value
    errors of 24, 24 and 17<!-- = methods.errors("deepsep") --> points                  the last three numbers are
    rises to 91 %<!-- = tsvm_draws.means("two moons")[1], within 2 --> on average       up to 2 more or less is fine
    DeepSep is the best.<!-- holds: methods.rank("deepsep", "texture", 125) == 1 -->    the statement is true
    expect 76 %<!-- shown -->                                  the number is in the output shown above, on this page
    with 95 % confidence<!-- given -->                         not measured by us: a definition, an example, a quotation

`<!-- table: methods.summary(...) -->` and `<!-- end -->`, on lines of their own, stand around a generated table;
`<!-- given -->` and `<!-- end -->` around one that is not measured. Values are shown with the digits that the page has.

A marker speaks for the numbers between the marker before it, or the beginning of its sentence, item, cell or picture,
and itself. On the pages for users, every number that looks measured (with decimals, or before a unit) needs one.
Expressions are Python over the names in `sources.py`, where every file in benchmarks/results has a reader.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from sources import SOURCES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MEASURED_PAGES = re.compile(r"results-\w+\.md$|experiment/|api\.md$|cli\.md$")  # here only what is marked is checked

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
UNIT = r"\**\s?(?:%|(?:per cent|points?|times|s|seconds?|minutes?|[kMG]B|rows (?:per|a) second)\b|×(?!\s*\d))"
NUMBER = re.compile(
    r"(?<![\w.])[−+-]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w|\.?\d)"
    rf"|\b(?:{'|'.join(WORDS)})\b(?= (?:points?|per cent)\b)"
)
MARKER = re.compile(r"<!-- (=|holds:|table:|shown\b|given\b|end\b|\w+:)\s*(.*?)\s*-->", re.S)
TOLERANCE = re.compile(r"(.*), within ([\d.]+)$", re.S)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)
NOT_PROSE = re.compile(
    r"(?:^(?: {4}|\t)\S.*\n)+|`[^`\n]+(?:\n[^`\n]+)?`|\]\([^)\s]*\)|<!--.*?-->|https?://\S+|Python 3\.\d+", re.M
)
PICTURE = re.compile(r"!\[[^]]*\]")
BREAK = re.compile(r"[.!?][”*)]*\s+(?=[^a-z])|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\||\n#")


@dataclass
class Check:
    """What is wrong with a page, and its text with numbers and tables brought up to date."""

    page: str
    text: str
    problems: list[str] = field(default_factory=list)

    def add(self, position: int, message: str) -> None:
        line = self.text.count("\n", 0, position) + 1
        self.problems.append(f"{self.page}:{line}: {message}")


@dataclass(frozen=True)
class Marker:
    kind: str
    body: str
    start: int
    end: int


def check(page: str, text: str, *, all_marked: bool = False) -> tuple[list[str], str]:
    """Return what is wrong with a page, and the page as it should be.

    With `all_marked`, numbers that look measured and have no marker are wrong too.
    """
    result = Check(page, text)
    prose = masked(text, FENCE)
    markers = [Marker(m[1].rstrip(":"), m[2], m.start(), m.end()) for m in MARKER.finditer(prose)]
    pictures = [m.span() for m in PICTURE.finditer(prose)]
    prose = masked(prose, NOT_PROSE)
    breaks = [m.end() for m in BREAK.finditer(prose) if not any(a < m.start() < b for a, b in pictures)]
    changes: list[tuple[int, int, str]] = []
    explained: list[tuple[int, int]] = []
    before = 0
    for marker in markers:
        first = max([before, *(end for end in breaks if end <= marker.start)])
        numbers = list(NUMBER.finditer(prose, first, marker.start))
        alone = not re.search(r"\S", line_around(text, marker))
        before = marker.end
        if not alone and not text[: marker.start].rpartition("\n")[2].strip():
            result.add(marker.start, "a marker stands on the line of its number, not at the beginning of the next")
        elif marker.kind == "table" or (marker.kind == "given" and alone):
            end = next((other for other in markers if other.kind == "end" and other.start > marker.end), None)
            if end is None:
                result.add(marker.start, "no <!-- end --> after this")
                continue
            explained.append((marker.start, end.end))
            before = end.end
            if marker.kind == "table":
                changes += check_table(result, marker, end)
        elif marker.kind == "=":
            claimed, changed = check_values(result, marker, numbers)
            explained += [m.span() for m in claimed]
            changes += changed
        elif marker.kind in ("holds", "given", "shown"):
            explained.append((first, marker.start))
            if marker.kind == "holds" and value(result, marker) is False:
                result.add(marker.start, f"is no longer so: {marker.body}")
            if marker.kind == "shown":
                check_shown(result, text[: marker.start], numbers)
        elif marker.kind != "end":
            result.add(marker.start, f"there is no marker {marker.kind!r}")
    if all_marked:
        for number in NUMBER.finditer(prose):
            looks_measured = "." in number[0] or re.match(UNIT, prose[number.end() :])
            if looks_measured and not any(start <= number.start() < end for start, end in explained):
                shown = " ".join(text[number.start() : number.end() + 20].split())
                result.add(number.start(), f"{shown!r} has no source")
    for first, last, new in sorted(changes, reverse=True):
        text = text[:first] + new + text[last:]
    return result.problems, text


def masked(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with what matches as blanks, so that positions stay."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def line_around(text: str, marker: Marker) -> str:
    return text[: marker.start].rpartition("\n")[2] + text[marker.end :].partition("\n")[0]


def value(result: Check, marker: Marker) -> Any:
    """Return the value of a marker's expression, or None if it has none, which is a problem."""
    expression = TOLERANCE.sub(r"\1", marker.body)
    try:
        return eval(" ".join(expression.split()), {"__builtins__": {}, **SOURCES})
    except Exception as error:
        result.add(marker.start, f"{expression} cannot be read: {type(error).__name__}: {error}")
        return None


def check_values(
    result: Check, marker: Marker, numbers: list[re.Match[str]]
) -> tuple[list[re.Match[str]], list[tuple[int, int, str]]]:
    """Compare the numbers before a marker with its values; return the numbers and their changes."""
    now = value(result, marker)
    if now is None:
        return numbers, []
    values = list(now) if isinstance(now, Iterable) else [now]
    numbers = numbers[-len(values) :]
    if len(numbers) < len(values):
        result.add(marker.start, f"{len(numbers)} numbers before the marker, but {len(values)} values")
        return numbers, []
    tolerance = TOLERANCE.match(marker.body)
    changes = []
    for shown, actual in zip(numbers, values, strict=True):
        right = like(shown[0], float(actual))
        if right != shown[0] and not (tolerance and abs(number(shown[0]) - actual) <= float(tolerance[2])):
            result.add(shown.start(), f"shown {shown[0]}, now {right}")
            changes.append((*shown.span(), right))
    return numbers, changes


def check_table(result: Check, marker: Marker, end: Marker) -> Iterator[tuple[int, int, str]]:
    """Compare a table with the generated one; yield its change."""
    table = value(result, marker)
    if table is not None and result.text[marker.end : end.start].strip() != table:
        shown, new = result.text[marker.end : end.start].strip().splitlines(), table.splitlines()
        first = next((i for i, pair in enumerate(zip(shown, new, strict=False)) if pair[0] != pair[1]), None)
        parted = "its length" if first is None else f"shown {shown[first]}, now {new[first]}"
        result.add(marker.start, f"the table differs: {parted}")
        yield marker.end, end.start, f"\n\n{table}\n\n"


def check_shown(result: Check, above: str, numbers: list[re.Match[str]]) -> None:
    """Look for numbers in the output of the commands shown above."""
    blocks = [m[0] for m in FENCE.finditer(above) if "```console" in m[0] or ">>>" in m[0]]
    lines = [line for block in blocks for line in block.splitlines() if not re.match(r"\s*(\$|>>>|\.\.\.|```)", line)]
    outputs = [number(m[0]) for line in lines for m in NUMBER.finditer(line)]
    for shown in numbers:
        if not any(like(shown[0], output) == shown[0] for output in outputs):
            result.add(shown.start(), f"{shown[0]} is not in an output shown above")


def number(text: str) -> float:
    return float(WORDS.index(text)) if text in WORDS else float(text.replace(",", "").replace("−", "-"))


def like(shown: str, now: float) -> str:
    """Return a value written like a number that is shown: its digits, its sign, or in a word."""
    if shown in WORDS and round(now) in range(len(WORDS)):
        return WORDS[round(now)]
    sign = "+" if shown.startswith("+") else ""
    text = f"{now:{sign},.{len(shown.partition('.')[2])}f}"
    text = text if "," in shown or len(shown) < 4 else text.replace(",", "")
    return text.replace("-", "−") if "−" in shown else text


def check_page(path: Path) -> tuple[list[str], str]:
    name = path.relative_to(ROOT).as_posix()
    return check(name, path.read_text(encoding="utf-8"), all_marked=not MEASURED_PAGES.search(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="bring numbers and tables up to date")
    options = parser.parse_args()
    found = []
    for path in PAGES:
        problems, text = check_page(path)
        found += problems
        if options.write:
            path.write_text(text, encoding="utf-8")
    print("\n".join(found) or f"{len(PAGES)} pages agree with their sources.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

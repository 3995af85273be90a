"""Hold the numbers on the pages against the results that they come from.

    python tools/check_numbers.py            # list the numbers, statements and tables that parted from their sources
    python tools/check_numbers.py --write    # bring numbers and tables up to date; statements are for people to correct

Pages are README.md and those in docs/results/; other pages state no measured numbers. A number names its source in a
comment that readers do not see, on the same line:

    a forest gets 53.5 %<!-- = methods.accuracy("random-forest", 35) --> right          the number is this value
    errors of 24, 24 and 17<!-- = methods.errors("deepsep") --> points                  the last three numbers are
    rises to 91 %<!-- = tsvm_draws.means("two moons")[1], within 2 --> on average       up to 2 more or less is fine
    DeepSep is the best.<!-- holds: methods.rank("deepsep", "texture", 125) == 1 -->    the statement is true
    expect 76 %<!-- shown -->                                  the number is in the output shown above, on this page
    with 95 % confidence<!-- given -->                         not measured by us: a definition, an example, a quotation

`<!-- table: methods.summary(...) -->` and `<!-- end -->`, on lines of their own, stand around a generated table;
`<!-- given -->` and `<!-- end -->` around one that is not measured. Values are shown with the digits that the page has.

A marker speaks for the numbers between the marker before it, or the beginning of its sentence, item, cell or picture,
and itself. Every number that looks measured (with decimals, or before a unit) needs one, apart from `EXPERIMENT`.
Expressions are Python over the names in `sources.py`, where every file in benchmarks/results has a reader.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from sources import SOURCES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "results").rglob("*.md"))]
EXPERIMENT = re.compile(r"results/experiment\b")  # pages made by `deepsep experiment`: only what is marked is checked

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
INPUT = re.compile(r"\s*(\$|>>>|\.\.\.|```)")
PICTURE = re.compile(r"!\[[^]]*\]")
BREAK = re.compile(r"[.!?][”*)]*\s+(?=[^a-z])|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\||\n#")


@dataclass(frozen=True)
class Marker:
    kind: str
    body: str
    start: int
    end: int


class Page:
    """A page, what is wrong with it, and what would bring it up to date."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.problems: list[str] = []
        self.changes: list[tuple[int, int, str]] = []
        self.explained: list[tuple[int, int]] = []  # where numbers have a source
        code_apart = masked(text, FENCE)
        self.markers = [Marker(m[1].rstrip(":"), m[2], m.start(), m.end()) for m in MARKER.finditer(code_apart)]
        self.prose = masked(code_apart, NOT_PROSE)
        pictures = [m.span() for m in PICTURE.finditer(code_apart)]
        breaks = BREAK.finditer(self.prose)
        self.breaks = [m.end() for m in breaks if not any(a < m.start() < b for a, b in pictures)]

    def check(self, *, all_marked: bool) -> None:
        """Compare what is marked; with `all_marked`, look for numbers that should be and are not."""
        before = 0
        for marker in self.markers:
            first = max([before, *(end for end in self.breaks if end <= marker.start)])
            before = self._check_marker(marker, first)
        if all_marked:
            for found in NUMBER.finditer(self.prose):
                looks_measured = "." in found[0] or re.match(UNIT, self.prose[found.end() :])
                if looks_measured and not any(start <= found.start() < end for start, end in self.explained):
                    shown = " ".join(self.text[found.start() : found.end() + 20].split())
                    self._add(found.start(), f"{shown!r} has no source")

    def updated(self) -> str:
        """Return the text with numbers and tables brought up to date."""
        text = self.text
        for start, end, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _add(self, position: int, message: str) -> None:
        line = self.text.count("\n", 0, position) + 1
        self.problems.append(f"{self.name}:{line}: {message}")

    def _check_marker(self, marker: Marker, first: int) -> int:
        """Check a marker that speaks for the numbers from `first` on; return where the next may begin."""
        numbers = list(NUMBER.finditer(self.prose, first, marker.start))
        left, right = self.text[: marker.start].rpartition("\n")[2], self.text[marker.end :].partition("\n")[0]
        alone = not (left + right).strip()
        if not left.strip() and not alone:
            self._add(marker.start, "a marker stands on the line of its number, not at the beginning of the next")
        elif marker.kind == "table" or (marker.kind == "given" and alone):
            return self._check_block(marker)
        elif marker.kind == "=":
            self._check_values(marker, numbers)
        elif marker.kind in ("holds", "given", "shown"):
            self.explained.append((first, marker.start))
            if marker.kind == "holds":
                self._check_statement(marker)
            elif marker.kind == "shown":
                self._check_shown(marker, numbers)
        elif marker.kind != "end":
            self._add(marker.start, f"there is no marker {marker.kind!r}")
        return marker.end

    def _value(self, marker: Marker) -> Any:
        """Return the value of a marker's expression, or None if it has none, which is a problem."""
        expression = " ".join(TOLERANCE.sub(r"\1", marker.body).split())
        try:
            return eval(expression, {"__builtins__": {}, **SOURCES})
        except Exception as error:
            self._add(marker.start, f"{expression} cannot be read: {type(error).__name__}: {error}")
            return None

    def _check_statement(self, marker: Marker) -> None:
        now = self._value(marker)
        if now is not None and not now:
            self._add(marker.start, f"is no longer so: {marker.body}")

    def _check_values(self, marker: Marker, numbers: list[re.Match[str]]) -> None:
        """Compare the last numbers before a marker with its values."""
        now = self._value(marker)
        values = list(now) if isinstance(now, Iterable) else [now]
        numbers = numbers[-len(values) :]
        self.explained += [shown.span() for shown in numbers]
        if len(numbers) < len(values):
            self._add(marker.start, f"{len(numbers)} numbers before the marker, but {len(values)} values")
        elif now is not None:
            tolerance = TOLERANCE.match(marker.body)
            for shown, actual in zip(numbers, values, strict=True):
                right = like(shown[0], float(actual))
                if right != shown[0] and not (tolerance and abs(number(shown[0]) - actual) <= float(tolerance[2])):
                    self._add(shown.start(), f"shown {shown[0]}, now {right}")
                    self.changes.append((*shown.span(), right))

    def _check_block(self, marker: Marker) -> int:
        """Compare a table with the generated one; return where it ends."""
        end = next((other for other in self.markers if other.kind == "end" and other.start > marker.end), None)
        if end is None:
            self._add(marker.start, "no <!-- end --> after this")
            return marker.end
        self.explained.append((marker.start, end.end))
        table = self._value(marker) if marker.kind == "table" else None
        shown = self.text[marker.end : end.start].strip()
        if table is not None and shown != table:
            pairs = zip(shown.splitlines(), table.splitlines(), strict=False)
            first = next((f"shown {a}, now {b}" for a, b in pairs if a != b), "its length")
            self._add(marker.start, f"the table differs: {first}")
            self.changes.append((marker.end, end.start, f"\n\n{table}\n\n"))
        return end.end

    def _check_shown(self, marker: Marker, numbers: list[re.Match[str]]) -> None:
        """Look for numbers in the output of the commands shown above."""
        blocks = [m[0] for m in FENCE.finditer(self.text[: marker.start]) if "```console" in m[0] or ">>>" in m[0]]
        lines = [line for block in blocks for line in block.splitlines() if not INPUT.match(line)]
        outputs = [number(m[0]) for line in lines for m in NUMBER.finditer(line)]
        for shown in numbers:
            if not any(like(shown[0], output) == shown[0] for output in outputs):
                self._add(shown.start(), f"{shown[0]} is not in an output shown above")


def masked(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with what matches as blanks, so that positions stay."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


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


def check(name: str, text: str, *, all_marked: bool = False) -> tuple[list[str], str]:
    """Return what is wrong with a page, and the page as it should be."""
    page = Page(name, text)
    page.check(all_marked=all_marked)
    return page.problems, page.updated()


def check_page(path: Path) -> tuple[list[str], str]:
    name = path.relative_to(ROOT).as_posix()
    return check(name, path.read_text(encoding="utf-8"), all_marked=not EXPERIMENT.search(name))


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

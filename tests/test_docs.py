"""The pages keep their word: their code runs, their commands and options exist, what they show is what comes out.

In README.md and docs/, ``python`` blocks are run: examples with ``>>>`` as doctests, others as they are. So are
``console`` blocks: each ``$`` line is a command that must succeed, and the lines after it must come out in this order.
Numbers may differ a little, as they do between machines, and times and sizes as they like. All blocks of a page share
one folder and one namespace. ``bash`` and unmarked blocks are for the reader's own files: their commands, options and
make targets must exist.
"""

import contextlib
import doctest
import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deepsep.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.M | re.S)
NUMBER = re.compile(r"[−+-]?\d+(?:[.,]\d+)*")
FREE = re.compile(r" ?(s|seconds?|minutes?|[kMG]B)\b")  # after a number that depends on the machine
PERCENTAGE = re.compile(r"(–[\d.,]+)? ?%")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Return language, text and line of every fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(match[2], match[3], text.count("\n", 0, match.start()) + 1) for match in FENCE.finditer(text)]


class NearlyEqual(doctest.OutputChecker):
    """Comparison of outputs in which numbers may differ a little."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether an output is the one that is shown, line by line."""
        lines = want.splitlines(), got.splitlines()
        same = len(lines[0]) == len(lines[1]) and all(map(alike, *lines))
        return same or super().check_output(want, got, optionflags)


def run_python(text: str, page: Path, line: int, names: dict[str, object]) -> None:
    if ">>>" not in text:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile("\n" * line + text, name(page), "exec"), names)
        return
    examples = doctest.DocTestParser().get_doctest(text, names, name(page), str(page), line)
    examples.globs = names  # a doctest works on a copy, and the next block needs what this one made
    report = io.StringIO()
    runner = doctest.DocTestRunner(NearlyEqual(), optionflags=doctest.ELLIPSIS)
    result = runner.run(examples, out=report.write, clear_globs=False)
    assert not result.failed, report.getvalue()


def run_console(text: str, page: Path, line: int) -> None:
    for turn in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.M)[1:]:
        command, _, shown = turn.partition("\n")
        where, (program, *arguments) = f"{name(page)}:{line}: {command}", shlex.split(command)
        if program == "deepsep":
            result = CliRunner().invoke(app, arguments)
            code, output = result.exit_code, result.output
        else:
            process = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
            code, output = process.returncode, process.stdout + process.stderr
        assert code == 0, f"{where} ended with {code}:\n{output}"
        rest = iter([" ".join(one.split()) for one in output.replace("\ufeff", "").splitlines()])  # nobody sees a BOM
        for expected in shown.splitlines():
            assert expected.strip(" .") == "" or any(alike(expected, one) for one in rest), (
                f"{where}: no line, in this order, like\n{expected}\nin\n{output}"
            )


def alike(shown: str, line: str) -> bool:
    """Whether a line of output is the one that is shown, where ... is anything, with much the same numbers."""
    shown = re.sub(r" ?\.\.\. ?", "...", " ".join(shown.split()))
    numbers = list(NUMBER.finditer(shown))
    parts = [re.escape(part).replace(r"\.\.\.", ".*") for part in NUMBER.split(shown)]
    same = re.fullmatch(rf"(?<![\d.,])({NUMBER.pattern})(?![\d.,]*\d)".join(parts), line)
    return same is not None and all(map(close, numbers, same.groups()))


def close(shown: re.Match[str], actual: str) -> bool:
    """Whether a number is near enough to the one shown: by 3 points if it is a percentage, by 5 % otherwise."""
    after = shown.string[shown.end() :]
    expected, number = (float(text.replace(",", "").replace("−", "-")) for text in (shown[0], actual))
    tolerance = 3 if PERCENTAGE.match(after) else 0.05 * abs(expected)
    return bool(FREE.match(after)) or abs(number - expected) <= tolerance


@pytest.mark.parametrize(
    ("shown", "line", "same"),
    [
        ("Fitted to 1,000 rows in 2.8 s.", "Fitted to 1,000 rows in 31.4 s.", True),
        ("Fitted to 1,000 rows in 2.8 s.", "Fitted to 1,100 rows in 2.8 s.", False),
        ("about 72 % (63–80 %) right", "about 74 % (65–82 %) right", True),
        ("about 72 % (63–80 %) right", "about 76 % (67–83 %) right", False),
        ("Take ...: 78 % right", "Take lightgbm: 78 % right", True),
        ("... accuracy seconds", "   accuracy  seconds", True),
        ("Take ...: 78 % right", "Take lightgbm, 12 labels: 8 % right", False),
        ('"c1000","savers",...', '"c1000","savers",0.1,0.9', True),
        ('"c1000","savers",...', '"c1000","sleepers",0.1,0.9', False),
        ("  explorers   19.0%  38", "explorers 18.5% 37", True),
    ],
)
def test_outputs_are_compared_with_their_numbers(shown: str, line: str, same: bool) -> None:
    assert alike(shown, " ".join(line.split())) == same


def runnable(page: Path) -> bool:
    return any(language in ("python", "console") for language, _, _ in blocks(page))


@pytest.mark.slow  # `make doctest` runs them, and so does CI
@pytest.mark.usefixtures("shipped_network")
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name)
def test_blocks_of_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for language, text, line in blocks(page):
        if language == "python":
            run_python(text, page, line, names)
        elif language == "console":
            run_console(text, page, line)


def written_commands(page: Path) -> list[str]:
    """Return every line of code that begins with deepsep or make, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    code = [line for _, block, _ in blocks(page) for line in block.replace("\\\n", " ").splitlines()]
    code += [" ".join(result.split()) for result in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text))]
    return [line.strip().removeprefix("$ ") for line in code if re.match(r"\s*(\$ )?(deepsep|make) ", line)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_options_exist(page: Path) -> None:
    commands = typer.main.get_command(app).commands
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for line in written_commands(page):
        program, command, *rest = shlex.split(line, comments=True)
        if program == "make":
            assert command in targets | {"PYTHON=python3.12"}, line
        elif not command.startswith(("-", "COMMAND")):
            assert command in commands, line
            known = {text for option in commands[command].params for text in (*option.opts, *option.secondary_opts)}
            used = {text.partition("=")[0] for text in rest if re.match(r"--?[a-z]", text)}
            assert used <= known | {"--help"}, line


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert re.match(r"https?://", target) or (page.parent / target).exists(), target

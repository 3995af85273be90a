"""The pages keep their word: their code runs, their commands and options exist, what they show is what comes out.

In README.md and docs/, ``python`` blocks are run: examples with ``>>>`` as doctests, others as they are. So are
``console`` blocks: each ``$`` line is a command that must succeed, and the lines after it must come out in this order,
with any numbers. All blocks of a page share one folder and one namespace. ``bash`` and unmarked blocks are for the
reader's own files: their commands, options and make targets must exist.
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


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Return language, text and line of every fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(match[2], match[3], text.count("\n", 0, match.start()) + 1) for match in FENCE.finditer(text)]


def run_python(text: str, page: Path, line: int, names: dict[str, object]) -> None:
    if ">>>" not in text:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile("\n" * line + text, name(page), "exec"), names)
        return
    examples = doctest.DocTestParser().get_doctest(text, names, name(page), str(page), line)
    examples.globs = names  # a doctest works on a copy, and the next block needs what this one made
    report = io.StringIO()
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=report.write, clear_globs=False)
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
        rest = iter([plain(one) for one in output.splitlines()])
        for expected in shown.splitlines():
            pattern = ".*".join(re.escape(plain(part)) for part in expected.split("..."))
            if pattern.replace(".*", ""):
                assert any(re.fullmatch(pattern, one) for one in rest), (
                    f"{where}: no line, in this order, like\n{expected}\nin\n{output}"
                )


def plain(line: str) -> str:
    """Return a line with any number as # and any space as one blank."""
    return NUMBER.sub("#", " ".join(line.split()))


def runnable(page: Path) -> bool:
    return any(language in ("python", "console") for language, _, _ in blocks(page))


@pytest.mark.slow  # `make doctest` runs them, and so does CI
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

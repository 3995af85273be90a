"""What all commands share: help, completion, results on standard output, notes on standard error, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from command_line import PATIENCE, deepsep_process, open_terminal, read_terminal, run

import deepsep
from deepsep.cli import app
from deepsep.cli.grouped_help import RARELY_NEEDED, has_rare_options

HEAVY = {"torch", "sklearn", "pandas", "numpy", "scipy", "pyarrow", "skrub", "matplotlib", "lightgbm", "rich"}
COMMANDS = ("demo", "check", "segments", "fit", "score", "explain", "compare", "experiment", "methods")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom deepsep.cli import app\n"
        f"try:\n    app({arguments!r}, prog_name='deepsep')\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.rpartition("LOADED")[2].split())
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_completion_knows_commands_and_methods() -> None:
    def complete(line: str) -> list[str]:
        words = {"_DEEPSEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return deepsep_process(env={**os.environ, **words}).stdout.split()

    assert complete("deepsep sc") == ["score"]
    assert complete("deepsep fit --method ran") == ["random-forest"]


def test_version() -> None:
    assert run("--version").stdout == f"deepsep {deepsep.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["fot"], ["fit"], ["fit", "a.csv", "-o", "m", "--seed", "many"], ["methods", "--xml"]]
)
def test_misuse_exits_2_without_a_traceback(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


def test_methods_are_listed_for_people_and_for_scripts() -> None:
    text = run("methods").stdout
    content = json.loads(run("methods", "--json").stdout)["methods"]
    assert list(content) == list(deepsep.methods())
    assert all(re.search(rf"^{name} ", text, re.M) for name in content)


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m deepsep methods --json | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stdout == "{"
    assert result.stderr == ""


def test_json_is_alone_on_stdout(people: Path) -> None:
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "-o", folder, "--method", "tsvm", "--no-report", "--json")
    content = json.loads(result.stdout)
    assert content["labelled"] == 30
    assert content["classes"] == ["blue", "gold", "grey"]
    assert sum(content["predicted_shares"].values()) == pytest.approx(1)
    assert Path(content["predictions"]).exists()
    assert any("'customer' (identifier)" in text for text in content["warnings"])


def test_quiet_says_nothing(people: Path) -> None:
    result = run(
        "fit", people, "--label", "segment", "-o", people.parent / "m", "--method", "tsvm", "--no-report", "--quiet"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_an_unexpected_error_asks_for_a_report_and_shows_its_traceback_on_demand(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise RuntimeError("what now")

    monkeypatch.setattr("deepsep.table.reading.read_table", fail)
    monkeypatch.setattr("deepsep.model.training_table.read_table", fail)
    arguments = ("fit", people, "--label", "segment", "-o", people.parent / "model")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "RuntimeError: what now" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run(*arguments, "--debug").stderr
    monkeypatch.setenv("DEEPSEP_DEBUG", "1")
    assert "Traceback" in run(*arguments).stderr


@pytest.mark.infra
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("method", "setting", "sign"),
    [
        ("deepsep", "initial_epochs=1000000", b"loss="),
        ("mean-teacher", "steps=100000000", b"loss="),
        pytest.param("committee", "n_jobs=2", b"1 of ", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_exits_130_and_writes_nothing(people: Path, method: str, setting: str, sign: bytes) -> None:
    fit = ["fit", str(people), "--label", "segment", "-o", str(people.parent / "model")]
    ours, theirs = open_terminal()  # on which a bar shows that training is under way
    with subprocess.Popen(
        [sys.executable, "-m", "deepsep", *fit, "--method", method, "--set", setting],
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            shown = read_terminal(ours, until=sign)
            process.send_signal(signal.SIGINT)
            shown += read_terminal(ours)
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    os.close(ours)
    assert process.returncode == 130, shown
    assert out == b""
    assert b"Traceback" not in shown
    assert b"Interrupted. Nothing was written." in shown
    assert [item.name for item in people.parent.iterdir()] == [people.name]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("fit", "people.csv", "--keep", "agee"), "Error: --keep: column 'agee' not found; did you mean 'age'?"),
        (("fit", "people.csv", "--text", "agee"), "Error: --text: column 'agee' not found; did you mean 'age'?"),
        (("check", "poeple.csv"), "Error: poeple.csv does not exist; did you mean 'people.csv'?"),
        (("check", "far/people.csv"), "Error: far/people.csv does not exist, nor does the folder far."),
        (("fit", "nobody.csv"), "Error: none of the 200 rows has a label: every entry is nan. Give a label"),
    ],
)
def test_errors_speak_of_options_and_files(
    people: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(people.parent)
    pd.read_csv(people).assign(segment=None).to_csv("nobody.csv", index=False)
    output = ("-o", "m", "--method", "tsvm", "--no-report") if options[0] == "fit" else ()
    result = run(*options, "--label", "segment", *output)
    assert result.exit_code == 2
    assert words in result.stderr


def test_help_says_what_each_command_does_in_one_line() -> None:
    lines = [line for line in run("--help").stdout.splitlines() if re.match(rf"  ({'|'.join(COMMANDS)}) ", line)]
    assert [line.split()[0] for line in lines] == [*COMMANDS[:7], "methods", "experiment"]
    assert [line for line in lines if line.endswith("...") and " compare " not in line] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_groups_the_options_and_help_all_hides_none(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = {word for option in command.params for word in option.opts if word.startswith("--")}
    short = run(name, "--help").stdout
    if not has_rare_options(command):
        assert all(f"{option} " in short for option in options)
        return
    whole = run(name, "--help-all").stdout
    assert [option for option in options if f"{option} " not in whole] == []
    assert {"Arguments:", "Data:", "Output:"} <= set(whole.splitlines()) or "Output:" in whole
    rare = {word for option in command.params if option.name in RARELY_NEEDED for word in option.opts}
    assert {option for option in options if f"  {option} " not in short and f", {option} " not in short} <= rare
    assert len(short) < len(whole)

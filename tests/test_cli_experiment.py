"""``deepsep experiment`` and ``deepsep compare``: outputs, options, errors, and runs that are killed."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from inspect import signature
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from command_line import run

from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.cli import app
from deepsep.cli.experiment import DEFAULT_METHODS, DEFAULT_SIZES
from deepsep.datasets import list_tables
from deepsep.study import prepare, study_models
from deepsep.study.results import RESULT_COLUMNS

SHORT = ("rounds=1", "initial_epochs=2", "propensity_epochs=1", "label_epochs=1")
QUICK = ("--validation", "12", "--no-tune", "--jobs", "1", *(f"--set=deepsep.{setting}" for setting in SHORT))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table in which every row has its class."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 3, 300)
    frame = pd.DataFrame(
        {
            "age": 2 * k + rng.normal(size=300),
            "plan": np.array(["free", "pro", "team"])[(k + (rng.random(300) < 0.2)) % 3],
            "segment": np.array(["a", "b", "c"])[k],
        }
    )
    file = tmp_path / "people.parquet"
    frame.to_parquet(file)
    return file


def experiment(table: Path, folder: Path, *more: object, methods: str = "knn,deepsep", labels: str = "6,9"):
    asked = ("--table", table, "--label", "segment", "--labels", labels, "--shuffles", 2, "--methods", methods)
    quick = QUICK if "deepsep" in methods else QUICK[:5]
    return run("experiment", *asked, *quick, "-o", folder, *more)


# -- experiment ----------------------------------------------------------------------------------------------


def test_an_experiment_prints_table_1_and_leaves_every_file(table, tmp_path):
    folder = tmp_path / "results"
    done = experiment(table, folder, "--published", labels="6,9,5000")
    assert done.exit_code == 0, done.stderr
    assert "note: 5000 labels are left out: the smallest class has" in done.stderr
    assert "8 fits." in done.stderr
    blocks = done.stdout.split("\n\n")
    assert sum(block.startswith(("1  ", "2  ", "Average")) for block in blocks) == 3
    assert "DeepSep-Ensemble minus Initial NN" in done.stdout

    frame = pd.read_csv(folder / "table.csv")
    assert list(frame.columns) == RESULT_COLUMNS
    assert len(frame) == 2 * 2 * 5
    assert frame.equals(frame.sort_values(["table", "shuffle", "labels", "method"], ignore_index=True))
    assert set(frame["table"]) == {"people"}
    for name, sign in {
        "table1.md": "|",
        "table1.tex": "\\hline",
        "table1.txt": "Average",
        "claims.csv": "p_holm",
    }.items():
        assert sign in (folder / name).read_text(encoding="utf-8")
    for name in ("figure4.svg", "figure5.svg"):
        assert ElementTree.parse(folder / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    page = (folder / "summary.md").read_text(encoding="utf-8")
    for words in ("12 further labels", "exactly right here", ".0625", "deepsep"):
        assert words in page

    again = experiment(table, folder)  # another choice of sizes has other test rows only if the largest differs
    assert again.exit_code == 0
    assert "8 fits, 8 of them already finished." in again.stderr
    pd.testing.assert_frame_equal(frame, pd.read_csv(folder / "table.csv"))


def test_json_is_alone_on_standard_output(table, tmp_path):
    frame = pd.read_parquet(table)
    frame.loc[:9, "segment"] = None
    frame.to_parquet(table)
    done = experiment(table, tmp_path / "r", "--json", "--quiet", methods="knn,tsvm", labels="6")
    content = json.loads(done.stdout)
    assert done.stderr == ""
    assert content["cells"] == 4
    assert content["warnings"] == ["10 of 300 rows have no class in 'segment' and are left out."]
    assert set(content["averages"]) == {"k nearest neighbours", study_models.ALL_ROWS}
    assert content["claims"] == []


def test_an_ablation_has_a_table_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    k = np.repeat([0, 1], 200)
    pd.DataFrame({"x": k + rng.normal(size=400), "z": rng.normal(size=400), "label": k}).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = ("--table", tmp_path / "t.csv", "--labels", "125", "--shuffles", 1, "--methods", "deepsep", "--ablation")
    done = run("experiment", *asked, *QUICK, "-o", tmp_path / "r")
    assert done.exit_code == 0, done.stderr
    ablation = pd.read_csv(tmp_path / "r" / "ablation.csv").set_index("what")
    assert {"initial network", "last network", "without balancing", "without autoencoder"} <= set(ablation.index)
    assert ablation.loc["moving average (published)", "difference"] == 0
    assert "without balancing" not in done.stdout
    assert "without balancing: DeepSep-Ensemble" in pd.read_csv(tmp_path / "r" / "table.csv")["method"].tolist()
    assert "No test is possible" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--table", "nhaness"), "neither a file nor a table that deepsep knows: nhanes, foods, hotel"),
        (("--methods", "knm"), "did you mean 'knn'"),
        (("--methods", "knn,knn"), "names knn twice"),
        (("--methods", "knn", "--ablation"), "add deepsep to --methods"),
        (("--labels", "35;50"), "write numbers separated by commas"),
        (("--set", "deepsep.turns=2"), "no setting 'turns'"),
        (("--set", "rounds=2"), "write METHOD.NAME=VALUE"),
        (("--label", "segmnt"), "did you mean 'segment'"),
        (("--drop", "segment"), "this is the column of classes"),
        (("--labels", "2"), "too small for every number of labels"),
    ],
)
def test_options_that_cannot_work(table, tmp_path, options, words):
    done = experiment(table, tmp_path / "r", *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (tmp_path / "r" / "table.csv").exists()


def test_what_is_done_is_kept_when_some_fits_fail(table, tmp_path):
    done = experiment(table, tmp_path / "r", "--set", "knn.n_neighbors=-1")
    assert done.exit_code == 2
    assert "4 of 8 cells failed" in done.stderr
    assert set(pd.read_csv(tmp_path / "r" / "table.csv")["method"]) == set(
        study_models.MODEL_ORDER[5:6] + study_models.MODEL_ORDER[7:10]
    )


def test_without_optuna_nothing_is_tuned_unless_asked_for(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    asked = ("experiment", "--table", table, "--label", "segment", "--labels", 6, "--shuffles", 1, "--methods", "knn")
    done = run(*asked, "--validation", 12, "--jobs", 1, "-o", tmp_path / "r")
    assert done.exit_code == 0, done.stderr
    assert "Optuna is not installed, so no method is tuned. To tune them: pip install optuna" in done.stderr
    assert "Nothing is tuned" in (tmp_path / "r" / "summary.md").read_text(encoding="utf-8")
    refused = run(*asked, "--trials", 5, "-o", tmp_path / "s")
    assert refused.exit_code == 1
    assert "--trials needs optuna. Install it with: pip install optuna" in refused.stderr
    assert not (tmp_path / "s").exists()


def test_defaults_are_those_of_the_paper():
    defaults = {name: parameter.default for name, parameter in signature(prepare).parameters.items()}
    assert tuple(map(int, DEFAULT_SIZES.split(","))) == defaults["labels"]
    assert tuple(DEFAULT_METHODS.split(",")) == study_models.DEFAULT_METHODS
    options = {option.name: option.default for option in _command("experiment").params}
    for name in ("shuffles", "validation", "test_per_class"):
        assert options[name] == defaults[name]
    assert not options["no_tune"]


def _command(name: str):
    import typer.main

    return typer.main.get_command(app).commands[name]


def kill_group(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # the workers too: nobody has a chance to tidy up
    process.wait()


@pytest.mark.infra
@pytest.mark.slow
def test_a_run_that_is_killed_several_times_ends_with_the_same_table(table, tmp_path):
    asked = ("--table", table, "--label", "segment", "--labels", "6,9,12", "--shuffles", 3, "--methods", "knn,deepsep")
    whole = run("experiment", *asked, *QUICK, "-o", tmp_path / "whole")
    assert whole.exit_code == 0, whole.stderr
    folder = tmp_path / "killed"
    arguments = [*map(str, asked), *QUICK, "-o", str(folder)]
    done, kills = 0, 0
    for attempt in range(40):
        process = subprocess.Popen(
            [sys.executable, "-m", "deepsep", "experiment", *arguments],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Twice before anything is done, then after a few cells more each time.
        enough, deadline = (0, time.monotonic() + 1 + 2 * attempt) if attempt < 2 else (done + 3, np.inf)
        while process.poll() is None and (done < enough or not enough) and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
            done = len(list(folder.glob("cells/*/DONE")))
        if process.poll() is not None:
            break
        kill_group(process)
        kills += 1
    assert process.returncode == 0
    assert kills >= 4
    first, second = (pd.read_csv(tmp_path / name / "table.csv").drop(columns="seconds") for name in ("whole", "killed"))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


# -- compare -------------------------------------------------------------------------------------------------


@pytest.fixture
def partly(table: Path) -> Path:
    frame = pd.read_parquet(table)
    frame.loc[60:, "segment"] = None
    file = table.with_suffix(".csv")
    frame.to_csv(file, index=False)
    return file


def test_compare_says_which_method_and_whether_unlabeled_rows_helped(partly, tmp_path):
    asked = ("compare", partly, "--label", "segment", "--methods", "tsvm,knn", "--folds", 3, "--jobs", 1)
    done = run(*asked, "-o", tmp_path / "c.json")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines[1:3]} == {"tsvm", "knn"}
    assert "Use " in done.stdout
    assert "whether the unlabelled rows helped" in done.stdout or "The unlabelled rows h" in done.stdout
    best = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["methods"][0]["name"]
    assert (
        f"Next: deepsep fit {partly} --label segment --method {best} --comparison {tmp_path / 'c.json'}" in done.stdout
    )

    content = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert content["verdict"][0] in done.stdout
    quick = ("--methods", "knn", "--folds", 2, "--repeats", 1, "--jobs", 1)
    for kind in ("csv", "html"):
        assert run("compare", partly, "--label", "segment", *quick, "-o", tmp_path / f"c.{kind}", "-q").exit_code == 0
    frame = pd.read_csv(tmp_path / "c.csv")
    assert frame["accuracy_low"][0] <= frame["accuracy"][0] <= frame["accuracy_high"][0]
    assert "Use knn" in (tmp_path / "c.html").read_text(encoding="utf-8")
    assert json.loads(run("compare", partly, "--label", "segment", *quick, "--json").stdout)["labelled"] == 60


def test_fit_shows_the_comparison_in_its_report_or_says_why_not(partly, tmp_path, monkeypatch):
    monkeypatch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    file, other = tmp_path / "c.json", tmp_path / "other.csv"
    frame = pd.read_csv(partly)
    frame["weight"] = 1 + frame.index % 3
    frame.to_csv(partly, index=False)
    quick = ("--methods", "logistic-regression,tsvm", "--folds", 2, "--repeats", 1, "--jobs", 1)
    done = run("compare", partly, "--label", "segment", "--weight", "weight", "--seed", 3, *quick, "-o", file)
    assert "--label segment --weight weight --seed 3 --method" in done.stdout
    assert "Rows are weighted." in done.stdout

    fit = ("fit", partly, "--label", "segment", "--method", "tsvm", "-o", tmp_path / "model", "--comparison")
    done = run(*fit, file, "--weight", "weight")
    assert done.exit_code == 0, done.stderr
    assert "Of 2 methods compared on these labels, " in done.stdout
    content = json.loads(file.read_text(encoding="utf-8"))
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert all(sentence in page for sentence in content["verdict"])

    frame.loc[50:, "segment"] = None
    frame.to_csv(other, index=False)
    (tmp_path / "no.json").write_text("{", encoding="utf-8")
    for options, words in (
        ((file,), f"--comparison {file}: the comparison is of other columns: 'weight' only here. Run"),
        ((tmp_path / "none.json",), "there is no such file. Make it with deepsep compare -o"),
        ((tmp_path / "no.json",), "cannot be read as JSON"),
        ((file, "--no-report"), "--comparison is for the report: leave out --no-report."),
    ):
        done = run(*fit, *options)
        assert done.exit_code == 2
        assert words in done.stderr
    done = run("fit", other, *fit[2:], file, "--weight", "weight")
    assert done.exit_code == 2
    assert "another table: 60 labelled rows there, 50 here. Run deepsep compare again" in done.stderr


def test_a_comparison_fits_whether_or_not_the_identifier_was_named(partly, tmp_path, monkeypatch):
    """The comparison leaves an identifier out by itself, so that --id makes no difference to it."""
    monkeypatch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    frame = pd.read_csv(partly)
    frame["customer"] = [f"c{i:05d}" for i in range(len(frame))]
    frame.to_csv(partly, index=False)
    quick = ("--methods", "logistic-regression,knn", "--folds", 2, "--repeats", 1, "--jobs", 1)
    fit = ("fit", partly, "--label", "segment", "--method", "knn", "-o", tmp_path / "model", "-q")
    for there, here in (((), ("--id", "customer")), (("--id", "customer"), ())):
        done = run("compare", partly, "--label", "segment", *there, *quick, "-o", tmp_path / "c.json")
        assert done.exit_code == 0, done.stderr
        done = run(*fit, *here, "--comparison", tmp_path / "c.json")
        if not there:
            assert done.exit_code == 0, done.stderr
        else:  # the table of the fit has a column more, which might be one to learn from
            assert "other columns: 'customer' only here. Run deepsep compare again" in done.stderr


def test_compare_of_the_default_method_suggests_a_fit_that_does_the_same(partly, tmp_path, monkeypatch):
    """The committee with its settings and shares: the same command line fits it, and the report has the comparison."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr("deepsep.report.committee_held_out.FOREST_TREES", 5)
    file, shares = tmp_path / "c.json", tmp_path / "shares.csv"
    shares.write_text("class,share\na,0.5\nb,0.3\nc,0.2\n", encoding="utf-8")
    members = "members=['tsvm', 'logistic-regression']"
    asked = ("--methods", "committee", "--folds", 2, "--set", members, "--priors", shares, "-o", file)
    done = run("compare", partly, "--label", "segment", *asked)
    assert done.exit_code == 0, done.stderr
    assert "Comparing 1 method on 60 labelled rows, in 2 folds: 8 fits, less than a minute on 1 core" in done.stderr
    assert "committee has members = ['tsvm', 'logistic-regression']." in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Next: deepsep fit ")
    assert "--method" not in last
    fit = shlex.split(last.removeprefix("Next: deepsep "))
    done = run(*fit[:-1], tmp_path / "model")
    assert done.exit_code == 0, done.stderr
    summary = json.loads((tmp_path / "model" / "report.json").read_text(encoding="utf-8"))
    assert summary["comparison"]["own"] == "committee"
    assert len(summary["comparison"]["beside"]) == 1  # the same settings and shares: only two estimates


def test_compare_with_shares_suggests_a_method_that_takes_them(partly, tmp_path):
    shares = tmp_path / "shares.json"
    shares.write_text('{"a": 0.5, "b": 0.3, "c": 0.2}', encoding="utf-8")
    asked = ("compare", partly, "--label", "segment", "--folds", 2, "--jobs", 1, "--priors", shares)
    done = run(*asked, "--methods", "logistic-regression")
    assert "logistic-regression has no setting for the shares of --priors. The best that has: committee." in done.stdout
    assert f"Next: deepsep fit {partly} --label segment --priors {shares} -o model" in done.stdout
    done = run(*asked, "--methods", "tsvm", "--set", "C=3", "--set", "tsvm.balance=true")
    assert f"--priors {shares} --method tsvm --set C=3 --set balance=True -o model" in done.stdout
    shares.write_text('{"a": 0.5, "d": 0.5}', encoding="utf-8")
    done = run(*asked, "--methods", "tsvm")
    assert done.exit_code == 2
    assert str(shares) in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--methods", "knn", "--all"), "give one of them"),
        (("--methods", "knn,svm", "--set", "knm.p=1"), "did you mean 'knn'"),
        (("--methods", "knn,svm", "--set", "tsvm.C=1"), "tsvm is not compared. Those that are: knn, svm."),
        (
            ("--methods", "svm,tsvm", "--set", "C=1"),
            "svm, tsvm have this setting. Name the method, such as",
        ),
        (("--methods", "knn,svm", "--set", "rounds=1"), "none of the methods has this setting: knn, svm."),
        (("--methods", "knn", "--set", "knn.rounds=1"), "knn has no setting 'rounds'"),
        (("--methods", "tsvm", "--set", "priors={}"), "pass the shares as --priors FILE"),
        (("--methods", "tsvm", "--set", "probability=none"), "Leave this setting out"),
        (("-o", "c.xlsx"), "must end with .csv, .json or .html"),
        (("-o", "nowhere/c.csv"), "does not exist"),
        (("--methods", "knn,knn"), "each once"),
        (("--methods", "knm"), "did you mean 'knn'"),
    ],
)
def test_compare_options_that_cannot_work(partly, options, words):
    done = run("compare", partly, "--label", "segment", *options)
    assert done.exit_code == 2
    assert words in done.stderr


def test_help_names_every_default():
    text = run("experiment", "--help").stdout
    assert all(name in text for name in list_tables())
    assert "956" in text
    assert all(study_models.method_of(name) in CATALOGUE for name in DEFAULT_METHODS.split(","))

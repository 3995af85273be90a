"""Columns and rows that would make ``deepsep fit`` and ``deepsep compare`` promise too much."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

METHOD = ("--label", "segment", "--method", "logistic-regression")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
    monkeypatch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 20)


def hundred_rows(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return columns that say little about the class, the class, and which 40 rows are labelled."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(["gold", "blue"], 100)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40 + 3 * (truth == "gold"), 8).round(),
            "plan": rng.choice(["free", "basic", "pro"], 100),
            "income": rng.normal(30, 5, 100).round(1),
        }
    )
    return frame, truth, rng.permutation(100) < 40


def write(folder: Path, frame: pd.DataFrame, truth: np.ndarray, labeled: np.ndarray) -> Path:
    file = folder / "people.csv"
    frame.assign(segment=np.where(labeled, truth, None)).to_csv(file, index=False)
    return file


@pytest.fixture
def leaked(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A hundred rows whose column ``answer`` nearly gives the class, but for labelled rows only; and the classes."""
    frame, truth, labeled = hundred_rows()
    flipped = np.where(np.random.default_rng(1).random(100) < 0.15, "blue", truth)
    return write(tmp_path, frame.assign(answer=np.where(labeled, flipped, None)), truth, labeled), truth


def test_a_column_for_labeled_rows_only_is_left_out_and_nothing_false_is_promised(
    leaked: tuple[Path, np.ndarray],
) -> None:
    file, truth = leaked
    folder = file.parent / "model"
    result = run("fit", file, *METHOD, "-o", folder)
    assert result.exit_code == 0, result.output
    first = " ".join(result.stdout.split("Fitted")[0].split())
    assert first.startswith("warning: column 'answer' is given for labelled rows only, and left out:")
    assert "a column to keep" in first
    summary = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert summary["findings"][0]["columns"] == ["answer"]
    predictions = pd.read_csv(folder / "predictions.csv")
    low, _ = summary["accuracy"]["methods"][0]["accuracy"]["interval"]
    assert low < (predictions["segment"] == truth[predictions["row"]]).mean()  # not so with the column
    assert any("expect the logistic regression" in sentence for sentence in summary["verdict"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.index("Column &#39;answer&#39; is given for labelled rows only") < page.index("In short")


def test_a_column_for_labeled_rows_only_can_be_kept_but_then_nothing_is_promised(
    leaked: tuple[Path, np.ndarray],
) -> None:
    file, _ = leaked
    result = run("fit", file, *METHOD, "--keep", "answer", "-o", file.parent / "model", "--json")
    content = json.loads(result.stdout)
    (finding,) = content["findings"]
    assert (finding["code"], finding["columns"], finding["next"]) == ("one-sided", ["answer"], "Leave it out.")
    assert content["accuracy"]["holds_for_unlabelled"] is False
    assert content["verdict"][0].startswith("Not shown to beat guessing: the unlabelled rows differ too much")
    assert not any(": expect" in sentence for sentence in content["verdict"])
    assert any(sentence.startswith("Of rows like the labelled ones") for sentence in content["verdict"])


def test_placeholders_in_unlabeled_rows_do_not_hide_such_a_column(tmp_path: Path) -> None:
    frame, truth, labeled = hundred_rows()
    file = write(tmp_path, frame.assign(answer=np.where(labeled, truth, "not asked")), truth, labeled)
    result = run("fit", file, *METHOD, "-o", tmp_path / "model", "--no-report", "--json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["message"].startswith("column 'answer' is the same for all unlabelled rows, and left out")


def test_rows_that_differ_get_a_warning_and_no_promise_unless_weights_make_them_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame, truth, _ = (part for part in hundred_rows())
    frame, truth = pd.concat([frame] * 4, ignore_index=True), np.tile(truth, 4)
    young = rng.random(400) < 0.5
    frame["age"] = np.where(young, rng.normal(25, 3, 400), rng.normal(60, 3, 400)).round()
    frame["income"] = rng.normal(30, 5, 400).round(1)
    labeled = rng.random(400) < np.where(young, 0.45, 0.1)
    frame["weight"] = np.where(labeled, np.where(young, 0.55 / 0.45, 0.9 / 0.1), 1.0)
    file = write(tmp_path, frame, truth, labeled)
    findings = {}
    for name, options in {"plain": ("--drop", "weight"), "weighted": ("--weight", "weight")}.items():
        result = run("fit", file, *METHOD, *options, "-o", tmp_path / name, "--json")
        assert result.exit_code == 0, result.output
        content = json.loads(result.stdout)
        findings[name] = [finding["code"] for finding in content["findings"]]
        assert content["accuracy"]["holds_for_unlabelled"] == (name == "weighted")
        assert any(": expect" in sentence for sentence in content["verdict"]) == (name == "weighted")
    assert findings == {"plain": ["drift"], "weighted": []}


def test_shares_of_the_population_make_quota_labels_comparable(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(3_000) < 0.1, "rare", "common")
    frame = pd.DataFrame({"x": rng.normal(3 * (truth == "rare"), 1), "z": rng.normal(size=3_000)})
    labeled = rng.random(3_000) < np.where(truth == "rare", 0.3, 0.03)
    file, shares = write(tmp_path, frame, truth, labeled), tmp_path / "shares.json"
    shares.write_text('{"rare": 0.1, "common": 0.9}')
    for options, codes in (((), ["drift"]), (("--priors", shares), [])):
        method = ("--label", "segment", "--method", "tsvm", "--no-report", "--json", *options)
        result = run("fit", file, *method, "-o", tmp_path / "model")
        assert [finding["code"] for finding in json.loads(result.stdout)["findings"]] == codes


def test_leaks_and_dates_read_as_text_are_at_the_top(tmp_path: Path) -> None:
    frame, truth, labeled = hundred_rows()
    days = [f"{1 + i % 12:02d}/{1 + i % 7:02d}/2024" for i in range(100)]  # the first may be day or month
    file = write(tmp_path, frame.assign(code=np.where(truth == "gold", 7, 3), since=days), truth, labeled)
    result = run("fit", file, *METHOD, "-o", tmp_path / "model", "--no-report")
    first = " ".join(result.stdout.split("Fitted")[0].split())
    assert "warning: column 'code' alone gives the label away" in first
    assert "warning: column 'since' holds dates such as '01/01/2024'" in first


def test_compare_warns_and_leaves_out_the_same_columns(leaked: tuple[Path, np.ndarray]) -> None:
    file, _ = leaked
    options = ("--label", "segment", "--methods", "logistic-regression,knn", "--folds", 2, "--repeats", 1, "--jobs", 1)
    result = run("compare", file, *options, "-o", file.parent / "c.html")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("warning: column 'answer' is given for labelled rows only, and left out")
    assert "Column &#39;answer&#39; is given" in (file.parent / "c.html").read_text(encoding="utf-8")
    content = json.loads(run("compare", file, *options, "--json").stdout)
    assert content["findings"][0]["columns"] == ["answer"]
    assert content["methods"][0]["accuracy"]["value"] < 0.8


def test_check_says_that_such_a_column_must_go(leaked: tuple[Path, np.ndarray]) -> None:
    file, _ = leaked
    content = json.loads(run("check", file, "--label", "segment", "--json").stdout)
    (finding,) = content["findings"]
    assert (finding["code"], finding["columns"]) == ("one-sided", ["answer"])
    assert {column["name"]: column["left_out"] for column in content["columns"]}["answer"] == (
        "given for labelled rows only"
    )

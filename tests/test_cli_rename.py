"""``deepsep rename``: new names everywhere, the same numbers."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

from deepsep import Committee, SurveySegments, for_table, load, method, methods, save
from deepsep.errors import DataError
from deepsep.models import rename_classes
from deepsep.report import explain, summarize
from deepsep.scoring import score_frame
from deepsep.survey import write_segments

SWAP = {"blue": "zinc", "gold": "Aqua", "grey": "grey"}  # neither sorted nor in the order of before
SHORT = {  # for every setting of these names that a method has
    **{"steps": 20, "rounds": 1, "round_steps": 5, "initial_epochs": 3, "label_epochs": 1, "hidden": (16, 8)},
    **{"estimator__n_estimators": 10, "n_cuts": 5, "folds": 2, "n_members": 1, "n_jobs": 1, "random_state": 0},
    "n_unlabeled": 12,
    "members": ["tsvm", "logistic-regression"],
}


def rows(classes: list[object], n: int = 60, spread: float = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    k = rng.integers(0, len(classes), n)
    y = np.array(classes, dtype=object)[k]
    return rng.normal(size=(n, 4)) + spread * k[:, np.newaxis], np.where(np.arange(n) < 30, y, None)


def write_names(folder: Path, names: dict[str, str]) -> Path:
    file = folder / "names.csv"
    pd.DataFrame({"old": names.keys(), "new": names.values()}).to_csv(file, index=False)
    return file


# -- every method --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", methods())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_renamed_model_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    X, y = rows(["blue", "gold", "grey"])
    model = method(name)
    model.set_params(**{key: SHORT[key] for key in SHORT.keys() & model.get_params().keys()})
    save(model.fit(X, y), tmp_path / "model")
    folder, before = tmp_path / "renamed", load(tmp_path / "model")
    save(rename_classes(before, SWAP), folder)
    after = load(folder)
    assert after.classes_.tolist() == ["zinc", "Aqua", "grey"]
    new = [SWAP[label] for label in before.predict(X)]
    assert after.predict(X).tolist() == new
    assert after.transduction_.tolist() == [SWAP[label] for label in before.transduction_]
    if hasattr(before, "predict_proba"):
        np.testing.assert_array_equal(after.predict_proba(X), before.predict_proba(X))
    save(after, tmp_path / "again")  # classes that are not sorted survive another round
    assert load(tmp_path / "again").transduction_.tolist() == after.transduction_.tolist()
    assert not {"blue", "gold"} & set(re.findall(r'"(\w+)"', (folder / "manifest.json").read_text()))
    arrays = "arrays.safetensors"
    assert (folder / arrays).read_bytes() == (tmp_path / "model" / arrays).read_bytes()


@pytest.mark.parametrize("classes", [[0, 1, 2], [False, True]])
def test_numbers_and_truths_become_text(classes: list[object]) -> None:
    X, y = rows(classes)
    priors = {name: 1 / len(classes) for name in classes}
    before = method("tsvm", priors=priors).fit(X, y)
    after = rename_classes(before, {str(classes[0]): "low"})
    assert before.classes_.tolist() == classes
    assert after.classes_.tolist() == ["low", *map(str, classes[1:])]
    assert set(after.priors) == set(after.classes_)
    np.testing.assert_array_equal(after.predict_proba(X), before.predict_proba(X))


def test_predictions_out_of_fold_and_members_are_renamed() -> None:
    X, y = rows(["blue", "gold", "grey"], 250)
    committee = Committee(members=["random-forest", "tsvm"], random_state=0, n_jobs=1).fit(X, y)
    after = rename_classes(committee, SWAP)
    held_out = after.out_of_fold_
    assert held_out.classes.tolist() == ["zinc", "Aqua", "grey"]
    np.testing.assert_array_equal(held_out.codes, committee.out_of_fold_.codes)
    assert all(member.classes_.tolist() == after.classes_.tolist() for member in after.members_.values())
    assert after.student_.classes_.tolist() == after.classes_.tolist()
    sets = after.predict_set(X, coverage=0.8)
    np.testing.assert_array_equal(sets, committee.predict_set(X, coverage=0.8))


def test_explanation_of_a_renamed_model_is_the_same_but_for_names() -> None:
    X, y = rows(["blue", "gold", "grey"], 90, spread=20)  # without ties, which the order of classes would break
    table = pd.DataFrame(X, columns=list("abcd"))
    model = for_table(method("tsvm")).fit(table, y)
    renamed, new = rename_classes(model, SWAP), [SWAP.get(label) for label in y]
    one, other = explain(model, table, y, held_out=False), explain(renamed, table, new, held_out=False)
    assert {SWAP[line["class"]]: line["rules"] for line in one["tree"]["classes"]} == {
        line["class"]: line["rules"] for line in other["tree"]["classes"]
    }
    mine, theirs = ({c["class"]: c["columns"] for c in each["importance"]["classes"]} for each in (one, other))
    assert {SWAP[name]: columns for name, columns in mine.items()} == theirs
    with pytest.raises(DataError, match="were renamed"):
        summarize(renamed, table, new, folds=2)


# -- a model of deepsep fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "format", ["xlsx", *(pytest.param(each, marks=pytest.mark.slow) for each in ("csv", "parquet"))]
)
def test_names_are_new_in_all_files(people: Path, format: str) -> None:
    folder, names = people.parent / "model", {"gold": 'the "rich", =1', "blue": "gold"}
    fit = ("fit", people, "--label", "segment", "--id", "customer", "--method", "tsvm", "--predictions", format)
    shares = people.parent / "shares.csv"
    shares.write_text("class,share\ngold,0.3\nblue,0.3\ngrey,0.4\n")
    assert run(*fit, "--priors", shares, "-o", folder).exit_code == 0
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv, "xlsx": pd.read_excel}[format]
    before, table = read(folder / f"predictions.{format}"), pd.read_csv(people)
    scored = score_frame(load(folder), table, id="customer")
    (folder / "mine.txt").write_text("gold")
    result = run("rename", folder, write_names(people.parent, names))
    assert result.exit_code == 0, result.output
    assert "Renamed 2 of 3 classes" in result.stdout
    whole = {**names, "grey": "grey"}
    columns = {f"probability_{old}": f"probability_{new}" for old, new in whole.items()}
    expected = before.rename(columns=columns).assign(segment=before["segment"].map(whole))
    pd.testing.assert_frame_equal(read(folder / f"predictions.{format}"), expected, check_dtype=False)
    again = score_frame(load(folder), table, id="customer")
    pd.testing.assert_frame_equal(again, scored.rename(columns=columns).assign(segment=scored["segment"].map(whole)))
    labels = pd.read_csv(folder / "labels_used.csv")
    assert labels["segment"].tolist() == table["segment"].dropna().map(whole).tolist()
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["classes"] == ["gold", 'the "rich", =1', "grey"]
    named = {line["class"] for line in (*report["profiles"], *report["shares"]["lines"])}
    assert named == set(whole.values())
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "blue" not in re.sub(r"<style.*?</style>", "", page, flags=re.S)
    assert (folder / "mine.txt").read_text() == "gold"
    back = {new: old for old, new in names.items()}
    assert run("rename", folder, write_names(people.parent, back)).exit_code == 0
    pd.testing.assert_frame_equal(read(folder / f"predictions.{format}"), before, check_dtype=False)
    for command in (("score", folder, people, "--id", "customer", "-o", people.parent / "scored.csv"),
                    ("next", folder, people, "-o", people.parent / "next.csv")):  # fmt: skip
        assert run(*command).exit_code == 0


def test_sets_and_suspicious_labels_are_renamed(people: Path) -> None:
    folder, whole = people.parent / "model", {"gold": "a", "blue": "b", "grey": "c"}
    fit = ("fit", people, "--label", "segment", "--id", "customer", "--effort", "fast", "--sets", "0.9", "--no-report")
    members = ("--set", "members=['tsvm', 'logistic-regression']")
    assert run(*fit, *members, "--predictions", "csv", "-o", folder).exit_code == 0
    before, doubtful = pd.read_csv(folder / "predictions.csv"), pd.read_csv(folder / "suspicious.csv")
    assert run("rename", folder, write_names(people.parent, whole)).exit_code == 0
    after = pd.read_csv(folder / "predictions.csv")
    assert after["set"].tolist() == ["|".join(whole[part] for part in cell.split("|")) for cell in before["set"]]
    np.testing.assert_array_equal(after["confidence"], before["confidence"])
    again = pd.read_csv(folder / "suspicious.csv")
    assert again["given"].tolist() == doubtful["given"].map(whole).tolist()
    assert again["predicted"].tolist() == doubtful["predicted"].map(whole).tolist()


def test_names_in_excel_may_be_numbers_and_na(model: Path) -> None:
    file = model.parent / "names.xlsx"
    pd.DataFrame({"Old": ["gold", "blue"], "New": [1, "NA"], "why": ["x", "y"]}).to_excel(file, index=False)
    assert run("rename", model, file).exit_code == 0
    assert load(model).classes_.tolist() == ["NA", "1", "grey"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("old,new\nsilver,a\n", "there is no 'silver' among 'blue', 'gold', 'grey'"),
        ("old,new\ngold,a\ngold,b\n", "'gold' is in the column old twice"),
        ("old,new\ngold,\n", "the new name of 'gold' is empty"),
        ("old,new\ngold,grey\n", "would both be called 'grey'"),
        ("old,new\ngold,x\nblue,x\n", "would both be called 'x'"),
        ("from,to\ngold,x\n", "Write the columns old and new"),
        ("old,new\n,\n", "no names"),
    ],
)
def test_bad_names_change_nothing(model: Path, text: str, said: str) -> None:
    before = {file: file.read_bytes() for file in model.rglob("*") if file.is_file()}
    (model.parent / "names.csv").write_text(text)
    result = run("rename", model, model.parent / "names.csv")
    assert result.exit_code == 2
    assert said in result.stderr
    assert {file: file.read_bytes() for file in model.rglob("*") if file.is_file()} == before


def test_a_damaged_model_is_not_renamed(model: Path) -> None:
    arrays = model / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    result = run("rename", model, write_names(model.parent, {"gold": "x"}))
    assert result.exit_code == 2
    assert "hash" in result.stderr


# -- segments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [True, False])
def test_segments_are_renamed_everywhere(answers: Path, inner: bool) -> None:
    folder = answers.parent / "segments"
    assert run("segments", answers, "-k", 2, "--id", "who", "-o", folder).exit_code == 0
    first, second = load(folder / "model").segment_names_
    before = pd.read_parquet(folder / "respondents.parquet")
    names = {first: "Owls", second: "Larks"}
    result = run("rename", folder / "model" if inner else folder, write_names(answers.parent, names))
    assert result.exit_code == 0, result.output
    assert "Renamed 2 of 2 segments" in result.stdout
    after = pd.read_parquet(folder / "respondents.parquet")
    columns = {f"probability_{old}": f"probability_{new}" for old, new in names.items()}
    pd.testing.assert_frame_equal(
        after, before.rename(columns=columns).assign(segment=before["segment"].map(names)), check_dtype=False
    )
    assert json.loads((folder / "names.json").read_text()) == {"0": "Owls", "1": "Larks"}
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert [segment["name"] for segment in summary["segments"]] == ["Owls", "Larks"]
    assert set(pd.read_csv(folder / "profiles.csv")["name"]) == {"Owls", "Larks"}
    page = (folder / "segments.html").read_text(encoding="utf-8")
    assert "Owls</h3>" in page
    assert load(folder / "model").segment_names_.tolist() == ["Owls", "Larks"]
    target = answers.parent / "assigned.csv"
    assert run("assign", folder / "model", answers, "--id", "who", "-o", target).exit_code == 0
    assert pd.read_csv(target)["segment"].tolist() == after["segment"].tolist()
    assert run("segments", answers, "-k", 2, "--id", "who", "-o", folder).exit_code == 2  # they are not overwritten


def test_segments_saved_alone_are_renamed(answers: Path) -> None:
    frame = pd.read_csv(answers).drop(columns="who")
    model = SurveySegments(n_segments=2, names={0: "one"}, random_state=0).fit(frame)
    save(model, answers.parent / "alone")
    assert run("rename", answers.parent / "alone", write_names(answers.parent, {"one": "uno"})).exit_code == 0
    again = load(answers.parent / "alone")
    assert again.segment_names_[0] == "uno"
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))


def test_segments_without_a_page_are_renamed(answers: Path) -> None:
    frame = pd.read_csv(answers).drop(columns="who")
    model = SurveySegments(n_segments=2, names=["one", "two"], random_state=0).fit(frame)
    write_segments(model, frame, answers.parent / "segments")
    assert (
        run("rename", answers.parent / "segments", write_names(answers.parent, {"one": "two", "two": "one"})).exit_code
        == 0
    )
    assert not (answers.parent / "segments" / "segments.html").exists()
    assert load(answers.parent / "segments" / "model").segment_names_.tolist() == ["two", "one"]

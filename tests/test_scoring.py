"""Scores of frames and files: the same rows and the same bits, whatever the batch, the format and the engine."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import RandomForestClassifier

import deepsep.scoring.local
import deepsep.scoring.who_scores
from deepsep import TSVM, Committee, DeepSep, for_table, load, save
from deepsep.errors import DataError, ParameterError
from deepsep.scoring import score_file, score_frame

# A class is called "NA", so that files with it are scored too.
pytestmark = pytest.mark.filterwarnings("ignore:.*have the label 'NA':deepsep.errors.LabelWarning")


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "user": [f"{v:05d}" for v in rng.permutation(n)],
            "age": rng.normal(30 + 8 * code, 8),
            "zip": [f"{v:04d}" for v in rng.integers(0, 30, n)],
            "plan": np.where(rng.random(n) < 0.5, "pro", None),
            "note": [" ".join(rng.choice(["tea", "walks", "music", "green", "sun"], 6)) for _ in range(n)],
            "news": rng.random(n) < 0.5,
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    ), np.where(rng.random(n) < 0.4, np.array(["NA", "blue", "red"], dtype=object)[code], None)


@pytest.fixture(scope="module")
def fitted():
    frame, y = people()
    model = DeepSep(rounds=1, initial_epochs=5, random_state=0)
    return for_table(model).fit(frame.drop(columns="user"), y)


@pytest.fixture(scope="module")
def table():
    return people(2_500, seed=1)[0]


@pytest.fixture(scope="module")
def scored(fitted, table):
    return score_frame(fitted, table, id="user")


def write(table, place):
    if place.suffix in (".csv", ".tsv", ".gz"):
        table.to_csv(place, index=False, sep="\t" if place.suffix == ".tsv" else ",")
    elif place.suffix == ".feather":
        table.to_feather(place)
    elif place.suffix == ".xlsx":
        table.to_excel(place, index=False)
    elif place.suffix == ".parquet":
        table.to_parquet(place, row_group_size=700)
    else:
        place.mkdir()
        for i in range(5):
            table[500 * i : 500 * (i + 1)].to_parquet(place / f"part-{i}.parquet")
    return place


def test_a_row_has_id_label_probabilities_and_confidence(fitted, table, scored):
    assert scored.columns.tolist() == [
        *("user", "label", "probability_NA", "probability_blue", "probability_red", "confidence")
    ]
    p = fitted.predict_proba(table)
    np.testing.assert_allclose(scored.filter(like="probability_"), p, atol=1e-6)
    assert scored["label"].tolist() == fitted.classes_[p.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(scored["confidence"], scored.filter(like="probability_").max(axis=1))
    numbered = score_frame(fitted, table[10:20], first_row=10)
    assert numbered["row"].tolist() == list(range(10, 20))
    assert score_frame(fitted, table[:0], id="user").columns.tolist() == scored.columns.tolist()


@pytest.mark.parametrize(
    "model",
    [TSVM(), TSVM(kernel="rbf"), TSVM(probability=None), RandomForestClassifier(10, random_state=0)],
    ids=["linear", "rbf", "labels only", "forest"],
)
def test_the_same_bits_in_whatever_company(model, table):
    frame, y = people()
    known = np.flatnonzero([v is not None for v in y])
    rows = known if isinstance(model, RandomForestClassifier) else np.arange(len(y))
    model = for_table(model).fit(frame.drop(columns="user").iloc[rows], y[rows])
    whole = score_frame(model, table, id="user")
    for size in (1, 7, 1_000):
        parts = [score_frame(model, table[at : at + size], id="user") for at in range(0, min(3 * size, 2_500), size)]
        # Of a kernel's many products the last digit may depend on where in its block a row stands.
        exact = {"rtol": 1e-13} if getattr(model[-1], "kernel", "") == "rbf" else {"check_exact": True}
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole[: min(3 * size, 2_500)], **exact)
    assert ("confidence" in whole) is hasattr(model, "predict_proba")


def test_models_without_a_schema():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    y = np.where(np.arange(60) < 30, (X["a"] > 0).astype(int), -1)
    model = TSVM().fit(X, y)
    scored = score_frame(model, X.assign(id=7)[["id", "b", "a"]], id="id")
    np.testing.assert_allclose(scored["probability_1"], model.predict_proba(X)[:, 1], atol=1e-12)
    assert len(score_frame(TSVM().fit(X.to_numpy(), y), X.to_numpy())) == 60


@pytest.mark.parametrize("rows", [900, 100_000])
@pytest.mark.parametrize("source", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.feather", "t.xlsx", "parts"])
def test_files_score_as_frames_do(fitted, table, scored, tmp_path, source, rows):
    if source == "t.xlsx":
        pytest.importorskip("openpyxl")
    place = write(table, tmp_path / source)
    heard = []
    summary = score_file(
        fitted, place, tmp_path / "out.parquet", id="user", batch_rows=rows, progress=lambda *args: heard.append(args)
    )
    again = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(again, scored, check_exact=True, check_dtype=False)
    assert summary["rows"] == 2_500
    assert summary["labels"] == {name: int((scored["label"] == name).sum()) for name in ("NA", "blue", "red")}
    assert [share for _, share in heard] == sorted(share for _, share in heard)
    assert heard[-1][0] == 2_500
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([source, "out.parquet", "out.drift.json"])


@pytest.mark.parametrize("target", ["out.csv", "out.tsv"])
def test_text_targets_hold_the_same(fitted, table, scored, tmp_path, target):
    place = write(table[:400], tmp_path / "t.parquet")
    score_file(fitted, place, tmp_path / target, id="user", batch_rows=150)
    again = pd.read_csv(
        tmp_path / target, sep="\t" if target.endswith("tsv") else ",", keep_default_na=False, dtype={"user": str}
    )
    pd.testing.assert_frame_equal(again, scored[:400], check_exact=False, rtol=1e-12, check_dtype=False)


def test_a_folder_of_parts_goes_to_a_folder_of_parts(fitted, table, scored, tmp_path):
    place = write(table, tmp_path / "parts")
    for _ in range(2):  # the second time over the first
        summary = score_file(fitted, place, tmp_path / "out")
        assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [f"part-{i}.parquet" for i in range(5)]
        again = pq.read_table(tmp_path / "out").to_pandas()
        assert again["row"].tolist() == list(range(2_500))
        assert again["label"].tolist() == scored["label"].tolist()
        assert summary["parts"] == 5
        assert summary["ignored"] == ["user"]
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="not parts of an earlier scoring"):
        score_file(fitted, place, tmp_path / "out")


def test_the_users_own_files_are_never_replaced(fitted, table, tmp_path):
    source = write(table, tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    table[:5].assign(label="mine", confidence=1.0).to_parquet(other / "part-0.parquet")
    (tmp_path / "folder.csv").mkdir()
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for target, message in (
        (tmp_path, "contain one another"),
        (source / "part-0.parquet", "contain one another"),
        (source / "scores", "contain one another"),
        (other, "not parts of an earlier scoring, such as part-0.parquet"),
        (tmp_path / "folder.csv", "is a folder"),
    ):
        with pytest.raises(DataError, match=message):
            score_file(fitted, source, target)
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files
    score_file(fitted, source / "part-0.parquet", source / "scores.parquet")  # beside a file is where it may be
    assert (source / "scores.parquet").exists()


def test_identifiers_keep_their_type(fitted, table, tmp_path):
    frame = table[:50].assign(number=range(50))
    place = write(frame, tmp_path / "t.csv")
    for id, kind in (("number", int), ("user", str)):
        score_file(fitted, place, tmp_path / "out.parquet", id=id, batch_rows=20)
        assert {type(v) for v in pd.read_parquet(tmp_path / "out.parquet")[id].tolist()} == {kind}


@pytest.mark.parametrize("source", ["t.parquet", "t.feather", "t.xlsx", "parts"])
@pytest.mark.parametrize(
    "ids",
    [
        pd.array([*map(str, range(1, 59)), "007", "A1"], dtype="str"),
        pd.array([None] * 30 + ["1"] * 30, dtype="str"),
        pd.array([None, *range(2**60 + 1, 2**60 + 60)], dtype="Int64"),
        pd.array(["b", "a"] * 30, dtype="category"),
    ],
    ids=["text", "gaps", "integers", "category"],
)
def test_identifiers_of_typed_files_stay_as_they_are(fitted, table, tmp_path, source, ids):
    place, frame = tmp_path / source, table[:60].assign(key=ids)
    if source == "parts":
        place.mkdir()
        for i in range(3):
            frame[20 * i : 20 * i + 20].to_parquet(place / f"{i}.parquet")
    else:
        if source == "t.xlsx":
            pytest.importorskip("openpyxl")
            if ids.dtype == "Int64":
                pytest.skip("Excel has no integers of that size")
        write(frame, place)
    score_file(fitted, place, tmp_path / "out.parquet", id="key", batch_rows=17)
    again = pq.read_table(tmp_path / "out.parquet")["key"].to_pylist()
    assert again == [None if pd.isna(v) else v for v in ids]
    score_file(fitted, place, tmp_path / "out.csv", id="key", batch_rows=17)
    assert (tmp_path / "out.csv").read_text().count("\n") == 61


@pytest.mark.parametrize("source", ["t.csv", "t.parquet", "t.feather"])
@pytest.mark.parametrize("id", ["user", None])
def test_a_table_without_rows_gives_one_without_rows(fitted, table, scored, tmp_path, source, id):
    place = write(table[:0], tmp_path / source)
    for target in ("out.parquet", "out.csv"):
        assert score_file(fitted, place, tmp_path / target, id=id)["rows"] == 0
    assert pd.read_parquet(tmp_path / "out.parquet").columns.tolist() == [id or "row", *scored.columns[1:]]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1


def test_identifiers_of_two_kinds_are_refused(fitted, table, tmp_path):
    (tmp_path / "parts").mkdir()
    table[:5].assign(key=range(5)).to_parquet(tmp_path / "parts" / "0.parquet")
    table[:5].assign(key=list("abcde")).to_parquet(tmp_path / "parts" / "1.parquet")
    with pytest.raises(DataError, match=r"'key' is int64 in one part and (large_)?string in another"):
        score_file(fitted, tmp_path / "parts", tmp_path / "out.parquet", id="key")
    assert [file.name for file in tmp_path.iterdir()] == ["parts"]


def test_a_part_without_rows_gives_a_part_without_rows(fitted, table, scored, tmp_path):
    place = write(table, tmp_path / "parts")
    pq.write_table(pq.read_table(place / "part-0.parquet")[:0], place / "part-.parquet")
    score_file(fitted, place, tmp_path / "out", id="user")
    schemas = [pq.read_schema(tmp_path / "out" / part.name).remove_metadata() for part in place.iterdir()]
    assert len(schemas) == 6
    assert all(schema == schemas[0] for schema in schemas)
    score_file(fitted, place, tmp_path / "out.parquet", id="user")
    assert pd.read_parquet(tmp_path / "out.parquet")["label"].tolist() == scored["label"].tolist()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("target", ["out.parquet", "out.csv", "out"])
def test_nothing_half_written_stays(fitted, table, tmp_path, monkeypatch, target, error):
    place = write(table, tmp_path / "parts")
    score_file(fitted, place, tmp_path / target)
    files = {file: file.read_bytes() for file in (tmp_path).rglob("*") if file.is_file()}
    real, calls = deepsep.scoring.local.Writer.write, []

    def failing(self, frame):
        calls.append(1)
        if len(calls) == 3:
            raise error
        real(self, frame)

    monkeypatch.setattr(deepsep.scoring.local.Writer, "write", failing)
    with pytest.raises(error):
        score_file(fitted, place, tmp_path / target)
    assert {file: file.read_bytes() for file in (tmp_path).rglob("*") if file.is_file()} == files


def test_a_saved_model_can_be_named_by_its_path(fitted, table, scored, tmp_path):
    save(fitted, tmp_path / "model")
    score_file(tmp_path / "model", write(table, tmp_path / "t.parquet"), tmp_path / "out.parquet", id="user")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "out.parquet"), scored, check_exact=True, check_dtype=False
    )


def test_differences_are_shown_before_anything_is_scored(fitted, table, tmp_path):
    place = write(table.drop(columns="age").assign(agee=1), tmp_path / "t.csv")
    with pytest.raises(DataError) as error:
        score_file(fitted, place, tmp_path / "out.parquet")
    assert "t.csv: the columns differ" in str(error.value)
    assert "  missing: 'age'\n  unexpected: 'user', 'agee'\n  renamed? 'age' to 'agee'" in str(error.value)
    assert not (tmp_path / "out.parquet").exists()
    for call in (
        lambda: score_file(fitted, place, tmp_path / "out.parquet", id="user"),
        lambda: score_frame(fitted, table.drop(columns="age").assign(agee=1), id="user"),
    ):
        with pytest.raises(DataError, match="unexpected: 'agee'\n"):  # the identifier is none
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "out.xls"}, "must end in .parquet, .csv, .tsv"),
        ({"target": "t.csv"}, "source and target are both"),
        ({"id": "usr"}, "id column 'usr' not found; did you mean 'user'"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"engine": "spark"}, "engine='spark'"),
        ({"engine": "ray"}, "scores several files, such as a folder of Parquet parts, to a folder"),
    ],
)
def test_what_cannot_be_done_is_an_error(fitted, table, tmp_path, options, message):
    place = write(table[:50], tmp_path / "t.csv")
    options = {"target": "out.parquet"} | options
    with pytest.raises((DataError, ParameterError), match=message):
        score_file(fitted, place, tmp_path / options.pop("target"), **options)
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_a_ragged_line_far_down_leaves_nothing(fitted, table, tmp_path):
    place = write(table, tmp_path / "t.csv")
    with open(place, "a") as file:
        file.write("one,too,few\n")
    with pytest.raises(DataError, match="line 2502: 3 values"):
        score_file(fitted, place, tmp_path / "out.csv", batch_rows=100)
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_without_ray_the_error_names_the_cure(fitted, table, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install ray"):
        score_file(fitted, write(table, tmp_path / "parts"), tmp_path / "out", engine="ray")
    assert [file.name for file in tmp_path.iterdir()] == ["parts"]


@pytest.mark.infra
def test_ray_gives_the_same_rows_and_bits(fitted, table, tmp_path):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    place = write(table, tmp_path / "parts")
    here = score_file(fitted, place, tmp_path / "here", id="user")
    heard = []
    there = score_file(
        fitted, place, tmp_path / "there", id="user", engine="ray", progress=lambda *args: heard.append(args)
    )
    places = {"target": "", "drift_file": ""}
    assert here | places == there | places
    assert heard[-1] == (2_500, 1.0)
    for part in (tmp_path / "here").iterdir():
        assert pq.read_table(part).equals(pq.read_table(tmp_path / "there" / part.name))


def test_predictions_for_excel(fitted, tmp_path):
    frame = people()[0]
    frame["user"] = [f"=é{i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    score_file(fitted, tmp_path / "rows.csv", tmp_path / "out.xlsx", id="user", batch_rows=7)
    score_file(fitted, tmp_path / "rows.csv", tmp_path / "out.csv", id="user")
    assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    sheet = pd.read_excel(tmp_path / "out.xlsx", keep_default_na=False)
    text = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert sheet["user"].tolist() == frame["user"].tolist()  # text, not formulas
    pd.testing.assert_frame_equal(sheet, text, check_dtype=False)


# -- the student of a committee ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def committee():
    frame, y = people()
    model = Committee(members=["logistic-regression", "tsvm"], effort="fast", n_jobs=1, random_state=0)
    return for_table(model).fit(frame.drop(columns="user"), y)


@pytest.fixture(scope="module")
def by_both(committee, table):
    """The scores of the table by the committee, and by its student."""
    student = deepsep.scoring.who_scores.with_student(committee)
    return {"committee": score_frame(committee, table, id="user"), "student": score_frame(student, table, id="user")}


def test_the_student_stands_behind_the_same_encoding(committee, table):
    student = deepsep.scoring.who_scores.with_student(committee)
    matrix = committee[:-1].transform(table)
    np.testing.assert_array_equal(student.predict_proba(table), committee[-1].student_.predict_proba(matrix))
    assert deepsep.scoring.who_scores.with_student(committee[-1]) is committee[-1].student_


@pytest.mark.parametrize("source", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "parts"])
@pytest.mark.parametrize(("most", "by"), [(2_499, "student"), (2_500, "committee")])
def test_many_rows_go_to_the_student_as_a_whole(committee, table, by_both, tmp_path, monkeypatch, source, most, by):
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", most)
    monkeypatch.setattr(committee[-1].student_, "accuracy_loss_", 0.01)  # little enough, whatever the fits gave
    place = write(table, tmp_path / source)
    done = score_file(committee, place, tmp_path / "out.parquet", id="user", batch_rows=900)
    scored = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(scored, by_both[by], check_exact=True, check_dtype=False)
    assert not by_both["student"].equals(by_both["committee"])
    assert done["scored_by"] == by
    student = committee[-1].student_
    assert done["student"] == {"agreement": student.agreement_, "accuracy_loss": student.accuracy_loss_}


@pytest.mark.parametrize(("most", "fast", "by"), [(2, False, "committee"), (10_000, True, "student")])
def test_the_user_may_choose(committee, table, by_both, tmp_path, monkeypatch, most, fast, by):
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", most)
    done = score_file(committee, write(table, tmp_path / "parts"), tmp_path / "out.parquet", id="user", fast=fast)
    assert done["scored_by"] == by
    scored = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(scored, by_both[by], check_exact=True, check_dtype=False)


def test_a_student_that_differs_much_scores_only_if_asked(committee, table, tmp_path, monkeypatch):
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", 2)
    monkeypatch.setattr(committee[-1].student_, "accuracy_loss_", 0.03)
    place = write(table, tmp_path / "t.parquet")
    assert score_file(committee, place, tmp_path / "out.parquet")["scored_by"] == "committee"
    assert score_file(committee, place, tmp_path / "out.parquet", fast=True)["scored_by"] == "student"


def test_without_a_student_the_model_scores_any_number_of_rows(fitted, table, tmp_path, monkeypatch):
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", 2)
    place = write(table[:50], tmp_path / "t.csv")
    done = score_file(fitted, place, tmp_path / "out.csv")
    assert (done["scored_by"], done["student"]) == ("deepsep", None)
    (tmp_path / "out.csv").unlink()
    (tmp_path / "out.drift.json").unlink()
    with pytest.raises(ParameterError, match="fast=True: the model has no student"):
        score_file(fitted, place, tmp_path / "out.csv", fast=True)
    with pytest.raises(ParameterError, match="fast='yes'"):
        score_file(fitted, place, tmp_path / "out.csv", fast="yes")
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_predictions_have_the_name_of_the_labels(tmp_path):
    x = np.linspace(0, 1, 40) ** 2
    y = pd.Series([*["low"] * 5, *[None] * 30, *["high"] * 5], name="segment")
    model = for_table(TSVM()).fit(pd.DataFrame({"x": x}), y)
    names = ["row", "segment", "probability_high", "probability_low", "confidence"]
    assert score_frame(model, pd.DataFrame({"x": x})).columns.tolist() == names
    save(model, tmp_path / "model")
    assert score_frame(load(tmp_path / "model"), pd.DataFrame({"x": x})).columns.tolist() == names
    with pytest.raises(DataError, match="the id column is named 'segment', like a column of the result"):
        score_frame(model, pd.DataFrame({"x": x, "segment": x}), id="segment")

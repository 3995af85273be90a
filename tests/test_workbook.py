"""The workbook of a fit, read back and compared with pandas and scipy."""

import json
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from command_line import run
from scipy import stats

import deepsep.apps.workbook.book
from deepsep import TSVM, for_table, method, out_of_fold
from deepsep.apps.workbook import make_workbook, write_workbook
from deepsep.core.labels import as_labels
from deepsep.datasets import make_survey
from deepsep.errors import DeepSepWarning, LabelWarning
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.intervals import wilson
from deepsep.report import summarize
from deepsep.report.shares import estimate
from deepsep.scoring import rows_to_label

SHEETS = ["Summary", "Segment sizes", "Profiles", "Tests", "Rows to label next", "classes", "How to read it"]
FIT = ("--label", "segment", "--id", "customer", "--method", "logistic-regression")


def customers(n=240, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    table = pd.DataFrame(
        {
            "=age": 25 + 15 * code + rng.normal(0, 6, n).round(1),
            "plan": np.where(rng.random(n) < 0.1, None, np.array(["free", "=basic", "pro"])[code]),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "luck": rng.integers(1, 5, n),
        }
    )
    labels = np.where(np.arange(n) < 60, np.array(["=gold", "blue", "grey"], dtype=object)[code], None)
    return table, pd.Series(labels, name="segment"), rng.uniform(0.5, 2, n)


@pytest.fixture(scope="module", params=[False, True], ids=["alike", "weighted"])
def made(request, tmp_path_factory):
    table, labels, weight = customers()
    weight = weight if request.param else None
    model = for_table(method("logistic-regression")).fit(table, labels)
    proba = model.predict_proba(table)
    options = {"proba": proba, "label": "segment", "sample_weight": weight}
    summary = summarize(model, table, labels, folds=2, explained=False, **options)
    file = tmp_path_factory.mktemp("book") / "deep" / "results.xlsx"
    ids = pd.Series([f"c{i}" for i in range(240)], name="customer")
    write_workbook(model, table, labels, file, ids=ids, summary=summary, n_next=7, **options)
    return table, labels, np.ones(240) if weight is None else weight, model, proba, summary, file


def frame_of(file: Path, sheet: str) -> pd.DataFrame:
    return pd.read_excel(file, sheet_name=sheet, keep_default_na=False, na_values=[""])


def test_it_has_its_sheets_and_no_formula(made):
    book = openpyxl.load_workbook(made[-1])
    assert set(SHEETS) <= set(book.sheetnames) <= {*SHEETS, "Labels to check"}
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert "f" not in {cell.data_type for cell in cells}
    assert {"=gold", "=age", "=basic"} <= {cell.value for cell in cells}
    for sheet in book.worksheets[1:5]:
        assert sheet.freeze_panes is not None
        assert sheet.auto_filter.ref.startswith("A1:")
    assert json.loads(book.properties.description)["method"] == "Supervised"


def test_the_summary_says_what_the_report_says(made):
    summary = made[5]
    page = list(openpyxl.load_workbook(made[-1])["Summary"].iter_rows(values_only=True))
    texts = [text for _, text in page]
    assert summary["outcome"]["verdict"] in texts
    assert set(summary["verdict"]) <= set(texts)
    own = summary["accuracy"]["methods"][0]["accuracy"]
    at = [what for what, _ in page].index("Of held-out labelled rows")
    np.testing.assert_allclose([value for _, value in page[at : at + 3]], [own["value"], *own["interval"]])
    assert dict(page)["Labelled rows"] == 60


def test_sizes(made):
    _, labels, weight, model, proba, _, file = made
    sizes = frame_of(file, "Segment sizes").iloc[:4]
    assert sizes["Segment"].tolist() == ["=gold", "blue", "grey", "All"]
    known = labels.notna().to_numpy()
    among = pd.Series(weight[known]).groupby(labels[known].to_numpy()).sum() / weight[known].sum()
    np.testing.assert_allclose(sizes["Share of labels"][:3], among)
    assert sizes["Labels"].tolist() == [*labels.value_counts().sort_index(), 60]
    guess = model.classes_[proba.argmax(axis=1)][~known]
    named = pd.Series(weight[~known]).groupby(guess).sum() / weight[~known].sum()
    np.testing.assert_allclose(sizes["Share of predictions"][:3], named)
    assert sizes["Predicted rows"].tolist() == [*pd.Series(guess).value_counts().sort_index(), 180]
    assert sizes["Estimated share of all rows"][:3].sum() == pytest.approx(1)
    assert (sizes["Estimate: from"][:3] < sizes["Estimated share of all rows"][:3]).all()
    assert (sizes["Estimate: to"][:3] > sizes["Estimated share of all rows"][:3]).all()


def test_profiles_are_crosstabs(made):
    table, labels, weight, model, proba, _, file = made
    lines = frame_of(file, "Profiles").set_index(["Column", "Value"])
    names = model.classes_.tolist()
    segment = labels.where(labels.notna(), model.classes_[proba.argmax(axis=1)])
    assert lines.loc[("(all)", "rows"), names].tolist() == segment.value_counts()[names].tolist()
    plan = table["plan"].fillna("(missing)")
    shares = pd.crosstab(plan, segment, weight, aggfunc="sum", normalize="columns")[names]
    total = pd.Series(weight).groupby(plan.to_numpy()).sum() / weight.sum()
    mine = lines.loc["plan"]
    np.testing.assert_allclose(mine.loc[shares.index, names].astype(float), shares)
    np.testing.assert_allclose(mine.loc[shares.index, "Total"].astype(float), total[shares.index])
    index = mine.loc[shares.index, [f"Index: {name}" for name in names]].astype(float)
    np.testing.assert_allclose(index, 100 * shares.div(total, axis=0))
    means = [np.average(table["=age"][segment == name], weights=weight[segment == name]) for name in names]
    np.testing.assert_allclose(lines.loc[("=age", "mean"), names].astype(float), means)
    dates = lines.loc[("joined", "median"), names]
    if len(set(weight)) == 1:
        assert [pd.Timestamp(date).date() for date in dates] == [
            table["joined"][segment == name].median().date() for name in names
        ]


def test_numbers_have_the_formats_of_excel(made):
    book = openpyxl.load_workbook(made[-1])
    sheet = book["Profiles"]
    by_value = {row[1].value: row for row in sheet.iter_rows(min_row=2) if row[0].value in ("plan", "joined")}
    assert {cell.number_format for cell in by_value["pro"][2:6]} == {"0.0%"}
    assert by_value["median"][3].is_date
    rules = [rule for cells in sheet.conditional_formatting for rule in cells.rules]
    assert [rule.formula for rule in rules] == [["AND(ISNUMBER(G3),G3>=120)"], ["AND(ISNUMBER(G3),G3<=80)"]]
    assert all(str(cells.sqref).startswith("G3:I") for cells in sheet.conditional_formatting)
    assert book["Segment sizes"]["C2"].number_format == "0.0%"


def test_tests_are_of_the_labeled_rows(made):
    table, labels, weight, _, _, _, file = made
    tests = frame_of(file, "Tests").set_index("Column")
    known = labels.notna()
    p = tests["p"].dropna()
    order = p.sort_values()
    corrected = (order * np.arange(len(p), 0, -1)).cummax().clip(upper=1)
    np.testing.assert_allclose(tests["p, corrected"].dropna()[order.index], corrected)
    assert tests.loc["=age", "Differs?"] == "yes"
    assert (tests["Differs?"].dropna() == np.where(tests["p, corrected"] < 0.05, "yes", "not shown")).all()
    if len(set(weight)) == 1:
        plan = table["plan"].fillna("(missing)")[known]
        plan = plan.mask(plan.map(plan.value_counts()) < 5, "rare")
        twin = stats.chi2_contingency(pd.crosstab(plan, labels[known]), correction=False)
        assert tests.loc["plan", "p"] == pytest.approx(twin.pvalue)
        for name in ("=age", "luck"):
            groups = [group for _, group in table.loc[known, name].groupby(labels[known])]
            assert tests.loc[name, "p"] == pytest.approx(stats.kruskal(*groups).pvalue)


def test_rows_to_label_are_those_of_next(made):
    table, labels, _, model, _, _, file = made
    ids = [f"c{i}" for i in range(240)]
    frame = table.assign(customer=ids, segment=labels)
    wanted = rows_to_label(model, frame, 7, id="customer", label="segment")
    book = openpyxl.load_workbook(file)
    sheet = book["Rows to label next"]
    rows = list(sheet.iter_rows(values_only=True))
    assert [row[0] for row in rows[1:]] == wanted["customer"].tolist()
    assert list(rows[0]) == list(wanted.columns)
    (choice,) = sheet.data_validations.dataValidation
    assert choice.formula1 == "=classes!$A$1:$A$3"
    assert str(choice.sqref) == "F2:F8"


def test_a_table_with_very_many_rows_is_sampled(monkeypatch):
    table, labels, _ = customers(2_000)
    model = for_table(TSVM()).fit(table, labels)
    summary = summarize(model, table, labels, folds=2, explained=False)
    whole = make_workbook(model, table, labels, summary=summary)
    monkeypatch.setattr(deepsep.apps.workbook.book, "MAX_DRAWN_ROWS", 500)
    part = make_workbook(model, table, labels, summary=summary)
    assert part["Profiles"]["C2"].value == 560
    assert "Of 2,000 rows, 560 are profiled" in " ".join(str(cell.value) for cell in part["How to read it"]["B"])
    assert "All rows and columns are counted." in [cell.value for cell in whole["How to read it"]["B"]]
    p = [[cell.value for cell in book["Tests"]["G"]] for book in (whole, part)]
    assert p[0] == p[1]  # labelled rows are never left out
    shares = [book["Profiles"]["C3"].value for book in (whole, part)]
    assert shares[0] == pytest.approx(shares[1], rel=0.1)


def test_a_very_wide_table_is_profiled_in_part(monkeypatch):
    table, labels, _ = customers(120)
    model = for_table(TSVM()).fit(table, labels)
    summary = summarize(model, table, labels, folds=2, explained=False)
    monkeypatch.setattr(deepsep.apps.workbook.book, "MAX_PROFILE_COLUMNS", 2)
    book = make_workbook(model, table, labels, summary=summary)
    assert [cell.value for cell in book["Tests"]["A"]] == ["Column", "=age", "plan"]
    assert "Of 4 columns, the first 2 are profiled" in " ".join(str(cell.value) for cell in book["How to read it"]["B"])


def test_columns_that_the_model_leaves_out_are_named():
    table, labels, _ = customers(120)
    with pytest.warns(DeepSepWarning, match="'number'"):
        model = for_table(TSVM()).fit(table.assign(number=np.arange(120)), labels)
    table = table.assign(number=np.arange(120))
    book = make_workbook(model, table, labels, summary=summarize(model, table, labels, folds=2, explained=False))
    last = [cell.value for cell in book["Tests"][book["Tests"].max_row]]
    assert (last[0], last[1], last[8]) == ("number", "identifier", "left out")


def test_all_rows_labeled_and_one_that_is_no_frame():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-1, 1, (40, 2)), rng.normal(1, 1, (40, 2))])
    y = np.repeat([3, 7], 40)
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        model = TSVM().fit(X, y)
    summary = summarize(model, X, y, folds=2, explained=False)
    book = make_workbook(model, X, y, summary=summary)
    assert "Rows to label next" not in book.sheetnames
    assert [row[0].value for row in book["Tests"].iter_rows(min_row=2)] == ["x0", "x1"]
    y = np.where(np.arange(80) % 2, y, -1)
    book = make_workbook(TSVM().fit(X, y), X, y, summary=summary, n_next=3)
    assert book["Rows to label next"].max_row == 4
    assert [cell.value for cell in book["classes"]["A"]] == [3, 7]


# -- estimated shares ------------------------------------------------------------------------------------------


def test_with_perfect_probabilities_the_estimate_counts_them():
    labels = as_labels(np.array(["a", "b", None, None, None, None], dtype=object))
    p = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [1, 0], [0, 1]], float)
    held_out = Evidence(p[:2], np.array([0, 1]), np.ones(2), 1)
    found = estimate(labels, np.arange(6), p, np.ones(6), held_out)
    assert [line["value"] for line in found] == pytest.approx([4 / 6, 2 / 6])
    assert all(line["interval"][0] < line["value"] < line["interval"][1] for line in found)
    assert estimate(labels, np.arange(6), p, np.ones(6), None)[0]["interval"] is None


def test_a_model_that_is_always_off_by_the_same_is_put_right():
    """Whatever a constant is added to the probabilities, the estimate stays."""
    rng = np.random.default_rng(0)
    codes = np.where(np.arange(400) < 100, rng.integers(0, 2, 400), -1)
    labels = as_labels(np.where(codes < 0, None, np.array(["a", "b"], dtype=object)[codes]))
    p = rng.uniform(0.3, 0.6, 400)
    weight = rng.uniform(0.5, 2, 400)
    results = []
    for shift in (0.0, 0.1, -0.2):
        both = np.column_stack([p + shift, 1 - p - shift])
        held_out = Evidence(both[:100], codes[:100], weight[:100], 1)
        results.append(estimate(labels, np.arange(400), both, weight, held_out))
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert mine["value"] == pytest.approx(theirs["value"])
            assert mine["interval"] == pytest.approx(theirs["interval"])


def test_a_model_that_knows_nothing_leaves_the_share_of_the_labels():
    codes = np.where(np.arange(300) < 60, np.arange(300) % 3 == 0, -1).astype(int)
    labels = as_labels(np.where(codes < 0, None, np.array(["a", "b"], dtype=object)[codes]))
    p = np.full((300, 2), 0.5)
    found = estimate(labels, np.arange(300), p, np.ones(300), Evidence(p[:60], codes[:60], np.ones(60), 1))
    assert [line["value"] for line in found] == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.slow
def test_intervals_of_estimated_shares_hold_about_as_often_as_they_say():
    held, narrower = [], []
    for seed in range(60):
        survey = make_survey(1_000, n_segments=3, random_state=seed)
        truth = pd.Series(survey.segment)
        asked = np.random.default_rng(seed).choice(1_000, 50, replace=False)
        labels = truth.where(truth.index.isin(asked))
        model = for_table(method("logistic-regression"))
        held_out = out_of_fold(model, survey.profile, labels, random_state=seed)
        p = model.fit(survey.profile, labels).predict_proba(survey.profile)
        known = as_labels(labels)
        evidence = Evidence(held_out.p["model"], held_out.codes, np.ones(len(held_out.codes)), 1)
        for k, line in enumerate(estimate(known, np.arange(1_000), p, np.ones(1_000), evidence)):
            low, high = line["interval"]
            held.append(low <= (truth == known.classes[k]).mean() <= high)
            a, b = wilson(int((known.codes == k).sum()), 50)
            narrower.append((high - low) / (b - a))
    assert np.mean(held) > 0.9
    assert np.mean(narrower) < 0.9


# -- the command line ------------------------------------------------------------------------------------------


def test_fit_writes_a_workbook_whose_labels_go_straight_back(people: Path) -> None:
    file, folder = people.parent / "results.xlsx", people.parent / "m"
    command = ("fit", people, *FIT, "--drop", "weight", "-o", folder, "--workbook", file)
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["workbook"] == str(file)
    result = run(*command, "--label", "nothing")  # nobody has filled it in, so that the table is read
    assert "nothing" in result.stderr
    assert "filled in" not in result.stderr
    book = openpyxl.load_workbook(file)
    sheet = book["Rows to label next"]
    ids = [cell.value for cell in sheet["A"][1:4]]
    for i in (2, 3, 4):
        sheet.cell(i, 6).value = "grey"
    book.save(file)
    result = run(*command)
    assert result.exit_code == 2
    assert "has 3 labels that someone filled in" in result.stderr
    result = run("fit", people, *FIT, "--drop", "weight", "--labels", file, "--no-report", "-o", people.parent / "m2")
    assert result.exit_code == 0, result.output
    assert f"Labels in {file}: 3 new" in result.stderr
    used = pd.read_csv(people.parent / "m2" / "labels_used.csv").set_index("customer")["segment"]
    assert used[ids].tolist() == ["grey"] * 3


def test_a_workbook_comes_back_as_a_copy_with_predictions_next_to_its_table(people: Path) -> None:
    frame = pd.read_csv(people).assign(confidence=1.5)
    table, file, folder = people.with_suffix(".xlsx"), people.parent / "results.xlsx", people.parent / "m"
    with pd.ExcelWriter(table) as writer:
        pd.DataFrame({"about": ["nothing"]}).to_excel(writer, sheet_name="Summary", index=False)
        frame.to_excel(writer, sheet_name="People", startrow=3, index=False)
    own = openpyxl.load_workbook(table)
    own["People"]["A1"], own["People"]["B1"] = "People", "=1+1"
    own["People"].merge_cells("A1:A2")
    own["People"]["C6"].font = openpyxl.styles.Font(color="FF0000")
    own.save(table)
    before = table.read_bytes()
    options = (*FIT, "--sheet", "People", "--skip-rows", "3", "--keep", "confidence", "-o", folder)
    result = run("fit", table, *options, "--workbook", file)
    assert result.exit_code == 0, result.output
    assert f"Open first: {file}" in result.stdout
    assert table.read_bytes() == before
    book = openpyxl.load_workbook(file)
    assert book.sheetnames[:3] == ["Summary", "People", "Summary1"]
    assert book.active.title == "People"
    for name in ("Summary", "People"):
        for row in own[name].iter_rows():
            for cell in row:
                same = book[name][cell.coordinate]
                assert same.value == cell.value
                assert cell.value is None or same.data_type == cell.data_type
                assert same.font.color == cell.font.color
    assert [str(cells) for cells in book["People"].merged_cells.ranges] == ["A1:A2"]
    copied, given = pd.read_excel(file, sheet_name="People", header=3), pd.read_excel(folder / "predictions.xlsx")
    free = copied["segment"].isna()
    assert list(copied)[: frame.shape[1]] == list(frame)
    assert list(copied)[frame.shape[1] :] == [f"{name}_predicted" if name in frame else name for name in given][1:]
    assert copied.loc[~free, "segment_predicted"].isna().all()
    assert (
        copied.loc[free, ["customer", *list(copied)[frame.shape[1] :]]].to_numpy().tolist() == given.to_numpy().tolist()
    )
    for words, again in (
        ("is the table itself", table),
        ("is a workbook of an earlier fit", people.parent / "r2.xlsx"),
    ):
        result = run("fit", table if again == table else file, *options, "--workbook", again)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())


def test_predictions_of_other_tables_are_on_a_sheet(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = people.parent / "results.xlsx", people.parent / "m"
    assert run("fit", people, *FIT, "-o", folder, "--workbook", file).exit_code == 0
    assert openpyxl.load_workbook(file).sheetnames[:2] == ["Summary", "Predictions"]
    listed, given = frame_of(file, "Predictions"), pd.read_csv(folder / "predictions.csv")
    pd.testing.assert_frame_equal(listed, given, check_exact=False)
    monkeypatch.setattr("deepsep.apps.workbook.own_file.MAX_LISTED_ROWS", 100)
    result = run("fit", people, *FIT, "-o", folder, "--workbook", file)
    assert "The workbook lacks the predictions, since they are 170 rows" in result.stderr
    assert "Predictions" not in openpyxl.load_workbook(file).sheetnames


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("r.xls", (), "must end in .xlsx"),
        ("r.xlsx", ("--no-report",), "leave out --no-report"),
        ("other.xlsx", (), "is another file, not a workbook of deepsep"),
        ("broken.xlsx", (), "broken.xlsx is damaged"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_fit(people: Path, name: str, more: tuple, words: str) -> None:
    pd.DataFrame({"mine": [1]}).to_excel(people.parent / "other.xlsx")
    (people.parent / "broken.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    result = run("fit", people, *FIT, "-o", people.parent / "m", "--workbook", people.parent / name, *more)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Fitting" not in result.stderr

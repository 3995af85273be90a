"""Survey to segments: what counts as an answer, the segments themselves, their names, and what is written."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepsep import SurveySegments, load
from deepsep.datasets import make_survey
from deepsep.errors import DataError, DeepSepWarning, ModelFileError, ParameterError
from deepsep.models import save
from deepsep.report import render_segments
from deepsep.survey import read_names, write_names, write_segments
from deepsep.survey.answer_profiles import suggest_names
from deepsep.survey.choosing_k import choose_k, reason_for_k
from deepsep.survey.lda import AnswersLDA
from deepsep.survey.questions import encode, find_separator, read_column, read_question


@pytest.fixture(scope="module")
def people():
    return make_survey(300, n_segments=3, n_questions=15, random_state=0)


@pytest.fixture(scope="module")
def model(people):
    return SurveySegments(n_segments=3, random_state=0).fit(people.answers)


def question(cells, *, separator=None, detect=True, min_count=1, n=None):
    cells = pd.Series(cells)
    column = read_column("q", cells)
    return read_question("q", column, n or len(cells), separator=separator, detect=detect, min_count=min_count)


def one_hot(cells, **settings):
    parsed = question(cells, **settings)
    matrix = encode({"q": read_column("q", pd.Series(cells))}, [parsed], len(cells)).toarray()
    return pd.DataFrame(matrix.astype(int), columns=list(parsed.answers))


# -- answers -------------------------------------------------------------------------------------------------


def test_one_choice_has_a_column_an_answer_and_gaps_have_none():
    table = one_hot(["tea", " tea ", "milk", None, float("nan"), "", "  ", pd.NA])
    assert table.columns.tolist() == ["tea", "milk"]
    assert table.to_numpy().tolist() == [[1, 0], [1, 0], [0, 1], *[[0, 0]] * 5]


def test_several_choices_in_a_cell_are_taken_apart():
    table = one_hot(["tea; milk", "milk", "tea;tea", None, "juice; tea", "juice"])
    assert sorted(table.columns) == ["juice", "milk", "tea"]
    assert table[["tea", "milk", "juice"]].to_numpy().tolist() == [
        *([1, 1, 0], [0, 1, 0], [1, 0, 0]),
        *([0, 0, 0], [1, 0, 1], [0, 0, 1]),
    ]


@pytest.mark.parametrize("separator", [";", "|", ","])
def test_separator_is_found(separator):
    assert find_separator([f"a{separator} b", "a", "b", f"b{separator}c", "c"]) == separator


@pytest.mark.parametrize(
    "levels",
    [
        ["Often, once a day", "Rarely, once a week", "Never"],
        ["Yes", "No"],
        ["a|b"],
        ["Paris, France", "Rome, Italy", "Oslo, Norway"],
        [],
    ],
)
def test_answers_with_punctuation_are_left_whole(levels):
    assert find_separator(levels) is None


def test_named_separator_is_used_even_where_none_would_be_found():
    assert question(["a/b", "c/d"], separator="/", detect=False).answers == ("a", "b", "c", "d")
    assert question(["a;b", "a", "b"], detect=False).kind == "choice"


def test_numbers_with_few_values_are_a_scale_in_order():
    parsed = question([3, 1.0, 2, None, 10, 1, 2.5])
    assert (parsed.kind, parsed.answers) == ("scale", ("1", "2", "2.5", "3", "10"))


def test_ordered_categories_are_a_scale_in_their_order():
    cells = pd.Categorical(["high", "low", "mid", "low"], ["low", "mid", "high"], ordered=True)
    parsed = question(cells)
    assert (parsed.kind, parsed.answers) == ("scale", ("low", "mid", "high"))


def test_truth_values_are_yes_and_no():
    assert question([True, False, True]).answers == ("Yes", "No")
    assert question(pd.array([True, False, None], dtype="boolean")).answers == ("No", "Yes")


def test_the_same_numbers_as_integers_and_floats_are_the_same_answers():
    parsed = question(np.array([1, 2, 3, 1]))
    again = encode({"q": read_column("q", pd.Series([1.0, np.nan, 3.0]))}, [parsed], 3).toarray()
    assert again.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([f"user{i}" for i in range(100)], "identifier"),
        (np.arange(100) + 10_000, "identifier"),
        (np.arange(100) % 50 / 7, "measurement"),
        ([f"I like {i} and more" for i in range(50)] * 2, "free text"),
        (["Yes"] * 100, "same answer"),
        (["Yes"] * 98 + ["No"] * 2, "all but a few"),
        ([None] * 100, "no answers"),
        (pd.date_range("2024-01-01", periods=100), "dates"),
        ([pd.Timestamp("2024-01-01").date()] * 100, "dates"),
    ],
)
def test_what_is_no_question_is_left_out_with_a_reason(cells, reason):
    assert reason in question(cells, min_count=5)


def test_a_ticked_box_is_a_question_though_it_has_one_answer():
    assert question(["ticked"] * 30 + [None] * 70, min_count=5).answers == ("ticked",)


def test_rare_answers_do_not_count():
    assert question(["a"] * 10 + ["b"] * 10 + ["c"] * 4, min_count=5).answers == ("a", "b")


def test_lists_in_cells_are_refused_by_name():
    with pytest.raises(DataError, match="column 'q' holds lists"):
        question([["a"], ["b"]])


# -- the model -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(people, model):
    columns, n = model._read_columns(people.answers, reset=False)
    return encode(columns, model.questions_, n)


def test_transform_is_that_of_scikit_learn(model, rows):
    theirs = LatentDirichletAllocation(3)
    theirs.__dict__.update(vars(model.lda_))
    np.testing.assert_allclose(model.lda_.transform(rows), theirs.transform(rows), rtol=1e-6, atol=1e-8)
    assert model.lda_.perplexity(rows) == pytest.approx(theirs.perplexity(rows), rel=1e-6)


def test_m_step_is_that_of_scikit_learn(model, rows):
    """From the same state, with converged rows, one pass leads to the same topics."""
    ours, theirs = AnswersLDA(3), LatentDirichletAllocation(3)
    for lda in (ours, theirs):
        lda.__dict__.update(vars(model.lda_))
    _, mine = ours._e_step(rows, cal_sstats=True, random_init=False)
    _, sums = theirs._e_step(rows, cal_sstats=True, random_init=False)
    np.testing.assert_allclose(mine, sums, rtol=1e-5, atol=1e-7)


def test_more_passes_never_worsen_the_bound(rows):
    bounds = [AnswersLDA(3, learning_method="batch", max_iter=n, random_state=0).fit(rows).bound_ for n in (1, 5, 25)]
    assert bounds[0] >= bounds[1] >= bounds[2]


def test_segments_are_those_of_the_model_that_made_the_answers(people, model):
    assert adjusted_rand_score(people.segment, model.labels_) > 0.9


def test_seeds_lead_to_the_same_segments_in_the_same_order(people, model):
    other = SurveySegments(n_segments=3, random_state=1).fit(people.answers)
    assert np.mean(other.labels_ == model.labels_) > 0.97


def test_attributes_agree_with_one_another(people, model):
    proportions = model.transform(people.answers)
    np.testing.assert_allclose(proportions.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(people.answers), model.labels_)
    np.testing.assert_array_equal(proportions.max(axis=1), model.probability_)
    np.testing.assert_array_equal(model.sizes_, np.bincount(model.labels_))
    assert (np.diff(model.sizes_) <= 0).all()
    assert model.n_segments_ == len(set(model.segment_names_)) == 3


def test_fit_is_repeatable_and_leaves_the_table_alone(people, model):
    before = people.answers.copy()
    again = clone(model).fit(people.answers)
    np.testing.assert_array_equal(again.lda_.components_, model.lda_.components_)
    pd.testing.assert_frame_equal(people.answers, before)


def test_rows_do_not_influence_one_another_in_transform(people, model):
    whole = model.transform(people.answers)
    np.testing.assert_allclose(model.transform(people.answers.iloc[40:60]), whole[40:60], rtol=1e-9)


def test_unseen_answers_count_as_none(people, model):
    some = people.answers.head(5).copy()
    gaps = some.copy()
    some["question 0"], gaps["question 0"] = "never heard of", None
    np.testing.assert_array_equal(model.transform(some), model.transform(gaps))


def test_a_respondent_without_answers_has_no_segment(people):
    answers = people.answers.copy()
    answers.iloc[7] = None
    model = SurveySegments(n_segments=3, random_state=0).fit(answers)
    assert model.labels_[7] == -1
    assert model.sizes_.sum() == len(answers) - 1
    np.testing.assert_allclose(model.transform(answers)[7], 1 / 3)


def test_arrays_and_arrow_tables_give_the_same_as_data_frames(people, model):
    pa = pytest.importorskip("pyarrow")
    for answers in (people.answers.to_numpy(dtype=object), pa.Table.from_pandas(people.answers)):
        again = clone(model).fit(answers)
        np.testing.assert_array_equal(again.labels_, model.labels_)


def test_polars_frames_give_the_same_as_pandas(people, model):
    polars = pytest.importorskip("polars")
    again = clone(model).fit(polars.from_pandas(people.answers))
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_columns_left_out_are_named_in_a_warning_at_the_caller(people):
    answers = people.answers.assign(user=[f"u{i}" for i in range(300)], country="NL")
    with pytest.warns(DeepSepWarning, match=r"2 of 17 columns.*'user' \(all answers differ.*'country'") as caught:
        model = SurveySegments(n_segments=3, random_state=0).fit(answers)
    assert caught[0].filename == __file__
    assert list(model.left_out_) == ["user", "country"]


def test_a_table_without_questions_is_refused():
    with pytest.raises(DataError, match="none of the 1 columns is a question"):
        SurveySegments().fit(pd.DataFrame({"id": range(100)}))


def test_duplicate_columns_are_refused(people):
    answers = people.answers.iloc[:, [0, 1, 1]]
    with pytest.raises(DataError, match="several columns named 'question 1'"):
        SurveySegments().fit(answers)


@pytest.mark.parametrize(
    "setting",
    [
        {"n_segments": 1},
        {"n_segments": "many"},
        {"k_range": (5, 2)},
        {"k_range": 4},
        {"separator": ""},
        {"min_count": 0},
        {"n_init": 0.5},
        {"max_iter": True},
    ],
    ids=str,
)
def test_settings_are_checked_in_fit(people, setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        SurveySegments(**setting).fit(people.answers)


def test_more_segments_than_respondents_are_refused():
    answers = pd.DataFrame({"q": ["a", "b", "a"], "r": ["x", "x", "y"]})
    with pytest.raises(DataError, match=r"3 respondents.*5 segments"):
        SurveySegments(n_segments=5, min_count=1).fit(answers)


def test_pandas_output_is_named_by_segment(people, model):
    table = clone(model).set_output(transform="pandas").fit(people.answers).transform(people.answers)
    assert table.columns.tolist() == model.segment_names_.tolist()


# scikit-learn rounds the numbers of most checks for estimators of categories, but not those of these two.
EXPECTED_FAILURES = {
    "check_clustering": "its columns are measurements, with all values different: no answers",
    "check_sample_weight_equivalence_on_dense_data": "the start depends on the order of the rows, which it changes",
}


@parametrize_with_checks(
    [SurveySegments(n_segments=2, min_count=1)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
@pytest.mark.filterwarnings("ignore::deepsep.errors.DeepSepWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- the number of segments ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_finds_the_number_of_segments_of_the_generator():
    people = make_survey(500, n_segments=4, n_questions=20, clarity=2.5, random_state=1)
    model = SurveySegments(n_segments="auto", k_range=(2, 6), n_init=1, max_iter=20, random_state=0).fit(people.answers)
    assert model.n_segments_ == 4
    assert model.k_scores_.index.tolist() == [2, 3, 4, 5, 6]
    assert model.k_scores_.loc[4, "stability"] > 0.9
    assert model.k_scores_["gain"].max() == 1


def test_compare_k_does_not_fit_the_model(people):
    model = SurveySegments(k_range=(2, 3), n_init=1, max_iter=5, random_state=0)
    table = model.compare_k(people.answers)
    assert table.columns.tolist() == ["perplexity", "perplexity_std", "gain", "stability"]
    with pytest.raises(NotFittedError):
        model.predict(people.answers)


@pytest.mark.parametrize(
    ("gain", "noise", "stability", "chosen", "why"),
    [
        ([0.5, 0.9, 1.0], 0.1, [1.0, 0.8, 0.7], 3, "k = 3 and 4 predict held-out answers about equally well"),
        (
            [0.5, 0.9, 1.0],
            0.1,
            [1.0, 0.8, 0.7],
            3,
            "k = 2 is more stable, but clearly worse at predicting: perplexity 15",
        ),
        ([0.5, 0.8, 1.0], 0.1, [0.6, 0.8, 0.7], 4, "Only k = 4 predicts held-out answers well."),
        ([0.5, 0.8, 1.0], 2.5, [0.6, 0.8, 0.7], 3, "the most stable of these is k = 3."),  # by noise, too
        ([0.9, 0.95, 1.0], 0.1, [0.5, 0.9, 0.901], 3, "the most stable of these is k = 3."),  # of equals the smaller
        ([0.0, 0.0, 0.0], 0.1, [0.1, 0.2, 0.3], 4, "No k predicts held-out answers better"),
    ],
)
def test_rule_for_k_and_its_reason(gain, noise, stability, chosen, why):
    perplexity = 20 - 10 * np.array(gain)
    table = pd.DataFrame(
        {"perplexity": perplexity, "perplexity_std": noise, "gain": gain, "stability": stability}, index=[2, 3, 4]
    )
    assert choose_k(table) == chosen
    assert why in reason_for_k(table)


def test_the_page_shows_the_table_of_k_and_the_reason(people, tmp_path):
    model = SurveySegments(n_segments="auto", k_range=(2, 3), n_init=1, max_iter=5, random_state=0).fit(people.answers)
    summary = write_segments(model, people.answers, tmp_path / "s", render=render_segments)
    page = (tmp_path / "s" / "segments.html").read_text(encoding="utf-8")
    assert summary["reason"] == reason_for_k(model.k_scores_)
    assert summary["reason"] in page
    assert f"Why {model.n_segments_} segments?" in page
    assert page.count('<span class="tag">chosen</span>') == 1
    assert all(f"{stability:.2f}</td>" in page for stability in model.k_scores_["stability"])
    assert str(escape(summary["segments"][0]["telling"][0]["answer"])) in page
    model.set_params(n_segments=2).fit(people.answers)
    summary = write_segments(model, people.answers, tmp_path / "s")  # without a page, that of the earlier run goes
    assert summary["reason"] is None
    assert not (tmp_path / "s" / "segments.html").exists()


# -- profiles and names --------------------------------------------------------------------------------------


def test_profiles_are_shares_and_lifts(people, model):
    row = model.profiles_.iloc[0]
    answers, member = people.answers[row["question"]], model.labels_ == row["segment"]
    share = (answers[member].dropna() == row["answer"]).mean()
    overall = (answers.dropna() == row["answer"]).mean()
    assert row["share"] == pytest.approx(share)
    assert row["overall"] == pytest.approx(overall)
    assert row["lift"] == pytest.approx(share / overall)
    assert row["telling"] == pytest.approx(share * np.log(share / overall))
    assert model.profiles_.groupby("segment")["telling"].apply(lambda t: t.is_monotonic_decreasing).all()


def test_suggested_names_are_distinct_even_where_segments_are_alike():
    table = pd.DataFrame({"segment": [0, 1, 2], "question": ["Tea"] * 3, "answer": ["Yes"] * 3, "telling": [0.1] * 3})
    assert suggest_names(table, 3) == ["Tea", "Tea (1)", "Tea (2)"]


def test_suggested_names_stay_short():
    long = "In general, would you say that over the last twelve months your health has been"
    table = pd.DataFrame({"segment": [0, 0], "question": [long, "Sport"], "answer": ["excellent", "No"]})
    (name,) = suggest_names(table.assign(telling=[0.2, 0.1]), 1)
    assert len(name) < 80
    assert name.startswith("In general, would you…: excellent")
    assert name.endswith(", sport: no")


def test_names_can_be_given_before_and_after_the_fit(people, model):
    named = clone(model).set_params(names={1: "Night owls"}).fit(people.answers)
    assert named.segment_names_.tolist() == [model.segment_names_[0], "Night owls", model.segment_names_[2]]
    assert named.rename(["A", "B", "C"]).segment_names_.tolist() == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({3: "x"}, "no segment 3; the segments are 0 to 2"),
        ({"1": "x"}, "no segment '1'"),
        ({0: "x", 2: "x"}, "segments 0 and 2 would both be called 'x'"),
        ({0: " "}, r"names\[0\]=' '"),
        (["a", "b", "c", "d"], "no segment 3"),
    ],
)
def test_wrong_names_are_refused(model, names, message):
    with pytest.raises(ParameterError, match=message):
        clone_fitted(model).rename(names)


def clone_fitted(model):
    copy = clone(model)
    copy.__dict__.update(vars(model))
    return copy


def test_names_go_through_a_file(tmp_path):
    names = ["Früh auf", 'So-called "owls"', "雪"]
    write_names(names, tmp_path / "names.json")
    assert read_names(tmp_path / "names.json") == dict(enumerate(names))
    write_names({1: "x"}, tmp_path / "names.json")
    assert read_names(tmp_path / "names.json") == {1: "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'0': 'x'}", "is not a JSON file"),
        ('["x"]', "does not map segments to names"),
        ("3", "does not map segments to names"),
        ('{"first": "x"}', "'first' is not the number of a segment"),
        ('{"0": "x", "0": "y"}', "segment 0 is named twice"),
        ('{"0": "x", "1": "x"}', "both be called 'x'"),
        ('{"0": ""}', "name of segment 0 is ''"),
        ('{"0": 7}', "name of segment 0 is 7"),
    ],
)
def test_a_bad_file_of_names_is_explained(tmp_path, text, message):
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_names(tmp_path / "names.json")


def test_a_missing_file_of_names_is_explained(tmp_path):
    with pytest.raises(DataError, match=r"none\.json cannot be read"):
        read_names(tmp_path / "none.json")


# -- saving --------------------------------------------------------------------------------------------------


def test_a_saved_model_is_the_same_model(people, model, tmp_path):
    fitted = clone(model).set_params(n_segments="auto", k_range=(2, 3), n_init=1, max_iter=5).fit(people.answers)
    save(fitted, tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(people.answers), fitted.transform(people.answers))
    assert again.get_params() == fitted.get_params()
    assert again.questions_ == fitted.questions_
    assert again.segment_names_.tolist() == fitted.segment_names_.tolist()
    for name in ("labels_", "probability_", "sizes_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    for name in ("profiles_", "k_scores_"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(fitted, name))
    assert again.perplexity_ == fitted.perplexity_


def test_the_folder_of_a_segmentation(people, model, tmp_path):
    ids = 1000 + np.arange(300)
    folder = tmp_path / "segments"
    summary = write_segments(model, people.answers, folder, ids=ids, id_name="user_id")
    assert sorted(p.name for p in folder.iterdir()) == [
        *("model", "names.json", "profiles.csv", "respondents.parquet", "summary.json"),
    ]
    table = pd.read_parquet(folder / "respondents.parquet")
    assert table.columns.tolist() == [
        *("user_id", "segment", "probability"),
        *(f"probability_{name}" for name in model.segment_names_),
    ]
    assert table["user_id"].tolist() == ids.tolist()
    assert (table["segment"] == model.segment_names_[model.labels_]).all()
    np.testing.assert_array_equal(table.iloc[:, 3:].to_numpy(), model.transform(people.answers))
    assert read_names(folder / "names.json") == dict(enumerate(model.segment_names_))
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == summary
    assert [s["size"] for s in summary["segments"]] == model.sizes_.tolist()
    profiles = pd.read_csv(folder / "profiles.csv")
    assert len(profiles) == len(model.profiles_)
    np.testing.assert_array_equal(load(folder / "model").predict(people.answers), model.labels_)


def test_a_second_run_replaces_the_first_and_keeps_other_files(people, model, tmp_path):
    write_segments(model, people.answers, tmp_path / "s")
    (tmp_path / "s" / "notes.txt").write_text("mine")
    write_segments(clone_fitted(model).rename({0: "Zero"}), people.answers.head(5), tmp_path / "s")
    assert (tmp_path / "s" / "notes.txt").read_text() == "mine"
    assert len(pd.read_parquet(tmp_path / "s" / "respondents.parquet")) == 5
    assert load(tmp_path / "s" / "model").segment_names_[0] == "Zero"


def test_a_foreign_folder_is_left_alone(people, model, tmp_path):
    (tmp_path / "names.json").write_text("mine")
    with pytest.raises(DataError, match="did not write"):
        write_segments(model, people.answers, tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("names.json", "mine")]


@pytest.mark.parametrize("ids", [[1, 2], [1, 1, 2]])
def test_wrong_identifiers_are_refused_and_nothing_is_written(people, model, tmp_path, ids):
    with pytest.raises(DataError, match=r"identifiers for 3 respondents|=1 identifies several"):
        write_segments(model, people.answers.head(3), tmp_path / "s", ids=ids)
    assert not (tmp_path / "s").exists()


def test_an_unfitted_model_is_not_written(people, tmp_path):
    with pytest.raises((NotFittedError, ModelFileError)):
        write_segments(SurveySegments(), people.answers, tmp_path / "s")

"""Reports on models with known class shares: scores are for the population."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

from deepsep import TSVM, DeepSep, for_table
from deepsep.core.labels import read_labels
from deepsep.core.probability import fit_temperature
from deepsep.errors import DeepSepWarning, ParameterError
from deepsep.evaluation.importance import permute
from deepsep.evaluation.population import read_weights, to_population
from deepsep.report import render, summarize
from deepsep.report.held_out import Evaluation, evaluate_model
from deepsep.report.ranking import related_to_report
from deepsep.table.pipeline import source_columns

SHARES = {"few": 0.1, "many": 0.9}
FAST: dict[str, Any] = {"initial_epochs": 15, "hidden": (8,), "n_networks": 1, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def _small_map_and_forests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepsep.report.held_out.FOREST_TREES", 10)
        patch.setattr("deepsep.report.map.MAX_MAP_ROWS", 60)
        patch.setattr("deepsep.report.map.MAX_MAP_LABELED", 20)
        patch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 100)
        yield


def quota(n: int = 600, labels: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes that overlap, nine rows of one to one of the other, and as many labels of each."""
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 10, "few", "many")
    X = rng.normal(np.where(truth == "few", 1.0, -1.0)[:, None], 1.3, (n, 2))
    y = np.full(n, None)
    for name in SHARES:
        at = rng.choice(np.flatnonzero(truth == name), labels, replace=False)
        y[at] = name
    return X, y, truth


def measured(model: Any, X: Any, y: np.ndarray, **asked: Any) -> Evaluation:
    evaluation = evaluate_model(model, X, read_labels(y), **{"repeats": 0, "baselines": False, "folds": 3} | asked)
    assert not isinstance(evaluation, str)
    return evaluation


def test_networks_of_the_rounds_are_brought_to_the_shares_like_the_model() -> None:
    X, y, _ = quota()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[:5] = 0
    evaluation = measured(DeepSep(rounds=2, priors=SHARES, **FAST), X, y, sample_weight=weight)
    assert evaluation.networks is not None
    assert evaluation.averages is not None
    np.testing.assert_allclose(evaluation.averages[-1], evaluation.p["model"], atol=1e-5)  # all rounds are the model
    np.testing.assert_array_equal(evaluation.averages[0], evaluation.networks[0])
    np.testing.assert_allclose(evaluation.averages[1], evaluation.networks[1], atol=1e-12)


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("unlabeled", [True, False])
def test_without_rounds_the_start_is_the_model(unlabeled: bool, calibrate: bool) -> None:
    X, y, _ = quota()
    if not unlabeled:
        X, y = X[y != None], y[y != None]  # noqa: E711
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        model = DeepSep(rounds=0, priors=SHARES, calibrate=calibrate, **FAST).fit(X, y)
    summary = summarize(model, X, y, folds=2, explained=False)
    model_line, start_line = summary["accuracy"]["methods"][:2]
    assert start_line["key"] == "start"
    assert start_line["against_model"]["gained"] == start_line["against_model"]["lost"] == 0
    assert model_line["accuracy"]["value"] == start_line["accuracy"]["value"]
    assert model_line["log_loss"]["value"] == pytest.approx(start_line["log_loss"]["value"], abs=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_rows_count_by_the_shares_given(weighted: bool) -> None:
    X, y, _ = quota()
    weight = np.random.default_rng(0).uniform(0.2, 4, len(y)) if weighted else None
    evaluation = measured(TSVM(priors=SHARES), X, y, sample_weight=weight)
    own = np.ones(len(evaluation.codes)) if weight is None else weight[evaluation.rows]
    assert evaluation.population == "given"
    assert evaluation.weighted == weighted
    assert evaluation.weight is not None
    for k, share in enumerate(SHARES.values()):
        of_class = evaluation.codes == k
        assert evaluation.weight[of_class].sum() / evaluation.weight.sum() == pytest.approx(share)
        np.testing.assert_allclose(
            evaluation.weight[of_class] / own[of_class], evaluation.weight[of_class][0] / own[of_class][0]
        )


def test_rows_of_equal_weight_stay_so_where_the_labels_have_the_shares() -> None:
    X, y, _ = quota()
    evaluation = measured(TSVM(priors={"few": 0.5, "many": 0.5}), X, y)
    assert evaluation.weight is None
    assert evaluation.population == "labels"
    assert to_population(np.array([0, 0, 2]), None, np.array([0.5, 0.3, 0.2])) == pytest.approx([0.75, 0.75, 0.6])


def test_report_expects_the_accuracy_of_the_population() -> None:
    X, y, truth = quota(3000, 100)
    model = TSVM(priors=SHARES).fit(X, y)
    summary = summarize(model, X, y, explained=False)
    methods = {line["key"]: line for line in summary["accuracy"]["methods"]}
    unlabeled = y == None  # noqa: E711
    real = accuracy_score(truth[unlabeled], model.predict(X[unlabeled]))
    low, high = methods["model"]["accuracy"]["interval"]
    assert low < real < high
    assert abs(methods["model"]["accuracy"]["value"] - real) < 0.03
    assert abs(np.trace(summary["confusion"]) / 200 - real) > 0.06  # what rows that count alike would say
    assert methods["majority"]["accuracy"]["value"] == pytest.approx(0.9)  # the most frequent class of the population
    assert methods["random-forest"]["accuracy"]["value"] > 0.85  # knows the shares as well
    assert summary["shares"]["caution"] is None
    assert "of the unlabelled rows, if the given shares hold, the right class" in " ".join(summary["verdict"])
    page = render(summary)
    assert "Rows are weighted so that the classes have the given shares" in page
    assert "Rows count by their weights" not in page


def test_calibrated_probabilities_are_tempered_before_they_are_brought_to_the_shares() -> None:
    X, y, _ = quota()
    for name, other in (("few", "many"), ("many", "few")):  # wrong labels, which a network learns by heart
        y[np.flatnonzero(quota()[1] == name)[:8]] = other
    sure = {"initial_epochs": 100, "learning_rate": 0.02, "dropout": 0.0, "noise": 0.0, "smoothing": 0.0}
    raw, tempered = (
        measured(DeepSep(rounds=0, priors={"few": 0.3, "many": 0.7}, calibrate=calibrate, **FAST | sure), X, y)
        for calibrate in (False, True)
    )
    assert raw.weight is not None
    fold = np.repeat(np.arange(3), len(raw.codes) // 3)
    for k in range(3):
        at = fold == k
        T = fit_temperature(raw.p["model"][~at], raw.codes[~at], raw.weight[~at])
        assert T > 1.2
        # Log-odds before the shift, over T, plus another shift: a straight line of slope 1 / T.
        before, after = (np.log(p[at, 0] / p[at, 1]) for p in (raw.p["model"], tempered.p["model"]))
        slope, offset = np.polyfit(before, after, 1)
        np.testing.assert_allclose(after, slope * before + offset, atol=1e-4)
        assert slope == pytest.approx(1 / T, rel=1e-3)
        assert abs(offset) > 0.01  # tempered after the shift, there would be none


def test_comparison_beside_a_report_with_shares_says_what_differs() -> None:
    score = {"name": "deepsep", "accuracy": {"value": 0.8, "interval": [0.7, 0.9]}}
    priors = {"priors": "{'a': 0.5, 'b': 0.5}"}
    text = {}
    for there in (False, True):
        for here in (False, True):
            entry = {**score, "settings": {"calibrate": True, **(priors if there else {})}}
            populations = ["given" if shares else "labels" for shares in (there, here)]
            compared = {"methods": [entry], "weighted": False, "population": populations[0]}
            accuracy = {"methods": [score], "effective": 30.0, "weighted": False, "population": populations[1]}
            asked = {"method": "deepsep", "settings": {"calibrate": True, **(priors if here else {})}}
            text[there, here] = " ".join(related_to_report(compared, {"asked": asked, "accuracy": accuracy})["beside"])
    ways = "weighted to the given shares of the classes in this report, and not weighted in the comparison."
    assert ways in text[False, True]
    assert "deepsep with the default, this report with priors = {'a': 0.5, 'b': 0.5}." in text[False, True]
    ways = "not weighted in this report, and weighted to the given shares of the classes in the comparison."
    assert ways in text[True, False]
    assert text[False, False] == text[True, True]
    assert not any("calibrate" in each or "once each" in each for each in text.values())


@pytest.mark.parametrize(
    ("weight", "what"),
    [([1.0, 2.0], "expected"), (np.r_[np.ones(99), -1], "[Nn]egative"), (np.r_[np.ones(99), np.nan], "NaN")],
    ids=["length", "negative", "NaN"],
)
def test_weights_that_are_none_are_refused(weight: Any, what: str) -> None:
    X, y, _ = quota(100, 10)
    for ask in (lambda: read_weights(weight, read_labels(y)), lambda: summarize(TSVM(), X, y, sample_weight=weight)):
        with pytest.raises(ParameterError, match=rf"sample_weight: .*{what}.* each of the 100 rows"):
            ask()


# -- what columns become -----------------------------------------------------------------------------------------


def gaps(n: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "missingindicator_b"])
    y = np.where(table["b"] > 0, "x", "y").astype(object)
    table.loc[::7, "b"] = np.nan
    y[60:] = None
    return table, y


def test_steps_that_keep_names_and_mix_columns_are_not_looked_into() -> None:
    from sklearn.impute import KNNImputer
    from sklearn.preprocessing import FunctionTransformer, Normalizer
    from skrub import TableVectorizer

    table, y = gaps()
    for steps in (
        [FunctionTransformer(np.nan_to_num)],
        [KNNImputer()],
        [FunctionTransformer(np.nan_to_num, feature_names_out="one-to-one"), Normalizer()],
    ):
        model = make_pipeline(TableVectorizer(), *steps, TSVM()).fit(table, y)
        assert source_columns(model[:-1], list(table.columns)) is None
        evaluation = measured(model, table, y, repeats=1, folds=2)
        assert evaluation.permuted is not None
        assert evaluation.permuted.loss.mean(axis=1).argmax() == 1
    mixed = for_table(TSVM())
    mixed.steps.insert(-1, ("normalizer", Normalizer()))
    assert source_columns(mixed.fit(table, y)[:-1], list(table.columns)) is None


def test_a_column_that_is_named_like_an_indicator_is_none() -> None:
    table, y = gaps()
    model = for_table(TSVM()).fit(table, y)
    groups = source_columns(model[:-1], list(table.columns))
    assert groups == [[0], [1, 3], [2]]
    codes = read_labels(np.where(table["a"] > 0, "x", "y")).codes
    slow = permute(model.predict_proba, table, codes, 2, np.random.default_rng(0))
    encoded = model[:-1].transform(table)
    fast = permute(model[-1].predict_proba, encoded, codes, 2, np.random.default_rng(0), groups)
    np.testing.assert_allclose(fast.loss, slow.loss, atol=1e-5)  # the columns are of single precision

"""What more labels would buy: the power law, its band, and the forests behind it."""

import numpy as np
import pytest

from deepsep import Committee, load, method, save
from deepsep.core.labels import as_labels
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import LabelWarning, ModelFileError
from deepsep.evaluation.expected_accuracy import ExpectedAccuracy
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.learning_curve import LearningCurve, Subsets, fit_subsets, learning_curve
from deepsep.report.outcome import more_labels

SIZES = np.array([40.0, 60.0, 80.0, 100.0])
TODAY = ExpectedAccuracy(0.8, 0.0)


def law(n, floor, exponent, today=120):
    return floor + (1 - floor) * (n / today) ** -exponent


def curve(error, spread=1e-5, today=TODAY):
    return LearningCurve(120, today, SIZES, np.asarray(error), spread**2 * np.eye(len(SIZES)))


def two_groups(n=200, labeled=20, gap=1.5):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (n, 2)), rng.normal(gap, 1, (n, 2))])
    y = np.full(2 * n, None)
    y[:labeled], y[-labeled:] = "near", "far"
    return X, y


def rows_of(X, labels):
    return TrainingRows(X, labels.codes, np.ones(len(X)), labels.classes)


@pytest.mark.parametrize("floor", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("exponent", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("scale", [0.1, 0.4])  # of the stand-in; the model's own mistakes are 0.2
def test_a_noiseless_power_law_is_carried_on(floor, exponent, scale):
    gain = curve(scale * law(SIZES, floor, exponent)).gain(50).value
    assert gain == pytest.approx(0.2 * (1 - law(170, floor, exponent)), rel=0.05)


@pytest.mark.parametrize("spread", [0.002, 0.02, 0.2])
def test_the_gain_is_a_mean_over_all_laws(spread):
    """A twin: other grids, and the forest's mistakes today by trying them all."""
    error = 0.3 * law(SIZES, 0.2, 0.6) + np.array([0.01, -0.01, 0.0, 0.01])
    log_c = np.linspace(np.log(0.02), np.log(3), 121)
    f, scale = np.linspace(0, 1, 81)[1:-1], np.linspace(0.001, 1, 1000)
    a, b = 1.0, 0.8
    log_prior = -(((log_c - np.log(0.75)) / 0.3) ** 2)[:, None] / 2
    log_prior = log_prior + (a - 1) * np.log(f) + (b - 1) * np.log(1 - f)
    c = np.exp(log_c)[:, None]
    total = np.full((len(log_c), len(f)), -np.inf)
    for own in scale:
        misfit = sum((e - own * law(n, f, c)) ** 2 for n, e in zip(SIZES, error, strict=True))
        total = np.maximum(total, -misfit / 2 / spread**2)
    weight = np.exp(log_prior + total - (log_prior + total).max())
    expected = 0.2 * (weight * (1 - law(170, f, c))).sum() / weight.sum()
    assert curve(error, spread).gain(50).value == pytest.approx(expected, rel=0.02)


def test_more_labels_never_promise_less_and_bring_ever_less():
    own = curve(0.3 * law(SIZES, 0.2, 0.5), 0.03)
    gains = np.array([own.gain(more).value for more in range(0, 2000, 50)])
    assert gains[0] == 0
    steps = np.diff(gains)
    assert (steps > 0).all()
    assert (np.diff(steps) < 0).all()
    assert gains[-1] < 0.2


def test_the_band_has_the_estimate_and_widens_with_the_doubt():
    own, doubtful = (curve(0.3 * law(SIZES, 0.2, 0.5), spread).gain() for spread in (0.001, 0.1))
    for gain in (own, doubtful):
        assert gain.low < gain.value < gain.high
    assert doubtful.high - doubtful.low > own.high - own.low


def test_a_flat_curve_promises_nothing():
    flat = curve([0.25] * 4, 0.0005)
    gain = flat.gain(50)
    assert 0 <= gain.value < 0.002
    assert gain.low < 0 < gain.high
    assert "would hardly help: between −" in more_labels(flat)["sentence"]
    assert curve(0.3 * law(SIZES, 0.2, 0.5), today=ExpectedAccuracy(1.0, 0.0)).gain().value == 0


def test_a_curve_that_falls_promises_less_than_one_that_rises():
    rises, falls = (curve(error, 0.01).gain().value for error in ([0.4, 0.34, 0.3, 0.28], [0.28, 0.3, 0.34, 0.4]))
    assert 0 <= falls < rises


def test_without_points_the_usual_curve_is_carried_on():
    nothing = LearningCurve(120, TODAY, np.zeros(0), np.zeros(0), np.zeros((0, 0)))
    vague = curve([0.3] * 4, 1e3)
    assert nothing.gain().value == pytest.approx(vague.gain().value, rel=1e-3)
    assert nothing.gain().value > 0


def test_the_scale_of_the_forest_does_not_matter_but_that_of_the_model_does():
    error = law(SIZES, 0.2, 0.5)
    small, large = curve(0.1 * error, 0.001), curve(0.4 * error, 0.004)
    assert small.gain().value == pytest.approx(large.gain().value)
    twice = curve(0.1 * error, 0.001, ExpectedAccuracy(0.6, 0.0))
    assert twice.gain().value == pytest.approx(2 * small.gain().value)


def test_errors_and_covariance_are_those_of_the_weighted_rows():
    rng = np.random.default_rng(0)
    right, weight = rng.random((50, 4)) < 0.7, rng.random(50)
    own = learning_curve(Subsets(SIZES, right), weight, 120, TODAY)
    np.testing.assert_allclose(own.error, 1 - np.average(right, axis=0, weights=weight))
    again = learning_curve(Subsets(SIZES, right), 7 * weight, 120, TODAY)
    np.testing.assert_allclose(again.covariance, own.covariance)
    assert (np.linalg.eigvalsh(own.covariance) > 0).all()
    twice = learning_curve(Subsets(SIZES, np.tile(right, (2, 1))), np.tile(weight, 2), 120, TODAY, repeats=2)
    np.testing.assert_allclose(twice.error, own.error)
    np.testing.assert_allclose(twice.covariance, own.covariance)


def test_forests_see_ever_more_labels_and_predict_the_rows_of_their_folds():
    X, y = two_groups(gap=6)
    labels = as_labels(y)
    folds = deal_folds(labels, n_splits=4, seed=0)
    subsets = fit_subsets(method("random-forest", n_estimators=10), rows_of(X, labels), folds)
    np.testing.assert_array_equal(subsets.labels, [12, 18, 24, 30])
    assert subsets.right.shape == (40, 4)
    assert subsets.right.mean() > 0.95
    wrong = as_labels(np.where(y == None, None, np.roll(y, 1)))  # noqa: E711
    assert not fit_subsets(method("random-forest", n_estimators=10), rows_of(X, wrong), folds).right.all()


def test_a_class_with_one_label_and_few_labels_have_a_curve():
    X, y = two_groups(labeled=4)
    y[50] = "lone"
    labels = as_labels(y)
    folds = deal_folds(labels, n_splits=3, seed=0)
    subsets = fit_subsets(method("random-forest", n_estimators=5), rows_of(X, labels), folds)
    assert len(subsets.right) == 8  # the lone one is never held out
    assert (subsets.labels >= 3).all()
    gain = learning_curve(subsets, np.ones(8), 9, ExpectedAccuracy(0.7, 0.1)).gain()
    assert np.isfinite([gain.low, gain.high]).all()
    assert gain.value > 0


def test_a_part_that_cannot_hold_all_classes_is_not_fitted():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 2)
    rows = rows_of(rng.normal(size=(20, 3)), as_labels(y))
    folds = deal_folds(rows.labels, n_splits=2, seed=0)
    subsets = fit_subsets(method("random-forest", n_estimators=5), rows, folds)
    np.testing.assert_array_equal(subsets.labels, [10])
    assert np.isfinite(learning_curve(subsets, np.ones(20), 20, TODAY).gain().interval).all()


@pytest.fixture(scope="module")
def committee():
    X, y = two_groups()
    return Committee(members=["knn"], effort="fast", learning_curve=True, student=False, n_jobs=1, random_state=0).fit(
        X, y
    )


def test_a_committee_has_a_curve_from_its_own_folds(committee):
    own = committee.learning_curve_
    assert own.n_labels == 40
    assert own.today == committee.expected_accuracy_
    assert own.labels[-1] == pytest.approx(committee.out_of_fold_.n_training.mean())


def test_the_same_seed_gives_the_same_curve_whatever_the_jobs(committee):
    again = Committee(members=["knn"], effort="fast", learning_curve=True, student=False, n_jobs=2, random_state=0).fit(
        *two_groups()
    )
    assert again.learning_curve_.gain() == committee.learning_curve_.gain()


def test_a_committee_without_the_setting_or_without_folds_has_none():
    X, y = two_groups()
    settings = {"members": ["knn"], "student": False, "n_jobs": 1, "random_state": 0}
    assert Committee(**settings).fit(X, y).learning_curve_ is None
    few = np.full(len(y), None)
    few[0], few[-1] = "near", "far"
    with pytest.warns(LabelWarning) as warned:
        assert Committee(**settings, learning_curve=True).fit(X, few).learning_curve_ is None
    assert any("too few labels" in str(warning.message) for warning in warned)


def test_a_saved_committee_promises_the_same(committee, tmp_path):
    save(committee, tmp_path / "model")
    assert load(tmp_path / "model").learning_curve_.gain(50) == committee.learning_curve_.gain(50)


@pytest.mark.parametrize(
    "change", [{"n_labels": 0}, {"labels": [0.0] * 4}, {"error": [0.1]}, {"covariance": [[np.nan] * 4] * 4}]
)
def test_a_spoiled_curve_is_refused(committee, change):
    state = committee.learning_curve_.to_state()
    assert LearningCurve.from_state(state, TODAY).to_state() == state
    with pytest.raises(ModelFileError, match="learning curve"):
        LearningCurve.from_state(state | change, TODAY)


def test_the_report_has_the_numbers_of_the_curve(committee):
    said, gain = more_labels(committee.learning_curve_), committee.learning_curve_.gain(50)
    assert (said["gain"], said["interval"]) == (gain.value, [gain.low, gain.high])
    ahead = {point["labels"]: point for point in said["ahead"]}
    assert ahead[90]["accuracy"] == pytest.approx(said["today"]["accuracy"] + gain.value)
    assert all(0 <= point["interval"][0] <= point["accuracy"] <= point["interval"][1] <= 1 for point in said["ahead"])
    assert more_labels(None) is None

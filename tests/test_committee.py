"""The committee: weights, temperature and known shares against mathematics; members that fail; saving."""

import warnings

import numpy as np
import pytest
from rows import segments
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.semi_supervised import SelfTrainingClassifier

from deepsep import TSVM, Committee, load, method
from deepsep.classifiers import Supervised
from deepsep.classifiers.committee.fits import candidates_for, list_tasks, smaller, twin_of
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.labels import read_labels
from deepsep.core.probability import temper
from deepsep.core.training_rows import Context
from deepsep.errors import DeepSepWarning, InterruptWarning, LabelError, LabelWarning, ModelFileError, ParameterError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.intervals import log_loss
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from deepsep.evaluation.pooling import Mixture, fit_mixture, mix_unseen, mixtures_without_folds
from deepsep.report.provenance import rows_in_model

CHEAP = ["logistic-regression", "tsvm"]


def confident(codes, share_right, rng, sure=0.9, c=3):
    """Probabilities that name the class of this share of the rows, and are as sure of themselves."""
    said = np.where(rng.random(len(codes)) < share_right, codes, rng.integers(c, size=len(codes)))
    return np.where(np.arange(c) == said[:, None], sure, (1 - sure) / (c - 1))


def partly(n=160, labels=40):
    return segments(n, labels)


def committee(members=CHEAP, **settings):
    return Committee(members=members, effort="fast", n_jobs=1, random_state=0, **settings)


# -- the mixture ---------------------------------------------------------------------------------------------


def test_models_that_say_the_same_get_equal_weights():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=50)
    p = confident(codes, 0.7, rng)
    np.testing.assert_allclose(fit_mixture(np.stack([p, p, p]), codes, np.ones(50)).weights, 1 / 3, atol=1e-6)


def test_evidence_grows_with_the_rows():
    rng = np.random.default_rng(1)
    good = []
    for n in (5, 50, 2000):
        codes = rng.integers(3, size=n)
        p = np.stack([confident(codes, 0.95, rng), confident(codes, 0.0, rng)])
        good.append(fit_mixture(p, codes, np.ones(n)).weights[0])
    assert 0.5 < good[0] < good[1] < good[2]
    assert good[2] > 0.9


def test_exponents_have_the_lowest_penalised_loss():
    rng = np.random.default_rng(2)
    codes, weight, usual = rng.integers(3, size=80), rng.uniform(0.5, 2, 80), np.array([0.5, 0.3, 0.3])
    p = np.stack([confident(codes, share, rng) for share in (0.8, 0.6, 0.4)])

    def loss(v):
        mix = np.prod([(0.995 * each + 0.005 / 3) ** power for each, power in zip(p, v, strict=True)], axis=0)
        own = (mix / mix.sum(axis=1, keepdims=True))[np.arange(80), codes]
        return -(weight @ np.log(own)) + 4 * ((v - usual) ** 2).sum()

    best = fit_mixture(p, codes, weight, usual=usual, penalty=4)
    v = best.weights / best.temperature
    for other in rng.normal(0, 0.02, (200, 3)):
        assert loss(v) <= loss(np.maximum(v + other, 0)) + 1e-6


@pytest.mark.parametrize("true", [0.6, 1.0, 1.8])
def test_the_temperature_that_made_the_rows_is_found(true):
    rng = np.random.default_rng(3)
    p = softmax(rng.normal(0, 1.5, (40_000, 4)), axis=1)
    codes = (rng.random(40_000)[:, None] > temper(p, true).cumsum(axis=1)).sum(axis=1)
    assert fit_mixture(p[None], codes, np.ones(len(p))).temperature == pytest.approx(true, rel=0.03)


def test_a_few_rows_hardly_move_the_mixture():
    p = np.stack([np.full((3, 2), [0.7, 0.3]), np.full((3, 2), [0.4, 0.6])])
    usual = np.array([0.6, 0.4])
    few = fit_mixture(p, np.zeros(3, int), np.ones(3), usual=usual)
    np.testing.assert_allclose(few.weights, usual, atol=0.05)
    assert few.temperature == pytest.approx(1, abs=0.05)
    none = fit_mixture(p[:, :0], np.zeros(0, int), np.ones(0), usual=usual)
    np.testing.assert_allclose(none.weights, usual)


def test_no_model_can_rule_out_a_class_alone():
    sure = np.array([[1.0, 0.0]])
    mixed = Mixture(np.array([0.5, 0.5]))(np.stack([sure, sure[:, ::-1]]))
    np.testing.assert_allclose(mixed, 0.5)


def test_models_that_all_mislead_leave_no_certainty():
    codes = np.zeros(4000, int)
    wrong = np.full((4000, 2), [0.01, 0.99])
    mixture = fit_mixture(np.stack([wrong, wrong]), codes, np.ones(4000))
    assert mixture.temperature == pytest.approx(100)
    np.testing.assert_allclose(mixture.weights, 0.5)


def test_a_label_has_no_part_in_the_mixture_of_its_own_row():
    rng = np.random.default_rng(4)
    codes, rows = rng.integers(3, size=60), np.tile(np.arange(30), 2)
    codes[30:] = codes[:30]  # two repeats
    fold = np.concatenate([np.arange(30) % 5, 5 + rng.permutation(30) % 5])
    p = np.stack([confident(codes, share, rng) for share in (0.8, 0.5)])
    changed = codes.copy()
    changed[[7, 37]] = (codes[7] + 1) % 3
    before, after = (
        mix_unseen(p, mixtures_without_folds(p, each, np.ones(60), rows, fold)) for each in (codes, changed)
    )
    alike = (before == after).all(axis=1)
    assert alike[[7, 37]].all()
    assert not alike.all()


# -- the fits ------------------------------------------------------------------------------------------------


def test_members_are_fitted_first_then_the_folds_and_the_longest_first():
    members = {"tsvm": method("tsvm"), "in-context": method("in-context"), "random-forest": method("random-forest")}
    tasks = list_tasks(members, True, n_rows=9_000, n_labeled=100, n_folds=2)
    whole, folds = tasks[:3], [[task for task in tasks if task.fold == number] for number in (0, 1)]
    assert [task.fold for task in tasks] == [None] * 3 + [0] * 5 + [1] * 5
    for part in (whole, *folds):
        assert sorted(part, key=lambda task: -task.seconds) == part
    assert {task.name for task in folds[0]} == {*members, twin_of("tsvm"), twin_of("in-context")}


def test_members_are_smaller_in_the_folds():
    members = {
        "forest": method("random-forest"),
        "small forest": method("extra-trees", n_estimators=50),
        "deepsep": method("deepsep"),
        "in-context": method("in-context", context_size=250),
        "boosting": method("lightgbm-few-labels"),
    }
    whole = candidates_for(members, twins=True)
    folds = smaller(whole)
    assert list(folds) == list(whole)
    trees = [folds[name].estimator.get_params()["estimator__n_estimators"] for name in ("forest", "small forest")]
    assert trees == [200, 50]
    assert folds["deepsep"].most_unlabeled == 750
    assert folds["in-context"].most_unlabeled == 250  # no more than its context holds
    assert folds["in-context"].estimator.n_members == folds[twin_of("in-context")].estimator.n_members == 2
    assert folds[twin_of("in-context")].labeled_only
    assert folds["boosting"] is whole["boosting"]
    assert members["in-context"].n_members == 4


def test_the_twin_of_a_member_sees_the_labeled_rows_alone():
    X, y, _ = partly()
    model = committee(["tsvm", "logistic-regression"], twins=True).fit(X, y)
    held_out = model.out_of_fold_
    assert set(held_out.p) == {*CHEAP, twin_of("tsvm"), "committee", twin_of("committee")}
    labeled = np.array([label is not None for label in y])
    for number, test in enumerate(held_out.folds.tests):
        train = np.setdiff1d(np.flatnonzero(labeled), test)
        with pytest.warns(LabelWarning, match="no unlabelled rows"):
            alone = TSVM(random_state=model.members_["tsvm"].random_state).fit(X[train], y[train])
        np.testing.assert_array_equal(
            held_out.p[twin_of("tsvm")][held_out.fold == number], alone.predict_proba(X[test])
        )
    plain = committee(["tsvm", "logistic-regression"]).fit(X, y)
    np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore:no unlabelled rows")
def test_without_unlabeled_rows_there_are_no_twins():
    X, y, _ = partly()
    model = committee(twins=True).fit(X[:40], y[:40])
    assert set(model.out_of_fold_.p) == {*CHEAP, "committee"}
    assert committee(twins=True).plan(40, read_labels(y[:40])).n_fits == 8
    supervised = committee(["knn", "logistic-regression"], twins=True).fit(X, y)
    assert set(supervised.out_of_fold_.p) == {"knn", "logistic-regression", "committee"}


def test_a_twin_that_fails_takes_no_one_with_it():
    X, y, _ = partly()
    member = Supervised(NeedsUnlabeled(LogisticRegression()))
    model = committee({"needs": member, "tsvm": "tsvm"}, twins=True).fit(X, y)
    assert set(model.out_of_fold_.p) == {"needs", "tsvm", twin_of("tsvm"), "committee"}
    assert model.failures_ == {}


def test_the_plan_names_what_will_be_fitted():
    labels = read_labels(partly(60, 30)[1])
    plan = Committee(effort="fast").plan(60, labels)
    assert list(plan.members) == ["random-forest", "extra-trees", "deepsep", "lightgbm-few-labels"]
    assert (plan.n_folds, plan.n_fits) == (3, 4 + 3 * 4)
    assert plan.left_out["in-context"] == "from effort normal on"
    assert set(plan.members) | set(plan.left_out) == {seat.name for seat in USUAL_MEMBERS}
    assert Committee(effort="fast", twins=True).plan(60, labels).n_fits == 4 + 3 * 5
    assert committee(["knn"]).plan(60, labels).members == {"knn": "the vote of the nearest labelled rows"}


class NeedsUnlabeled(SelfTrainingClassifier):
    def fit(self, X, y):
        if (np.asarray(y) != -1).all():
            raise RuntimeError("nothing to learn from")
        return super().fit(X, y)


class Interrupts(LogisticRegression):
    """Ends like Ctrl-C, at its n-th fit."""

    at, fits = 0, 0

    def fit(self, X, y, sample_weight=None):
        Interrupts.fits += 1
        if Interrupts.fits == Interrupts.at:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("at", "kept"), [(2, 0), (3, 1), (4, 2)])
def test_ctrl_c_in_the_folds_keeps_the_members_and_the_folds_that_are_complete(monkeypatch, at, kept):
    monkeypatch.setattr(Interrupts, "at", at)
    monkeypatch.setattr(Interrupts, "fits", 0)
    X, y, _ = partly()
    with pytest.warns(InterruptWarning, match=f"{kept} of 3 folds" if kept else "no fold was complete"):
        model = committee({"stops": Supervised(Interrupts()), "tsvm": "tsvm"}).fit(X, y)
    assert list(model.weights_) == ["stops", "tsvm"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    if not kept:
        assert model.out_of_fold_ is None
        assert set(model.weights_.values()) == {0.5}
        return
    held_out = model.out_of_fold_
    assert len(held_out.folds.tests) == kept
    monkeypatch.setattr(Interrupts, "at", 0)
    whole = committee({"stops": Supervised(Interrupts()), "tsvm": "tsvm"}).fit(X, y).out_of_fold_
    np.testing.assert_array_equal(held_out.p["tsvm"], whole.p["tsvm"][whole.fold < kept])


def test_ctrl_c_before_all_members_are_fitted_leaves_no_model(monkeypatch):
    monkeypatch.setattr(Interrupts, "at", 1)
    monkeypatch.setattr(Interrupts, "fits", 0)
    X, y, _ = partly()
    model = committee({"stops": Supervised(Interrupts()), "tsvm": "tsvm"})
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "transduction_")


def test_what_is_done_adds_up_to_all_there_is_to_do():
    X, y, _ = partly()
    model, heard = committee(), []
    model.fit_rows(model.training_rows(X, y), Context(on_work=lambda *done: heard.append(done)))
    assert [what for *_, what in heard] == [f"{i} of 8 fits" for i in range(1, 9)]
    assert heard[-1][0] == pytest.approx(heard[-1][1])
    assert [done for done, *_ in heard] == sorted(done for done, *_ in heard)


def test_an_in_context_network_is_not_asked_about_rows_beyond_its_context():
    X, y, _ = partly(400, 30)
    folds = deal_folds(read_labels(y), n_splits=2, seed=0)
    asked = []
    candidate = Candidate(method("tsvm"), most_unlabeled=50)
    look = lambda name, fitted, fold: asked.append((fitted.n_labeled_, fitted.n_unlabeled_))  # noqa: E731
    FoldFits({"one": candidate}, X, read_labels(y), folds, after_fit=look).fit()
    assert asked == [(15, 50), (15, 50)]


# -- the estimator -------------------------------------------------------------------------------------------


def test_it_is_the_mixture_of_its_members():
    X, y, _ = partly()
    model = committee().fit(X, y)
    assert sum(model.weights_.values()) == pytest.approx(1)
    assert list(model.weights_) == list(model.members_) == CHEAP
    mixture = Mixture(np.array([*model.weights_.values()]), model.temperature_)
    expected = mixture(np.stack([member.predict_proba(X) for member in model.members_.values()]))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_allclose(model.label_distributions_, expected, atol=1e-6)


def test_members_are_fitted_as_if_alone():
    X, y, _ = partly()
    model = committee(["logistic-regression"]).fit(X, y)
    alone = method("logistic-regression").fit(X, y)
    np.testing.assert_array_equal(model.members_["logistic-regression"].predict_proba(X), alone.predict_proba(X))
    assert model.weights_ == {"logistic-regression": 1.0}


def test_out_of_fold_covers_every_label_once():
    X, y, _ = partly()
    held_out = committee().fit(X, y).out_of_fold_
    assert sorted(held_out.rows.tolist()) == list(range(40))
    assert set(held_out.p) == {*CHEAP, "committee"}
    np.testing.assert_allclose(held_out.p["committee"].sum(axis=1), 1)


def test_a_useless_member_loses_its_say():
    X, y, truth = partly(400, 200)
    noise = {"good": method("logistic-regression"), "noise": Supervised(GaussianNB())}
    model = committee(noise).fit(np.column_stack([X, np.random.default_rng(0).normal(size=(400, 40)) ** 3]), y)
    held_out = model.out_of_fold_
    worst = max(log_loss(held_out.p[name], held_out.codes) for name in noise)
    assert log_loss(held_out.p["committee"], held_out.codes) < worst
    assert model.score(np.column_stack([X, np.zeros((400, 40))]), truth) > 0.5


class Fails(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("it rains")


def test_a_member_that_fails_is_left_out_and_named():
    X, y, _ = partly()
    with pytest.warns(DeepSepWarning, match=r"left out of the committee: umbrella \(it rains\)"):
        model = committee({"umbrella": Supervised(Fails()), "tsvm": "tsvm"}).fit(X, y)
    assert list(model.weights_) == ["tsvm"]
    assert model.failures_ == {"umbrella": "it rains"}
    with pytest.raises(LabelError, match="no member could be fitted"):
        committee({"umbrella": Supervised(Fails())}).fit(X, y)


def test_members_without_weights_are_left_out_of_weighted_rows():
    X, y, _ = partly()
    with pytest.warns(DeepSepWarning, match="label-spreading .it takes no weights."):
        model = committee(["label-spreading", "tsvm"]).fit(X, y, sample_weight=np.full(len(y), 1.5))
    assert list(model.members_) == ["tsvm"]


def test_probabilities_of_the_unlabeled_rows_have_the_known_shares():
    X, y, truth = partly(600, 60)
    names = sorted(set(truth))
    shares = dict(zip(names, np.linspace(1, 2, len(names)) / np.linspace(1, 2, len(names)).sum(), strict=True))
    model = committee(priors=shares).fit(X, y)
    mean = model.predict_proba(X[60:]).mean(axis=0)
    np.testing.assert_allclose(mean, [shares[name] for name in model.classes_], atol=1e-4)
    assert model.members_["tsvm"].priors == shares


@pytest.mark.filterwarnings("ignore:only one labelled row")
def test_one_label_a_class_means_the_usual_weights():
    X, _, truth = partly()
    y = np.full(len(X), None)
    for name in sorted(set(truth)):
        y[np.flatnonzero(truth == name)[0]] = name
    with pytest.warns(LabelWarning, match="too few labels to hold any out"):
        model = committee(["logistic-regression", "knn"]).fit(X, y)
    assert set(model.weights_.values()) == {0.5}
    assert model.out_of_fold_ is None


def test_same_seed_same_bits_whatever_the_number_of_processes():
    X, y, _ = partly()
    one = committee(["random-forest", "tsvm"]).fit(X, y)
    two = committee(["random-forest", "tsvm"]).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.out_of_fold_.p["committee"], two.out_of_fold_.p["committee"])


def test_saved_and_loaded_it_gives_the_same_bits(tmp_path):
    X, y, truth = partly()
    shares = {name: 1 / len(set(truth)) for name in set(truth)}
    members = {"svm": TSVM(C=0.3), "trees": method("random-forest", random_state=1), "line": "logistic-regression"}
    for each in (committee(), committee(members, priors=shares)):
        model = each.fit(X, y)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.weights_ == model.weights_
        assert set(again.get_params(deep=False)) == set(model.get_params(deep=False))
    assert again.members["svm"].C == 0.3
    assert again.fit(X, y).predict(X[:1]).tolist() == model.predict(X[:1]).tolist()


def test_saved_and_loaded_it_knows_its_predictions_out_of_fold(tmp_path):
    X, y, _ = partly()
    model = committee(twins=True).fit(X, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    model.save(tmp_path / "model")
    before, after = model.out_of_fold_, load(tmp_path / "model").out_of_fold_
    for name in ("rows", "fold", "codes", "classes", "weight", "n_training"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert list(after.p) == list(before.p)
    for name, p in before.p.items():
        np.testing.assert_allclose(after.p[name], p, atol=1e-6)
    for name in ("n_repeats", "seed", "notes"):
        assert getattr(after.folds, name) == getattr(before.folds, name)
    np.testing.assert_array_equal(after.folds.rows, before.folds.rows)
    assert [test.tolist() for test in after.folds.tests] == [test.tolist() for test in before.folds.tests]


def test_an_edited_folder_is_refused(tmp_path):
    X, y, _ = partly()
    model = committee().fit(X, y)
    model.weights_ = {"tsvm": 1.0}
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="weights and members do not fit together"):
        load(tmp_path / "model")


def test_rows_in_the_model_are_those_of_all_contexts():
    X, y, _ = partly()
    small = {"n_members": 1, "context_size": 60}
    members = {view: method("in-context", view=view, **small) for view in ("columns", "components")}
    for seed, member in enumerate(members.values()):
        member.set_params(random_state=seed)
    model = committee({**members, "tsvm": "tsvm"}).fit(X, y)
    contexts = [set(model.members_[view].context_.tolist()) for view in members]
    assert len(contexts[0]) < rows_in_model(model) == len(contexts[0] | contexts[1])
    assert rows_in_model(committee().fit(X, y)) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effort": "huge"}, "effort"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"members": []}, "name at least one method"),
        ({"members": ["committee"]}, "not the committee itself"),
        ({"members": ["forest"]}, "there is no method 'forest'"),
        ({"members": [3]}, "neither a method's name nor an estimator"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    X, y, _ = partly()
    with pytest.raises(ParameterError, match=message):
        Committee(**settings).fit(X, y)


def test_default_members_depend_on_labels_and_effort():
    X, y, _ = partly(60, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Committee(effort="fast", n_jobs=1, random_state=0).fit(X, y)
    assert list(model.members_) == ["random-forest", "extra-trees", "deepsep", "lightgbm-few-labels"]

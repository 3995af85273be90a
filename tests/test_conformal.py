"""Sets of classes: coverage in finite samples, brute force, and weights as copies of rows."""

from math import ceil, comb

import numpy as np
import pytest
from rows import segments

from deepsep import Committee, load
from deepsep.errors import LabelError, ParameterError
from deepsep.evaluation.conformal import check_labels, conformal_sets
from deepsep.evaluation.expected_accuracy import Evidence


def probabilities(n, seed, c=4):
    return np.random.default_rng(seed).dirichlet(np.full(c, 0.7), size=n)


def draw_codes(p, seed):
    at = np.random.default_rng(seed).random(len(p))[:, None] > p.cumsum(axis=1)
    return at.sum(axis=1).clip(max=p.shape[1] - 1)


def evidence(n=60, seed=0, c=4, weight=None, repeats=1):
    p = probabilities(n, seed, c)
    return Evidence(p, draw_codes(p, seed + 1), np.ones(n) if weight is None else weight, repeats)


def conformity(known):
    """1 if a row is right, else the probability of its own class."""
    own = known.p[np.arange(len(known.codes)), known.codes]
    return np.where(known.p.argmax(axis=1) == known.codes, 1.0, own)


def least_of_one(own, coverage):
    """The threshold of rows that are all wrong, and give their own class half of these numbers; times two."""
    p = np.column_stack([own, 2 - np.asarray(own)]) / 2
    return 2 * conformal_sets(Evidence(p, np.zeros(len(own), int), np.ones(len(own)), 1), coverage).least[0]


@pytest.mark.parametrize("n", [9, 10, 19, 40])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_every_row_left_out_in_turn_gives_the_exact_coverage(n, coverage):
    own = np.random.default_rng(n).permutation(np.linspace(0.01, 0.99, n + 1))  # exchangeable, no ties
    covered = [own[i] >= least_of_one(np.delete(own, i), coverage) for i in range(n + 1)]
    assert sum(covered) == ceil(coverage * (n + 1) - 1e-9)


def test_the_coverage_given_the_held_out_rows_has_its_known_distribution():
    # The threshold is the k-th largest of n uniform numbers, so coverage is Beta(k, n + 1 - k).
    n, coverage, rng = 19, 0.8, np.random.default_rng(3)
    k = ceil(coverage * (n + 1))
    given = np.array([1 - least_of_one(rng.random(n), coverage) for _ in range(4000)])
    assert given.mean() == pytest.approx(k / (n + 1), abs=0.006)
    above = sum(comb(n, j) * 0.8**j * 0.2 ** (n - j) for j in range(k))  # P(Beta(k, n + 1 - k) > 0.8)
    assert (given > 0.8).mean() == pytest.approx(above, abs=0.03)


@pytest.mark.parametrize("per_class", [False, True])
def test_it_equals_brute_force_over_all_thresholds(per_class):
    rng = np.random.default_rng(5)
    known = evidence(120, 6, 3, rng.integers(1, 6, 120).astype(float))
    _, codes, weight, *_ = known
    least = conformal_sets(known, 0.8, per_class=per_class).least
    for k in range(3):
        new = weight[codes == k].mean()
        at = codes == k if per_class else np.ones(120, bool)
        own = conformity(known)
        fine = [t for t in own[at] if weight[at & (own >= t)].sum() >= 0.8 * (weight[at].sum() + new) - 1e-9]
        assert least[k] == max(fine, default=0.0)


@pytest.mark.parametrize("per_class", [False, True])
def test_a_weight_counts_as_copies_of_the_row(per_class):
    p = probabilities(100, 7)
    codes, copies = draw_codes(p, 8), np.random.default_rng(9).integers(1, 4, 100)
    at = np.repeat(np.arange(100), copies)
    known = Evidence(p, codes, copies.astype(float), 1)
    one = conformal_sets(known, 0.85, per_class=per_class)
    # The new row is alone: its weight is that of a mean row of its class, as a multiple of a copy.
    each = np.array([copies[codes == k].mean() for k in range(4)])
    own = conformity(known)[at]
    for k in range(4):
        mine = -np.sort(-(own[codes[at] == k] if per_class else own))
        assert one.least[k] == mine[ceil(0.85 * (len(mine) + each[k]) - 1e-9) - 1]


def test_repeats_and_the_scale_of_weights_change_nothing():
    known = evidence(160, 10)
    tiled = Evidence(np.tile(known.p, (3, 1)), np.tile(known.codes, 3), np.tile(known.weight, 3) / 3, 3)
    scaled = known._replace(weight=known.weight * 17.0)
    for per_class in (False, True):
        least = conformal_sets(known, 0.8, per_class=per_class).least
        for other in (tiled, scaled):
            np.testing.assert_array_equal(conformal_sets(other, 0.8, per_class=per_class).least, least)


def test_more_coverage_never_takes_a_class_away():
    known, p = evidence(200, 11), probabilities(500, 12)
    before = np.zeros((500, 4), bool)
    for coverage in (0.1, 0.5, 0.8, 0.9, 0.95, 0.99):
        sets = conformal_sets(known, coverage)(p)
        assert (sets >= before).all()
        before = sets
    assert not before.all()


def test_the_likeliest_class_is_always_in_the_set():
    p = probabilities(500, 13)
    sets = conformal_sets(evidence(200, 14), 0.05)(p)
    assert sets[np.arange(500), p.argmax(axis=1)].all()
    assert (sets.sum(axis=1) == 1).all()  # it is right more often than asked for, so that nothing else is needed


def test_weights_bring_the_coverage_to_a_population_with_other_shares():
    rng, shares = np.random.default_rng(15), np.array([0.9, 0.1])

    def rows(codes):  # the frequent class is hard to tell
        own = np.where(codes == 0, rng.uniform(0.1, 0.6, len(codes)), rng.uniform(0.3, 1, len(codes)))
        return np.where(np.arange(2) == codes[:, None], own[:, None], 1 - own[:, None])

    quota = np.repeat([0, 1], 1000)
    held_out, new = rows(quota), np.repeat([0, 1], [9000, 1000])
    p = rows(new)
    covered = {}
    for name, weight in (("plain", np.ones(2000)), ("population", shares[quota] * 2)):
        sets = conformal_sets(Evidence(held_out, quota, weight, 1), 0.9)(p)
        covered[name] = sets[np.arange(len(new)), new].mean()
    assert covered["population"] == pytest.approx(0.9, abs=0.02)
    assert covered["plain"] < 0.85


def test_too_few_labels_are_refused_with_the_number_needed():
    check_labels(np.array([15, 15]), 0.9, per_class=True)
    with pytest.raises(LabelError, match=r"at least 15 labels of each class, and 'gold' has 14"):
        check_labels(np.array([20, 14]), 0.9, per_class=True, classes=np.array(["blue", "gold"]))
    with pytest.raises(LabelError, match="at least 99 labels of each class"):
        check_labels(np.array([50, 50]), 0.99, per_class=True)
    check_labels(np.array([5, 4]), 0.9, per_class=False)
    with pytest.raises(LabelError, match="at least 9 labels, and there are 8"):
        check_labels(np.array([4, 4]), 0.9, per_class=False)


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 90, True, "0.9", None, float("nan")])
def test_a_coverage_is_between_0_and_1(coverage):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        conformal_sets(evidence(), coverage)


# -- of a committee ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = segments(160, 60)
    members = ["logistic-regression", "tsvm"]
    return Committee(members=members, effort="fast", n_jobs=1, random_state=0, student=False).fit(X, y), X


def test_a_committee_makes_sets_of_what_it_knows_out_of_fold(fitted, tmp_path):
    model, X = fitted
    sets = model.predict_set(X, coverage=0.8)
    np.testing.assert_array_equal(sets, conformal_sets(model.evidence_, 0.8)(model.predict_proba(X)))
    assert sets.dtype == bool
    assert sets.shape == (160, len(model.classes_))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_set(X, coverage=0.8), sets)


def test_a_committee_weights_its_evidence_by_the_shares_it_was_given():
    X, y, _ = segments(160, 60)
    classes = np.unique([label for label in y if label is not None])
    priors = dict(zip(classes, np.arange(1, len(classes) + 1) / sum(range(1, len(classes) + 1)), strict=True))
    members = ["logistic-regression", "tsvm"]
    model = Committee(members=members, effort="fast", n_jobs=1, random_state=0, student=False, priors=priors).fit(X, y)
    _, codes, weight, *_ = model.evidence_
    np.testing.assert_allclose(np.bincount(codes, weight) / weight.sum(), list(priors.values()))


def test_without_predictions_out_of_fold_there_are_no_sets(fitted):
    model, X = fitted
    kept, model.out_of_fold_ = model.out_of_fold_, None
    try:
        with pytest.raises(LabelError, match="no predictions out of fold"):
            model.predict_set(X)
    finally:
        model.out_of_fold_ = kept

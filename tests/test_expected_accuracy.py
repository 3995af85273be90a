"""The accuracy to expect on unlabelled rows: its ends, and what it rests on."""

import numpy as np
import pytest

from deepsep.evaluation.expected_accuracy import (
    GAP_SHRINKAGE,
    Evidence,
    UnseenClasses,
    expected_accuracy,
    jackknife_error,
    unseen_classes,
)


def probabilities(n, rng, c=4):
    return rng.dirichlet(np.full(c, 0.5), size=n)


def draw_codes(p, rng):
    return (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)


def expect(p, held_out, codes, weight=None, **how):
    weight = np.ones(len(codes)) if weight is None else weight
    evidence = Evidence(held_out, codes, weight, how.pop("repeats", 1), how.pop("unseen", UnseenClasses()))
    return expected_accuracy(p, np.ones(len(p)), evidence, **how)


def test_honest_probabilities_say_their_own_accuracy():
    rng = np.random.default_rng(0)
    p, held_out = probabilities(5000, rng), probabilities(20_000, rng)
    result = expect(p, held_out, draw_codes(held_out, rng))
    assert result.value == pytest.approx(p.max(axis=1).mean(), abs=0.01)
    assert result.low < result.value < result.high


def test_many_rows_held_out_correct_boastful_probabilities():
    rng = np.random.default_rng(1)
    p, held_out = np.full((1000, 2), [0.95, 0.05]), np.full((50_000, 2), [0.95, 0.05])
    codes = (rng.random(50_000) > 0.7).astype(int)
    assert expect(p, held_out, codes).value == pytest.approx(0.95 + GAP_SHRINKAGE * ((codes == 0).mean() - 0.95))


def test_the_interval_shrinks_with_the_root_of_the_rows_and_not_with_repeats():
    rng = np.random.default_rng(2)
    p, held_out = probabilities(500, rng), probabilities(200, rng)
    codes = draw_codes(held_out, rng)
    once = expect(p, held_out, codes)
    four = expect(p, np.tile(held_out, (4, 1)), np.tile(codes, 4))
    repeated = expect(p, np.tile(held_out, (4, 1)), np.tile(codes, 4), repeats=4)
    assert four.value == pytest.approx(once.value)
    chance = once.value * (1 - once.value) / 500  # in the rows that it is about
    assert four.error**2 - chance == pytest.approx((once.error**2 - chance) / 4, rel=0.03)
    assert repeated == pytest.approx(once)


def test_a_weight_counts_as_rows():
    rng = np.random.default_rng(3)
    p, held_out = probabilities(500, rng), probabilities(60, rng)
    codes, weight = draw_codes(held_out, rng), np.repeat([1.0, 3.0], 30)
    index = np.repeat(np.arange(60), weight.astype(int))
    assert expect(p, held_out, codes, weight).value == pytest.approx(expect(p, held_out[index], codes[index]).value)


def test_ten_rows_that_are_all_right_do_not_prove_that_all_others_are():
    sure = np.full((10, 2), [1.0, 0.0])
    result = expect(sure, sure, np.zeros(10, int))
    assert result.value == result.high == 1
    assert result.low < 0.93


def test_an_error_of_the_confidence_adds_to_the_variance():
    rng = np.random.default_rng(5)
    p, held_out = probabilities(500, rng), probabilities(80, rng)
    codes = draw_codes(held_out, rng)
    without, with_it = (expect(p, held_out, codes, confidence_error=error) for error in (0.0, 0.03))
    assert with_it.value == without.value
    assert with_it.error**2 - without.error**2 == pytest.approx((1 - GAP_SHRINKAGE) ** 2 * 0.03**2)


def test_the_jackknife_of_a_mean_is_its_standard_error_however_often_it_is_dealt():
    x = np.random.default_rng(6).normal(size=40)
    once = [np.delete(x, i).mean() for i in range(40)]
    assert jackknife_error(once) == pytest.approx(x.std(ddof=1) / np.sqrt(40))
    assert jackknife_error(once * 3, repeats=3) == pytest.approx(x.std(ddof=1) / np.sqrt(40))
    assert jackknife_error([0.7] * 5) == 0


def test_chance_decides_how_many_of_a_few_rows_are_right():
    rng = np.random.default_rng(7)
    p, held_out = np.tile([0.7, 0.3], (20, 1)), probabilities(300, rng)
    codes = draw_codes(held_out, rng)
    few, many = expect(p, held_out, codes), expect(np.tile(p, (1000, 1)), held_out, codes)
    assert few.value == pytest.approx(many.value)
    chance = few.value * (1 - few.value)
    assert few.error**2 - many.error**2 == pytest.approx(chance / 20 - chance / 20_000)


def test_rows_of_unequal_weight_count_as_fewer():
    rng = np.random.default_rng(8)
    p, held_out, weight = np.tile([0.7, 0.3], (50, 1)), probabilities(300, rng), rng.uniform(0, 5, 50)
    evidence = Evidence(held_out, draw_codes(held_out, rng), np.ones(300), 1)
    weighted, plain = expected_accuracy(p, weight, evidence), expected_accuracy(p, np.ones(50), evidence)
    n = weight.sum() ** 2 / (weight**2).sum()
    chance = plain.value * (1 - plain.value)
    assert weighted.error**2 - plain.error**2 == pytest.approx(chance * (1 / n - 1 / 50))


def test_classes_without_a_label_are_as_frequent_as_good_and_turing_say():
    """In the mean over samples, classes seen once are as frequent as the classes that are not seen."""
    rng = np.random.default_rng(9)
    shares = rng.dirichlet(np.full(30, 0.5))
    counts = rng.multinomial(40, shares, size=4000)
    missed = (shares * (counts == 0)).sum(axis=1)
    found = [unseen_classes(each) for each in counts]
    assert np.mean([each.share for each in found]) == pytest.approx(missed.mean(), rel=0.05)
    within = [abs(each.share - miss) < 1.645 * each.error for each, miss in zip(found, missed, strict=True)]
    assert np.mean(within) > 0.85


def test_rows_of_classes_without_a_label_are_wrong():
    rng = np.random.default_rng(10)
    p, held_out = probabilities(300, rng), probabilities(300, rng)
    codes = draw_codes(held_out, rng)
    all_seen, some_not = expect(p, held_out, codes), expect(p, held_out, codes, unseen=UnseenClasses(0.1, 0.05))
    assert some_not.value == pytest.approx(0.9 * all_seen.value)
    assert some_not.error > all_seen.error

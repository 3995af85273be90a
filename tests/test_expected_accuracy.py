"""The accuracy to expect on unlabelled rows: its ends, and what it rests on."""

import numpy as np
import pytest

from deepsep.evaluation.expected_accuracy import expected_accuracy, jackknife_error


def probabilities(n, rng, c=4):
    return rng.dirichlet(np.full(c, 0.5), size=n)


def draw_codes(p, rng):
    return (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)


def expect(p, held_out, codes, weight=None, **how):
    weight = np.ones(len(codes)) if weight is None else weight
    return expected_accuracy(p, np.ones(len(p)), held_out, codes, weight, **how)


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
    assert expect(p, held_out, codes).value == pytest.approx(0.95 + ((codes == 0).mean() - 0.95) / 2, abs=1e-9)


def test_the_interval_shrinks_with_the_root_of_the_rows_and_not_with_repeats():
    rng = np.random.default_rng(2)
    p, held_out = probabilities(500, rng), probabilities(200, rng)
    codes = draw_codes(held_out, rng)
    once = expect(p, held_out, codes)
    four = expect(p, np.tile(held_out, (4, 1)), np.tile(codes, 4))
    repeated = expect(p, np.tile(held_out, (4, 1)), np.tile(codes, 4), repeats=4)
    assert four.value == pytest.approx(once.value)
    assert four.high - four.low == pytest.approx((once.high - once.low) / 2)
    assert repeated == pytest.approx(once)


def test_a_weight_counts_as_rows():
    rng = np.random.default_rng(3)
    p, held_out = probabilities(500, rng), probabilities(60, rng)
    codes, weight = draw_codes(held_out, rng), np.repeat([1.0, 3.0], 30)
    index = np.repeat(np.arange(60), weight.astype(int))
    assert expect(p, held_out, codes, weight).value == pytest.approx(expect(p, held_out[index], codes[index]).value)


def test_ten_rows_that_are_all_right_prove_little():
    sure = np.full((10, 2), [1.0, 0.0])
    result = expect(sure, sure, np.zeros(10, int))
    assert result.value == result.high == 1
    assert result.interval(0.99)[0] < result.low
    assert result.low < 0.9


def test_an_error_of_the_confidence_adds_to_the_variance():
    rng = np.random.default_rng(5)
    p, held_out = probabilities(500, rng), probabilities(80, rng)
    codes = draw_codes(held_out, rng)
    without, with_it = (expect(p, held_out, codes, confidence_error=error) for error in (0.0, 0.03))
    assert with_it.value == without.value
    assert with_it.error**2 - without.error**2 == pytest.approx(0.03**2)


def test_the_jackknife_of_a_mean_is_its_standard_error_however_often_it_is_dealt():
    x = np.random.default_rng(6).normal(size=40)
    once = [np.delete(x, i).mean() for i in range(40)]
    assert jackknife_error(once) == pytest.approx(x.std(ddof=1) / np.sqrt(40))
    assert jackknife_error(once * 3, repeats=3) == pytest.approx(x.std(ddof=1) / np.sqrt(40))
    assert jackknife_error([0.7] * 5) == 0

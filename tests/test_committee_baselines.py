"""`benchmarks/committee.py baselines`: what stands beside the committee's figures, here of made-up predictions."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import fsolve

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="the benchmarks are not part of the distribution"
)


def test_guessing_and_a_forest_that_knows_the_shares(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import committee

    rng = np.random.default_rng(0)
    truth = (rng.random(500) < 0.2).astype(np.int16)
    score = rng.normal(size=500) + 1.5 * truth  # with classes of one size, p says what the score does
    p = np.stack([1 / (1 + np.exp(score - 0.75)), 1 / (1 + np.exp(0.75 - score))], axis=1)
    place = tmp_path / "kept" / "quota-5" / "random-forest" / "made-35-0.npz"
    place.parent.mkdir(parents=True)
    np.savez(place, truth=truth, classes=np.arange(2), all=p)
    np.savez(place.with_name("made-35-100.npz"), truth=truth, classes=np.arange(2), all=p)  # a draw for choosing
    monkeypatch.setattr(committee, "PLACE", tmp_path / "kept")
    monkeypatch.setattr(committee, "BASELINES", tmp_path / "baselines.csv")
    committee.main(["baselines"])

    with (tmp_path / "baselines.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["seed"], line["variant"]) for line in lines] == [
        ("0", "most frequent class"),
        ("0", "random-forest, known shares"),
    ]
    guess, forest = lines
    assert float(guess["accuracy"]) == pytest.approx((truth == 0).mean(), abs=1e-5)
    assert guess["ece"] == guess["log_loss"] == ""
    odds = p[:, 1] / p[:, 0]  # the same by solving for the one factor of the odds that gives the true share
    (factor,) = fsolve(lambda a: (np.exp(a) * odds / (1 + np.exp(a) * odds)).mean() - truth.mean(), -1.0)
    right = (np.exp(factor) * odds > 1) == truth
    assert float(forest["accuracy"]) == pytest.approx(right.mean(), abs=2e-3)
    assert float(forest["accuracy"]) > ((odds > 1) == truth).mean()

"""A messy table, straight into an estimator and back from disk."""

import numpy as np
import pandas as pd
import pytest

from deepsep import TSVM, DeepSep, for_table, load, save


def customers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(old, rng.normal(60, 8, n), rng.normal(30, 8, n)),
            "plan": np.where(rng.random(n) < np.where(old, 0.8, 0.2), "pro", "free"),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "news": rng.random(n) < 0.5,
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    segment = np.where(old, "settled", "starter").astype(object)
    return frame, segment, np.where(np.arange(n) < 40, segment, None)


@pytest.mark.parametrize(
    "estimator", [TSVM(), DeepSep(rounds=1, initial_epochs=30, random_state=0)], ids=["TSVM", "DeepSep"]
)
def test_a_messy_table_round_trips(estimator, tmp_path):
    frame, segment, y = customers()
    model = for_table(estimator).fit(frame, y)
    assert (model.predict(frame) == segment).mean() > 0.85
    assert model.classes_.tolist() == ["settled", "starter"]
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    unseen = frame.assign(plan="enterprise")
    assert np.isfinite(again.predict_proba(unseen)).all()

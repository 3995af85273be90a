"""How far DeepSep's probabilities are from the truth, raw and calibrated, where the truth is known.

    python benchmarks/calibration.py --out benchmarks/results/calibration.csv

Five made-up populations of 1,000 with 100 labels each, then NHANES with two draws of 100 labels. Accuracy and expected
calibration error on the rows without a label, in %.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from deepsep import DeepSep, for_table
from deepsep.datasets import load_nhanes, make_survey
from deepsep.evaluation.intervals import scores

COLUMNS = ("accuracy", "calibration error", "calibrated")


def populations():
    """Yield (name, rows, true segments, which are known)."""
    for draw in range(3, 8):
        survey = make_survey(1_000, n_segments=4, separation=0.8, random_state=draw)
        yield f"{draw}", survey.profile, pd.Series(survey.segment), np.arange(1_000) < 100
    nhanes = load_nhanes()
    truth = nhanes.segment.astype(str).reset_index(drop=True)
    for draw in range(2):
        yield f"NHANES, draw {draw}", nhanes.profile, truth, np.random.default_rng(draw).permutation(len(truth)) < 100


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, help="a CSV file for the results")
    options = parser.parse_args()
    lines = []
    for name, rows, truth, known in populations():
        raw, calibrated = (
            for_table(DeepSep(calibrate=calibrate, random_state=0)).fit(rows, truth.where(known))
            for calibrate in (False, True)
        )
        codes = np.searchsorted(raw.classes_, truth[~known].to_numpy(dtype=raw.classes_.dtype))
        before, after = (scores(model.predict_proba(rows)[~known], codes) for model in (raw, calibrated))
        values = (before["accuracy"], before["ece"], after["ece"])
        lines.append({"draw": name, **dict(zip(COLUMNS, (f"{100 * value:.1f}" for value in values), strict=True))})
        print(lines[-1], flush=True)
    if options.out:
        pd.DataFrame(lines).to_csv(options.out, index=False, lineterminator="\n")

"""How far DeepSep's probabilities are from the truth, raw and calibrated, where the truth is known.

    python benchmarks/calibration.py

Five made-up populations of 1,000 with 100 labels each, then NHANES with two draws of 100 labels. Accuracy and expected
calibration error on the rows without a label, in %.
"""

import numpy as np
import pandas as pd

from deepsep import DeepSep, for_table
from deepsep.datasets import load_nhanes, make_survey
from deepsep.evaluation.metrics import scores


def populations():
    """Yield (name, rows, true segments, which are known)."""
    for draw in range(3, 8):
        survey = make_survey(1_000, n_segments=4, separation=0.8, random_state=draw)
        yield f"{draw}", survey.profile, pd.Series(survey.segment), np.arange(1_000) < 100
    nhanes = load_nhanes()
    truth = nhanes.segment.astype(str).reset_index(drop=True)
    for draw in range(2):
        yield f"NHANES {draw}", nhanes.profile, truth, np.random.default_rng(draw).permutation(len(truth)) < 100


if __name__ == "__main__":
    print("| draw | accuracy | calibration error | calibrated |\n|---|---|---|---|")
    for name, rows, truth, known in populations():
        found = []
        for calibrate in (False, True):
            model = for_table(DeepSep(calibrate=calibrate, random_state=0)).fit(rows, truth.where(known))
            codes = np.searchsorted(model.classes_, truth[~known].to_numpy(dtype=model.classes_.dtype))
            found.append(scores(model.predict_proba(rows)[~known], codes))
        cells = [found[0]["accuracy"], found[0]["ece"], found[1]["ece"]]
        print(f"| {name} | " + " | ".join(f"{100 * value:.1f}" for value in cells) + " |", flush=True)

"""How far DeepSep's probabilities are from the truth, raw and calibrated, on populations whose truth is known.

python benchmarks/calibration.py
"""

import numpy as np
import pandas as pd

from deepsep import DeepSep, for_table
from deepsep._metrics import scores
from deepsep.datasets import make_survey

if __name__ == "__main__":
    print("| draw | accuracy | calibration error | calibrated |\n|---|---|---|---|")
    for draw in range(3, 8):
        survey = make_survey(1_000, n_segments=4, separation=0.8, random_state=draw)
        y = pd.Series(survey.segment).where(np.arange(1_000) < 100)
        cells = []
        for calibrate in (False, True):
            model = for_table(DeepSep(calibrate=calibrate, random_state=0)).fit(survey.profile, y)
            codes = np.searchsorted(model.classes_, survey.segment[100:])
            cells.append(scores(model.predict_proba(survey.profile)[100:], codes))
        accuracy, raw, tempered = cells[0]["accuracy"], cells[0]["ece"], cells[1]["ece"]
        print(f"| {draw} | {100 * accuracy:.1f} | {100 * raw:.1f} | {100 * tempered:.1f} |", flush=True)

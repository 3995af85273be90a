"""Time DeepSep beside LightGBM's defaults, in one run, on one core.

    python benchmarks/deepsep_speed.py --out benchmarks/results        # two to three minutes

Fit: the paper's largest setting, 2,500 labels, 4,780 unlabelled rows, 100 features, five classes, six rounds. LightGBM
gets the same labelled rows. Predict: 300,000 rows of 50 features. Memory: the peak of a fit over what the process held
before, in units of the training table; Linux only. Seconds are the processor's, which other programs disturb less than
the clock's.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from deepsep import DeepSep
from deepsep.classifiers.deep_separation import propensities as low_density
from deepsep.networks import NumpyNetwork


def survey(n, d, c=5, seed=0):
    """Rows of c classes that overlap: a few features tell, most are noise, some are heavy-tailed."""
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    centres = np.zeros((c, d))
    centres[:, : d // 4] = rng.normal(size=(c, d // 4)) * 0.5
    X = centres[y] + rng.normal(size=(n, d))
    X[:, ::7] = np.exp(X[:, ::7] / 2)
    return X.astype(np.float32), y


def timed(run):
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


class Stopwatch:
    """Adds up the time spent in a method or function of `owner`."""

    def __init__(self, owner, name):
        self.seconds, method = 0.0, getattr(owner, name)

        def wrapped(*args, **kwargs):
            start = time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start

        setattr(owner, name, wrapped)


def fit_table(repeats):
    from lightgbm import LGBMClassifier

    X, truth = survey(2500 + 4780, 100)
    y = np.where(np.arange(len(X)) < 2500, truth, -1)
    networks, tsvms = Stopwatch(NumpyNetwork, "train"), Stopwatch(low_density, "separate")
    bare = partial(DeepSep.as_published, pretrain=None)
    settings = {"published without autoencoder": bare, "default": DeepSep}
    turns = []
    for _ in range(repeats):
        turn = {"lightgbm": timed(lambda: LGBMClassifier(verbose=-1, n_jobs=1).fit(X[:2500], truth[:2500]))[0]}
        for name, make in settings.items():
            networks.seconds = tsvms.seconds = 0.0
            turn[name], model = timed(lambda make=make: make(random_state=0).fit(X, y))
            turn[name + " network"], turn[name + " tsvm"] = networks.seconds, tsvms.seconds
            turn[name + " accuracy"] = (model.transduction_[2500:] == truth[2500:]).mean()
        turns.append(turn)
    median = {key: float(np.median([turn[key] for turn in turns])) for key in turns[0]}
    rows = [{"settings": "LightGBM", "seconds": f"{median['lightgbm']:.2f}", "over LightGBM": "1.0"}]
    for name in settings:
        ratio = float(np.median([turn[name] / turn["lightgbm"] for turn in turns]))
        network, tsvm = median[name + " network"], median[name + " tsvm"]
        rows.append(
            {
                "settings": name,
                "seconds": f"{median[name]:.2f}",
                "over LightGBM": f"{ratio:.1f}",
                "networks": f"{network:.2f}",
                "TSVMs": f"{tsvm:.2f}",
                "share of the TSVMs": f"{tsvm / median[name]:.0%}".replace("%", " %"),
            }
        )
    return pd.DataFrame(rows)


def predict_table(repeats):
    from lightgbm import LGBMClassifier

    X, truth = survey(300_000, 50)
    y = np.where(np.arange(3000) < 500, truth[:3000], -1)
    deep = DeepSep(random_state=0).fit(X[:3000], y)
    trees = LGBMClassifier(verbose=-1, n_jobs=1).fit(X[:2500], truth[:2500])
    deep.predict_proba(X[:30_000])
    turns = [
        (timed(lambda: deep.predict_proba(X))[0], timed(lambda: trees.predict_proba(X))[0]) for _ in range(repeats)
    ]
    ours, theirs = np.median(turns, axis=0)
    ratio = np.median([b / a for a, b in turns])
    rows = [("DeepSep", 3e5 / ours, ratio), ("LightGBM", 3e5 / theirs, 1.0)]
    return pd.DataFrame(
        [{"program": name, "rows per second": f"{speed:.0f}", "times LightGBM": f"{r:.1f}"} for name, speed, r in rows]
    )


def memory_table():
    rows = []
    for n, d in ((50_000, 50), (200_000, 50), (200_000, 200)):
        code = f"""
import re, sys, warnings
from pathlib import Path
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
warnings.simplefilter("ignore")
import numpy as np
from deepsep_speed import DeepSep, survey
memory = lambda name: int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
quick = dict(rounds=1, initial_epochs=2, propensity_epochs=1, label_epochs=1, random_state=0)
X, truth = survey(2000, {d})
DeepSep(**quick).fit(X, np.where(np.arange(2000) < 500, truth, -1)).predict(X)
X, truth = np.random.default_rng(0).standard_normal(({n}, {d}), dtype=np.float32), np.arange({n}) % 5
y = np.where(np.arange({n}) < 500, truth, -1)
for run in (lambda: DeepSep(**quick).fit(X, y), lambda: model.predict_proba(X)):
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    result = run()
    model = result if isinstance(result, DeepSep) else model
    print((memory("VmHWM") - before) / X.nbytes)
"""
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        rows.append({"rows": n, "features": d, "fit": f"{float(out[0]):.2f}", "predict_proba": f"{float(out[1]):.2f}"})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a folder for the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, table in (
        ("deepsep_fit", lambda: fit_table(options.repeats)),
        ("deepsep_predict", lambda: predict_table(options.repeats)),
        ("deepsep_memory", memory_table),
    ):
        results = table()
        print(results.to_string(index=False), "\n", flush=True)
        if options.out:
            results.to_csv(options.out / f"{name}.csv", index=False, lineterminator="\n")

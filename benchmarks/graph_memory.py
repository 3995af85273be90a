"""Time and memory of label spreading and propagation on sparse graphs, beside scikit-learn's, as rows grow.

Rows of 50 features in five overlapping classes, 500 of them labelled; 15 neighbours, and alpha = 0.8 for spreading.
Each fit has a process of its own; memory is its peak above that of the imports and the rows. The processor's seconds
(of all threads) are less disturbed by other programs than the clock's.

    python benchmarks/graph_memory.py                      # 5,000 to 200,000 rows: about 20 minutes on two free cores
    python benchmarks/graph_memory.py --sizes 5000 20000   # a minute or two
    python benchmarks/graph_memory.py --sizes 5000 --programs LaplacianSVM TriTraining   # other classes of deepsep

scikit-learn's "rbf" holds all pairs of rows: it is left out where that would be more than 8 GB.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

CLASSES, FEATURES, LABELS, NEIGHBOURS, ALPHA = 5, 50, 500, 15, 0.8
PAIRS_LIMIT = 8e9  # bytes of one dense matrix of all pairs; scikit-learn holds up to three
PROGRAMS = ("LabelSpreading", "LabelPropagation", "scikit-learn knn", "scikit-learn rbf")
OTHERS = (
    *("LaplacianSVM", "ClusterKernel", "SpectralTransform", "InformationRegularization"),
    *("TriTraining", "CoTraining", "VirtualAdversarial", "NullCategoryGP", "DeepKernel"),
    *("MeanTeacher", "FeatureMatchingGAN", "ComplementGAN", "TripleGAN"),
)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, FEATURES)) * 0.25
    truth = rng.integers(CLASSES, size=n)
    X = (centres[truth] + rng.normal(size=(n, FEATURES))).astype(np.float32)
    y = truth.copy()
    y[LABELS:] = -1
    return X, y, truth


def model_of(program):
    from sklearn import semi_supervised

    from deepsep import classifiers

    if program == "LabelSpreading":
        return classifiers.LabelSpreading(alpha=ALPHA, n_neighbors=NEIGHBOURS)
    if program == "LabelPropagation":
        return classifiers.LabelPropagation(n_neighbors=NEIGHBOURS)
    if program in OTHERS:
        return getattr(classifiers, program)(random_state=0)
    if program == "scikit-learn knn":
        return semi_supervised.LabelSpreading(kernel="knn", n_neighbors=NEIGHBOURS, alpha=ALPHA)
    return semi_supervised.LabelSpreading(kernel="rbf", gamma=1 / FEATURES, alpha=ALPHA)


def measure(program, n):
    """Fit in this process; return seconds, the processor's seconds, peak memory in GB, and accuracy."""
    X, y, truth = rows(n)
    model = model_of(program)
    warnings.simplefilter("ignore")
    small = slice(0, 2 * LABELS)
    model_of(program if program in OTHERS else "LabelSpreading").fit(X[small], y[small])  # what a first fit loads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    accuracy = float((model.transduction_ == truth)[LABELS:].mean())
    finite = bool(np.isfinite(model.label_distributions_).all())
    return {"seconds": seconds, "cpu": cpu, "memory": peak, "accuracy": accuracy, "finite": finite}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 50_000, 200_000])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS + OTHERS, default=list(PROGRAMS))
    parser.add_argument("--one", nargs=2, metavar=("PROGRAM", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    print("| rows | program | seconds | processor's seconds | memory, GB | times ours | accuracy |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for n in options.sizes:
        ours = None
        for program in options.programs:
            if program == "scikit-learn rbf" and 8 * n**2 > PAIRS_LIMIT:
                print(f"| {n:,} | {program} | – | – | {8 * n**2 / 1e9:,.0f} for one matrix | – | – |", flush=True)
                continue
            run = [sys.executable, __file__, "--one", program, str(n)]
            got = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
            ours = got["memory"] if program == "LabelSpreading" else ours
            ratio = f"{got['memory'] / ours:.1f}×" if ours else ""
            accuracy = f"{got['accuracy']:.3f}" + ("" if got["finite"] else ", with NaN")
            print(
                f"| {n:,} | {program} | {got['seconds']:.1f} | {got['cpu']:.1f} | {got['memory']:.3f} | {ratio} "
                f"| {accuracy} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

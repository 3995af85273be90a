"""Classify two moons from three labels each: an SVM on the labels alone beside a TSVM that also sees the other rows.

    python examples/two_moons.py                              # prints a table and draws two_moons.png
    python examples/two_moons.py --seed 1009 --output my.png  # an unlucky draw

How typical is it? Noise, C and gamma were chosen on seeds 0 to 59. On seeds 1000 to 1099, not used for that, the
median accuracy is 81 % for the SVM and 99 % for the TSVM, and the mean 81 % and 91 %: the TSVM is better in 83 draws
and worse in 16, and it ends below 90 % in 33. Six labels can point to the wrong gap. The default seed lies at both
medians.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

from deepsep import TSVM

ROWS = 400
LABELS_PER_MOON = 3
NOISE = 0.1
FRESH_SEED = 1000  # the settings below were chosen on seeds under 60
SETTINGS = {"kernel": "rbf", "gamma": 4.0, "C": 3.0}
MODELS = {
    "SVM: labels alone": {"C_star": 0.0, "balance": False},
    "TSVM: all rows": {},
}

BLUE, ORANGE, INK, GREY = "#0072B2", "#D55E00", "#222222", "#8C8C8C"


def partly_labeled_moons(seed):
    """Return the rows, the true moons, and the labels: -1 on all but three rows of each moon."""
    X, truth = make_moons(ROWS, noise=NOISE, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.full(ROWS, -1)
    for moon in (0, 1):
        y[rng.choice(np.flatnonzero(truth == moon), LABELS_PER_MOON, replace=False)] = moon
    return X, truth, y


def fit_both(X, truth, y):
    """Return {name: (fitted model, accuracy on the unlabelled rows, seconds)}."""
    results = {}
    for name, settings in MODELS.items():
        start = time.perf_counter()
        model = TSVM(**SETTINGS, **settings).fit(X, y)
        seconds = time.perf_counter() - start
        results[name] = model, float(np.mean((model.transduction_ == truth)[y == -1])), seconds
    return results


def print_results(results):
    print(f"Two moons: {ROWS} rows, {2 * LABELS_PER_MOON} of them labelled\n")
    print(f"{'':18}{'accuracy':>9}{'path':>14}{'duality gap':>14}{'time':>9}")
    for name, (model, accuracy, seconds) in results.items():
        gap = model.duality_gap_.max()
        print(f"{name:18}{accuracy:>9.1%}{model.algorithm_:>14}{gap:>14.0e}{seconds:>7.2f} s")
    print("\nAccuracy is counted on the rows without a label.")


def print_other_draws(n):
    accuracy = {name: [] for name in MODELS}
    for seed in range(FRESH_SEED, FRESH_SEED + n):
        for name, result in fit_both(*partly_labeled_moons(seed)).items():
            accuracy[name].append(result[1])
    supervised, transductive = map(np.array, accuracy.values())
    print(
        f"Over {n} draws of moons and labels, the mean is {supervised.mean():.0%} (SVM) and {transductive.mean():.0%} "
        f"(TSVM);\nthe TSVM is better in {(transductive > supervised).sum()} and worse in "
        f"{(transductive < supervised).sum()}."
    )


def draw(path, X, y, results, names=("label: upper moon", "label: lower moon")):
    """Draw both boundaries over the same rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK})
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    across, up = np.meshgrid(np.linspace(low[0], high[0], 300), np.linspace(low[1], high[1], 300))
    grid = np.column_stack([across.ravel(), up.ravel()])

    figure, panels = plt.subplots(1, len(results), figsize=(9.2, 3.55), sharex=True, sharey=True)
    for panel, (title, (model, accuracy, *_)) in zip(panels, results.items(), strict=True):
        f = model.decision_function(grid).reshape(across.shape)
        panel.contourf(across, up, f, levels=[-np.inf, 0, np.inf], colors=[BLUE, ORANGE], alpha=0.10)
        panel.scatter(*X[y == -1].T, s=9, color=GREY, alpha=0.55, linewidths=0)
        panel.contour(across, up, f, levels=[-1, 1], colors=INK, linestyles="dashed", linewidths=0.8, alpha=0.7)
        panel.contour(across, up, f, levels=[0], colors=INK, linewidths=2)
        for moon, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "s")):
            panel.scatter(
                *X[y == moon].T, s=80, color=colour, marker=marker, edgecolors="white", linewidths=1.4, zorder=5
            )
        panel.set_title(title, loc="left", fontsize=11, fontweight="bold")
        panel.set_title(f"{accuracy:.0%} right", loc="right", fontsize=11)
        panel.set(xticks=[], yticks=[], aspect="equal")
        panel.spines[:].set_visible(False)

    mark = {"linestyle": "none", "markeredgecolor": "white"}
    handles = [
        Line2D([], [], color=BLUE, marker="o", markersize=9, label=names[0], **mark),
        Line2D([], [], color=ORANGE, marker="s", markersize=9, label=names[1], **mark),
        Line2D([], [], color=GREY, marker="o", markersize=4.5, label="unlabelled row", **mark),
        Line2D([], [], color=INK, linewidth=2, label="boundary, f = 0"),
        Line2D([], [], color=INK, linewidth=0.8, linestyle="dashed", label="margins, f = ±1"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, handlelength=1.6, columnspacing=1.8)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.92, bottom=0.1, wspace=0.04)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=Path("two_moons.png"), help="the picture (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1003, help="which moons and labels (default: %(default)s)")
    parser.add_argument("--draws", type=int, default=20, help="how many draws to average (default: %(default)s)")
    arguments = parser.parse_args()
    X, truth, y = partly_labeled_moons(arguments.seed)
    fit_both(X, truth, y)  # the first fit also loads libraries, which would count as its time
    results = fit_both(X, truth, y)
    print_results(results)
    print_other_draws(arguments.draws)
    draw(arguments.output, X, y, results)
    print(f"\nPicture: {arguments.output.resolve()}")


if __name__ == "__main__":
    main()

"""Draws what the generator makes, and how accuracy grew in training: two pictures for the documentation.

python -m pretraining.pictures docs/images
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor

from pretraining.generator.causal import causal_table
from pretraining.generator.causes import causes
from pretraining.generator.clusters import cluster_table
from pretraining.generator.columns import warp
from pretraining.generator.dice import Dice
from pretraining.generator.gaps import gaps
from pretraining.generator.label_noise import flip
from pretraining.generator.layers import random_layer
from pretraining.generator.manifolds import manifold_table
from pretraining.generator.one_hot import OneHotGroups
from pretraining.generator.quota import draw_sample
from pretraining.generator.sensors import sensor_table
from pretraining.generator.survey import answers, traits
from pretraining.generator.targets import cut, largest, nearest
from pretraining.generator.topics import topic_table
from pretraining.generator.trees import oblivious_trees

ROWS = 400
RUNS = Path(__file__).parent / "runs"


def dice(seed: int, tables: int = 1) -> Dice:
    """Return the dice for one picture."""
    return Dice(tables, torch.Generator().manual_seed(seed), random.Random(seed))


def grid() -> Tensor:
    """Return points all over a square, as one table."""
    line = torch.linspace(-2, 2, 60)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(1, -1, 2)


def scatter(ax: Any, points: Tensor, classes: Tensor | None = None, size: float = 4) -> None:
    colours = None if classes is None else classes % 10
    ax.scatter(*points[:, :2].T, c=colours, s=size, cmap="tab10", vmin=0, vmax=9, linewidths=0)


def picture(ax: Any, values: Tensor) -> None:
    ax.imshow(values.T, aspect="auto", cmap="viridis", interpolation="nearest")


def draw_causes(ax: Any) -> None:
    values, active, cluster = causes(dice(5, 24), ROWS)
    # The first of these tables that has clusters in at least two causes.
    i = int(((cluster[:, 0] >= 0) & (active.sum(1) > 1)).nonzero()[0])
    scatter(ax, values[i], cluster[i])


def draw_layers(ax: Any) -> None:
    nodes = random_layer(dice(3), grid(), 9, 0.0)[0]
    rows = [torch.cat([node.view(60, 60) for node in nodes.T[i : i + 3]]) for i in (0, 3, 6)]
    picture(ax, torch.cat(rows, 1).clamp(-2, 2))


def draw_trees(ax: Any) -> None:
    points = grid()
    picture(ax, oblivious_trees(dice(4), points, 8)[0, :, 2].view(60, 60))


def draw_targets(ax: Any) -> None:
    points, n_classes = grid(), torch.tensor([4])
    parts = [
        cut(dice(1), points[..., 0] + points[..., 1], n_classes),
        largest(dice(2), random_layer(dice(9), points, 32, 0.0), n_classes, torch.zeros(1, 1, 1)),
        nearest(dice(3), points[:, torch.randperm(3600, generator=torch.Generator().manual_seed(0))], n_classes),
    ]
    shuffled = torch.randperm(3600, generator=torch.Generator().manual_seed(0)).argsort()
    parts[2] = parts[2][:, shuffled]
    picture(ax, torch.cat([part[0].view(60, 60) for part in parts]).float())


def draw_columns(ax: Any) -> None:
    plain = dice(0).normal(ROWS, 12)
    bent = warp(dice(1), plain, torch.ones(1, 12, dtype=torch.bool))
    for j in range(6):
        ax.plot(plain[0, :, j].sort().values, bent[0, plain[0, :, j].argsort(), j] / bent[0, :, j].abs().max() + 2 * j)


def draw_answers(ax: Any) -> None:
    people = traits(dice(2), ROWS)
    order = people[0, :, 0].argsort()
    picture(ax, answers(dice(3), people, 30)[0, order])


def draw_one_hot(ax: Any) -> None:
    for seed in range(20):
        groups = OneHotGroups.draw(dice(seed), 24)
        if groups.grouped.float().mean() > 0.5 and groups.n_levels.item() > 3:
            break
    table = groups.encode(dice(1), groups.tie(dice(0).normal(60, 24)))
    picture(ax, table[0].clamp(-2, 2))


def draw_gaps(ax: Any) -> None:
    missing = gaps(dice(7, 40), dice(8, 40).normal(80, 24)).float()
    picture(ax, missing[missing.mean((1, 2)).argsort()[-3]])


def draw_label_noise(ax: Any) -> None:
    points, classes = manifold_table(dice(0, 32), ROWS, 2)
    noisy = flip(dice(13, 40), classes[8].expand(40, -1))
    often = (noisy != classes[8]).float().mean(1)
    scatter(ax, points[8], noisy[(often - 0.12).abs().argmin()])


def draw_quota(ax: Any) -> None:
    classes = dice(0, 30).below(torch.tensor(10), 600).clamp(max=2)
    sample = draw_sample(dice(1, 30), classes, torch.full((30,), 3), 300, 100)
    picked = classes.gather(1, sample.order)[:, :300]
    labeled = [(torch.where(sample.labeled, picked, 9) == k).sum(1) for k in range(3)]
    counts = torch.stack(labeled, 1)
    i = int((((counts.amax(1) - counts.amin(1)) <= 1) & (counts.sum(1) > 30)).nonzero()[0])
    for k in range(3):
        ax.bar(k - 0.2, counts[i, k] / counts[i].sum(), 0.4, color="tab:orange")
        ax.bar(k + 0.2, sample.shares[i, k], 0.4, color="tab:blue")
    ax.set_title("quotas: labels, population", fontsize=8)


def of_family(
    make: Callable[[Dice, int, int], tuple[Tensor, Tensor]], which: int, columns: int
) -> Callable[[Any], None]:
    """Return what draws one table of a family by its first two principal components."""

    def draw(ax: Any) -> None:
        tables, classes = make(dice(0, 32), ROWS, columns)
        values = tables[which] - tables[which].mean(0)
        scatter(ax, values @ torch.linalg.svd(values, full_matrices=False).Vh[:2].T, classes[which])

    return draw


PICTURES: dict[str, Callable[[Any], None]] = {
    "causes": draw_causes,
    "layers": draw_layers,
    "trees": draw_trees,
    "targets: cut, largest, nearest": draw_targets,
    "columns, bent": draw_columns,
    "causal table": of_family(causal_table, 6, 12),
    "clusters": of_family(cluster_table, 2, 8),
    "manifolds": of_family(manifold_table, 7, 2),
    "sensors": of_family(sensor_table, 3, 40),
    "survey answers": draw_answers,
    "topic-model segments": of_family(topic_table, 9, 12),
    "one-hot groups": draw_one_hot,
    "gaps": draw_gaps,
    "label noise": draw_label_noise,
    "quotas": draw_quota,
}


def mechanisms(place: Path) -> None:
    """Draw one panel for each mechanism."""
    figure, axes = plt.subplots(3, 5, figsize=(10, 6.2))
    for ax, (name, draw) in zip(axes.flat, PICTURES.items(), strict=True):
        draw(ax)
        ax.set_xticks([])
        ax.set_yticks([])
        if not ax.get_title():
            ax.set_title(name, fontsize=8)
    figure.tight_layout()
    figure.savefig(place, dpi=90)
    plt.close(figure)


def evaluations() -> list[dict[str, Any]]:
    """Return all evaluations of the runs, in the order of the tables seen."""
    lines = [line for path in RUNS.glob("*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    events = [json.loads(line) for line in lines]
    return sorted((event for event in events if event["event"] == "evaluation"), key=lambda event: event["seen"])


def tables_seen(place: Path) -> None:
    """Draw accuracy against the tables seen in training."""
    points = evaluations()
    figure, ax = plt.subplots(figsize=(6, 3.4))
    for i, labels in enumerate(points[0]["labels"]):
        accuracy = [point["both"]["accuracy"][i] for point in points]
        ax.plot([point["seen"] / 1e6 for point in points], accuracy, marker="o", label=f"{labels} labels")
    ax.set_xlabel("synthetic tables seen, millions")
    ax.set_ylabel("accuracy, %")
    ax.grid(alpha=0.3)
    ax.legend(loc="center right", fontsize=8)
    figure.tight_layout()
    figure.savefig(place, dpi=90)
    plt.close(figure)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/images"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    mechanisms(folder / "generator.png")
    tables_seen(folder / "tables-seen.png")


if __name__ == "__main__":
    main()

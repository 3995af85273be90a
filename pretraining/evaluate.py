"""Accuracy, calibration and shares of the network on real tables.

    python -m pretraining.evaluate WEIGHTS FOLDER --labels 35 125 500 --unlabelled 800 --members 2

FOLDER holds what `encode_tables` wrote. The protocol is that of the benchmarks: class-balanced labels, up to 3,000
unlabelled rows with their natural shares; here the first of these are in the context, and the first 1,500 are scored.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepsep.networks.components import MOST_COMPONENTS, principal_components
from deepsep.networks.in_context_network import UNLABELED, InContextNetwork, draw_identities, load_network

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Codes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

VIEWS = ("columns", "components")
TILES = {"cpu": 512, "cuda": 2048}


class Table(NamedTuple):
    """An encoded table."""

    name: str
    values: Array
    classes: Codes


class Score(NamedTuple):
    """What one view gave on one table; all but the log loss in percent."""

    accuracy: float
    log_loss: float
    calibration: float
    shares: float  # total variation of the head's shares
    mean_shares: float  # the same, of the mean of the probabilities


@dataclass(frozen=True)
class Protocol:
    """What is measured, and how much of it."""

    labels: Sequence[int] = (35, 125, 500)
    draws: int = 1
    unlabeled: int = 800
    members: int = 2
    most_columns: int = 72
    most_asked: int = 1500


def read_tables(folder: str | Path) -> list[Table]:
    """Read all encoded tables of a folder."""
    tables = []
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as file:
            tables.append(Table(path.stem, file["values"].astype(np.float32), file["classes"].astype(np.int64)))
    return tables


def split(classes: Codes, labels: int, seed: int) -> tuple[Codes, Codes]:
    """Return labelled and unlabelled rows, as the benchmarks draw them."""
    rng = np.random.default_rng(seed)
    n = int(classes.max()) + 1
    labeled = np.concatenate([rng.permutation(np.flatnonzero(classes == k))[: max(1, labels // n)] for k in range(n)])
    rest = rng.permutation(np.setdiff1d(np.arange(len(classes)), labeled))
    return labeled, rest[:3000]


@torch.no_grad()
def probabilities(
    network: InContextNetwork,
    context: Tensor,
    labels: Tensor,
    asked: Tensor,
    n_classes: int,
    *,
    view: str,
    members: int,
    most_columns: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Return class probabilities of the asked rows and shares of the classes, both means over members.

    Members differ in the columns they see (where there are too many), in the identities of the columns and in the
    numbering of the classes.
    """
    device = context.device
    generator = torch.Generator().manual_seed(seed)
    spectrum = None
    if view == "components":
        both = torch.cat([context, asked])[None]
        components, spectrum = principal_components(both, len(context), min(MOST_COMPONENTS, context.shape[1]))
        context, asked = components[0, : len(context)], components[0, len(context) :]
    total = torch.zeros(len(asked), n_classes, device=device)
    shares = torch.zeros(n_classes, device=device)
    count = torch.tensor([n_classes], device=device)
    for _ in range(members):
        columns = torch.randperm(context.shape[1], generator=generator)[:most_columns].to(device)
        order = torch.randperm(n_classes, generator=generator).to(device)
        identities = draw_identities(1, len(columns), network.sizes, generator=generator).to(device)
        renamed = torch.where(labels == UNLABELED, UNLABELED, order[labels.clamp(max=n_classes - 1)])
        memory = network.encode(
            context[None][..., columns],
            renamed[None],
            count,
            identities,
            None if spectrum is None else spectrum[:, columns],
        )
        logits = torch.cat(
            [network.answer(memory, tile[None][..., columns])[0] for tile in torch.split(asked, TILES[device.type])]
        )
        total += logits.softmax(-1)[:, order] / members
        shares += memory.prediction.log_shares[0].exp()[order] / members
    return total, shares


def score(chances: Array, shares: Array, truth: Codes, true_shares: Array) -> Score:
    """Compare with the truth."""
    guess = chances.argmax(1)
    right = guess == truth
    confidence = chances.max(1)
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [
        abs(np.mean(right[bins == b]) - np.mean(confidence[bins == b])) * np.mean(bins == b) for b in np.unique(bins)
    ]
    return Score(
        100 * float(np.mean(right)),
        float(-np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-7)).mean()),
        100 * float(np.sum(gaps)),
        50 * float(np.abs(shares - true_shares).sum()),
        50 * float(np.abs(chances.mean(0) - true_shares).sum()),
    )


def evaluate(
    network: InContextNetwork, tables: Sequence[Table], protocol: Protocol, device: torch.device | str
) -> dict[tuple[str, str, int], Score]:
    """Return a score per (table, view, number of labels), the mean over draws; the view "both" is their average."""
    scores: dict[tuple[str, str, int], Score] = {}
    network = network.to(device).eval()
    for table in tables:
        n_classes = int(table.classes.max()) + 1
        values = torch.from_numpy(table.values).to(device)
        for labels in protocol.labels:
            scores_by_view: dict[str, list[Score]] = {view: [] for view in (*VIEWS, "both")}
            for draw in range(protocol.draws):
                labeled, rest = split(table.classes, labels, draw)
                scored = rest[: protocol.most_asked]
                context = np.concatenate([labeled, rest[: protocol.unlabeled]])
                marks = np.full(len(context), UNLABELED)
                marks[: len(labeled)] = table.classes[labeled]
                true_shares = (np.bincount(table.classes[rest], minlength=n_classes) / len(rest)).astype(np.float32)
                answers = []
                for view in VIEWS:
                    answers.append(
                        probabilities(
                            network,
                            values[torch.from_numpy(context).to(device)],
                            torch.from_numpy(marks).to(device),
                            values[torch.from_numpy(scored).to(device)],
                            n_classes,
                            view=view,
                            members=protocol.members,
                            most_columns=protocol.most_columns,
                            seed=draw,
                        )
                    )
                answers.append(((answers[0][0] + answers[1][0]) / 2, (answers[0][1] + answers[1][1]) / 2))
                for view, (chances, shares) in zip(scores_by_view, answers, strict=True):
                    scores_by_view[view].append(
                        score(chances.cpu().numpy(), shares.cpu().numpy(), table.classes[scored], true_shares)
                    )
            for view, each in scores_by_view.items():
                scores[table.name, view, labels] = Score(*(statistics.fmean(part) for part in zip(*each, strict=True)))
    return scores


def summary(scores: dict[tuple[str, str, int], Score]) -> dict[str, dict[str, list[float]]]:
    """Return the mean over tables: view -> figure -> one number per number of labels."""
    numbers = sorted({labels for _, _, labels in scores})
    return {
        view: {
            figure: [
                statistics.fmean(getattr(s, figure) for (_, v, n), s in scores.items() if (v, n) == (view, labels))
                for labels in numbers
            ]
            for figure in Score._fields
        }
        for view in (*VIEWS, "both")
    }


def report(scores: dict[tuple[str, str, int], Score], *, each: bool = False) -> str:
    """Return the summary as a table; with `each`, the accuracy on every table below it."""
    lines = ["view        accuracy             mean  calibration     log loss          shares error    by mean of p"]
    for view, figures in summary(scores).items():
        cells = {
            name: "/".join(f"{v:.3f}" if name == "log_loss" else f"{v:.1f}" for v in figures[name]) for name in figures
        }
        lines.append(
            f"{view:11} {cells['accuracy']:17} {statistics.fmean(figures['accuracy']):7.2f}  {cells['calibration']:14}"
            f"  {cells['log_loss']:17} {cells['shares']:15} {cells['mean_shares']}"
        )
    if each:
        numbers = sorted({labels for _, _, labels in scores})
        for name in dict.fromkeys(name for name, _, _ in scores):
            cells_of = [
                "/".join(f"{scores[name, view, labels].accuracy:5.1f}" for labels in numbers)
                for view in (*VIEWS, "both")
            ]
            lines.append(f"{name:24} {'   '.join(cells_of)}")
    return "\n".join(lines)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("weights", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[35, 125, 500])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--unlabelled", dest="unlabeled", type=int, default=800)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="names of tables; all by default")
    options = parser.parse_args()
    network, seen = load_network(options.weights)
    tables = [t for t in read_tables(options.tables) if not options.only or t.name in options.only]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    protocol = Protocol(options.labels, options.draws, options.unlabeled, options.members)
    start = time.perf_counter()
    scores = evaluate(network, tables, protocol, device)
    print(f"{len(tables)} tables, {seen:,} tables seen in training, {time.perf_counter() - start:.0f} s on {device}")
    print(report(scores, each=True))


if __name__ == "__main__":
    main()

"""A meter of progress: 1,500 synthetic tables from a prior that is not ours, frozen in one file.

    python -m pretraining.meter make METER.npz                     # once; needs the package tabicl
    python -m pretraining.meter score METER.npz WEIGHTS [WEIGHTS]  # beside extra trees; the last against the first

The tables come from the priors of the package `tabicl` (BSD-3), with a seed for each table. Every table has 300 rows,
of which 20 to 150 have a label and the others are in the context without one; they are what is scored. Weights are
chosen on these tables, never on real ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from deepsep.networks.in_context_network import UNLABELED, InContextNetwork, draw_identities, load_network

Array = NDArray[Any]

ROWS = 300
MAX_CELLS_AT_ONCE = {"cpu": 100_000, "cuda": 2_000_000}
FIGURES = ("accuracy", "log_loss")
HASH_SEED = "2"
LEAST_PROBABILITY = 0.01  # shared evenly among the classes: forests often give a class no chance at all


class Stratum(NamedTuple):
    """A kind of table, and how many there are."""

    tables: int
    prior: str
    columns: tuple[int, int]
    classes: int  # at most


STRATA = {
    "graph": Stratum(900, "graph_scm", (2, 40), 10),
    "many classes": Stratum(300, "graph_scm", (3, 40), 28),
    "wide": Stratum(100, "graph_scm", (60, 200), 10),
    "layers": Stratum(200, "mlp_scm", (2, 40), 10),
}


class Table(NamedTuple):
    """A table whose first rows have a label, with the scores of extra trees fitted to these."""

    stratum: str
    values: Array  # (ROWS, columns)
    classes: Array  # (ROWS,)
    labeled: int
    trees: tuple[float, float]  # accuracy, log loss


def scores(chances: Array, truth: Array) -> tuple[float, float]:
    """Return accuracy in percent and log loss."""
    accuracy = 100 * float(np.mean(chances.argmax(1) == truth))
    chances = (1 - LEAST_PROBABILITY) * chances + LEAST_PROBABILITY / chances.shape[1]
    return accuracy, float(-np.log(chances[np.arange(len(truth)), truth]).mean())


def make_table(name: str, seed: int) -> Table:
    """Draw one table of a stratum; the same seed gives the same table."""
    # Here, because the machine that trains has neither package.
    from sklearn.ensemble import ExtraTreesClassifier
    from tabicl.prior import PriorDataset
    from tabicl.prior.graph_lib._config import PriorConfig

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The number of unique classes")
    stratum = STRATA[name]
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what tabicl draws from)
    torch.manual_seed(seed)
    source = PriorDataset(
        batch_size=1,
        batch_size_per_gp=1,
        min_features=stratum.columns[0],
        max_features=stratum.columns[1],
        log_n_features=True,
        max_classes=stratum.classes,
        max_seq_len=ROWS,
        min_train_size=0.5,
        max_train_size=0.5,
        prior_type=stratum.prior,
        config=PriorConfig(filter_unpredictable_datasets=True),
        n_jobs=1,
    )
    drawn, targets, columns, *_ = source.get_batch()
    values = drawn[0, :, : int(columns[0])].numpy().clip(-1e4, 1e4).astype(np.float16)
    _, classes = np.unique(targets[0].numpy(), return_inverse=True)
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(ROWS)
    _, one_each = np.unique(classes[shuffled], return_index=True)
    order = np.concatenate([shuffled[one_each], np.delete(shuffled, one_each)])
    labeled = max(int(np.exp(rng.uniform(np.log(20), np.log(150)))), len(one_each))
    values, classes = values[order], classes[order]
    forest = ExtraTreesClassifier(200, n_jobs=1, random_state=0).fit(values[:labeled], classes[:labeled])
    return Table(name, values, classes, labeled, scores(forest.predict_proba(values[labeled:]), classes[labeled:]))


def make(path: Path, jobs: int, share: float) -> None:
    """Draw all tables, and write them to one file."""
    try:
        import tabicl  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            "the meter's tables come from the package tabicl: pip install tabicl, then try again"
        ) from error
    plan = [name for name, stratum in STRATA.items() for _ in range(round(share * stratum.tables))]
    tables, begin = [], time.perf_counter()
    # The order of a set of names decides what tabicl draws first.
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for table in pool.map(make_table, plan, range(len(plan))):
            tables.append(table)
            if len(tables) % 50 == 0:
                print(f"{len(tables)} of {len(plan)} tables after {time.perf_counter() - begin:.0f} s", flush=True)
    write(path, tables)


def write(path: Path, tables: list[Table]) -> None:
    """Write the tables to one file."""
    np.savez_compressed(
        path,
        stratum=np.array([table.stratum for table in tables]),
        columns=np.array([table.values.shape[1] for table in tables]),
        cells=np.concatenate([table.values.ravel() for table in tables]),
        classes=np.stack([table.classes for table in tables]).astype(np.int8),
        labeled=np.array([table.labeled for table in tables]),
        trees=np.array([table.trees for table in tables]),
    )


def read(path: Path) -> list[Table]:
    """Read the tables of a file."""
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files}
    ends = (ROWS * parts["columns"]).cumsum()
    cells = [part.reshape(ROWS, -1).astype(np.float32) for part in np.split(parts["cells"], ends[:-1])]
    classes = parts["classes"].astype(np.int64)
    trees = [(float(accuracy), float(log_loss)) for accuracy, log_loss in parts["trees"]]
    return [
        Table(str(name), *rest)
        for name, *rest in zip(parts["stratum"], cells, classes, parts["labeled"].tolist(), trees, strict=True)
    ]


def _batches(tables: list[Table], most_cells: int) -> Iterator[list[int]]:
    """Group tables with the same number of columns."""
    by_columns: dict[int, list[int]] = {}
    for i, table in enumerate(tables):
        by_columns.setdefault(table.values.shape[1], []).append(i)
    for columns, group in sorted(by_columns.items()):
        size = max(1, most_cells // (ROWS * columns))
        yield from (group[at : at + size] for at in range(0, len(group), size))


@torch.no_grad()
def score(network: InContextNetwork, tables: list[Table], device: str) -> Array:
    """Return accuracy and log loss of every table (tables, 2), from one pass through the network for each."""
    network = network.to(device).eval()
    found = np.zeros((len(tables), 2))
    for batch in _batches(tables, MAX_CELLS_AT_ONCE[device]):
        values = torch.from_numpy(np.stack([tables[i].values for i in batch]))
        classes = torch.from_numpy(np.stack([tables[i].classes for i in batch]))
        labeled = torch.tensor([tables[i].labeled for i in batch])
        labels = torch.where(torch.arange(ROWS) < labeled[:, None], classes, UNLABELED)
        # The same identities wherever a table is, and whichever tables come with it.
        identities = draw_identities(
            1, values.shape[2], network.sizes, generator=torch.Generator().manual_seed(values.shape[2])
        )
        identities = identities.expand(len(batch), -1, -1)
        n_classes = classes.amax(1) + 1
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = network(*(part.to(device) for part in (values, labels, n_classes, identities))).logits
        chances = logits.double().softmax(2).cpu().numpy()
        for i, each in zip(batch, chances, strict=True):
            table = tables[i]
            asked = each[table.labeled :, : int(table.classes.max()) + 1]
            found[i] = scores(asked, table.classes[table.labeled :])
    return found


def mean_and_error(values: Array) -> str:
    """Return the mean over tables and its standard error, of accuracy and log loss."""
    mean, error = values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5
    return f"{mean[0]:7.2f} ± {error[0]:.2f} {mean[1]:8.4f} ± {error[1]:.4f}"


def report(tables: list[Table], found: dict[str, Array]) -> str:
    """Return accuracy and log loss by stratum, and differences between entries, which are paired by table."""
    names = list(found)
    lines = [f"{'':36} {'tables':>6} {'accuracy':>14} {'log loss':>17}"]
    strata = np.array([table.stratum for table in tables])
    pairs = [(name, names[0]) for name in names[1:]]
    if len(names) > 2:
        pairs.append((names[-1], names[1]))
    for stratum in ["all", *dict.fromkeys(strata)]:
        chosen = np.ones(len(tables), bool) if stratum == "all" else strata == stratum
        if chosen.sum() < 2:
            continue
        lines.append(stratum)
        lines += [f"  {name:34} {chosen.sum():6} {mean_and_error(values[chosen])}" for name, values in found.items()]
        lines += [f"  {a} - {b}".ljust(44) + mean_and_error((found[a] - found[b])[chosen]) for a, b in pairs]
    return "\n".join(lines)


def summary(tables: list[Table], found: Array) -> dict[str, dict[str, list[float]]]:
    """Return means and standard errors by stratum, for a log."""
    strata = np.array([table.stratum for table in tables])
    lines = {}
    for stratum in ["all", *dict.fromkeys(strata.tolist())]:
        chosen = found[(strata == stratum) | (stratum == "all")]
        mean, error = chosen.mean(0), chosen.std(0, ddof=1) / len(chosen) ** 0.5
        lines[stratum] = {
            figure: [round(float(mean[i]), 4), round(float(error[i]), 4)] for i, figure in enumerate(FIGURES)
        }
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make", help="draw the tables")
    making.add_argument("file", type=Path)
    making.add_argument("--jobs", type=int, default=1, help="processes; the file is the same with any number")
    making.add_argument("--share", type=float, default=1.0, help="of the tables of every kind")
    scoring = verbs.add_parser("score", help="measure weights")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("weights", type=Path, nargs="+")
    scoring.add_argument("--log", type=Path, help="add a line of JSON for every weights to this file")
    options = parser.parse_args(arguments)
    if options.verb == "make":
        return make(options.file, options.jobs, options.share)
    tables = read(options.file)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = {"extra trees": np.array([table.trees for table in tables])}
    lines: list[dict[str, object]] = [{"name": "extra trees", **summary(tables, found["extra trees"])}]
    for path in options.weights:
        begin = time.perf_counter()
        network, seen = load_network(path)
        name = f"{path.parent.name}/{path.stem}"[-34:]
        found[name] = score(network, tables, device)
        print(f"{name}: {seen:,} tables seen; measured in {time.perf_counter() - begin:.0f} s on {device}", flush=True)
        lines.append({"name": name, "seen": seen, **summary(tables, found[name])})
    print(report(tables, found))
    if options.log:
        with options.log.open("a") as log:
            log.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()

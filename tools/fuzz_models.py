"""Edit saved models at random, with hashes that fit, and count what opening them and predicting with them does.

    python tools/fuzz_models.py 200 --seed 0

Each edited model is opened in a process of its own, with limits of memory and time. It may be refused, or open and
give probabilities; a crash, a hang or an answer that is not a probability is a bug.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from deepsep import for_table, load, method, methods, save
from deepsep.errors import DeepSepError
from deepsep.files.manifest import canonical, sha256
from deepsep.files.packed import compress, decompress

SECONDS, MEMORY = 30, 6 << 30
QUICK = {"deepsep": {"rounds": 1, "initial_epochs": 2, "n_networks": 1}}
QUICK |= {name: {"n_estimators": 4, "min_child_samples": 3} for name in ("lightgbm", "lightgbm-few-labels")}
QUICK |= {name: {"n_estimators": 4} for name in ("xgboost", "random-forest", "extra-trees")}
NUMBERS = [0, 1, -1, 2, 7, -7, 99, 10**4, -(10**6), 2**31 - 1, 2**31, 2**40, 2**63 - 1, 0.5, 1e30, 1e308, -1e308]
ODD = [None, True, "", "text", "precomputed", [], {}, [[]], 10**30, ["array", "0"], ["same", 0], ["list", []]]


def table(n=120):
    """Return a table with numbers, gaps, categories, dates and text, and labels for some rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame.loc[::7, "b"] = np.nan
    frame["town"] = rng.choice(["Oslo", "Rome", "Bern", "Paris", "Rare"], n, p=[0.3, 0.3, 0.2, 0.19, 0.01])
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame["note"] = [f"note {a} on {b} and {c}" for a, b, c in rng.integers(0, 999, (n, 3))]
    y = np.where(np.arange(n) < 40, np.array(["x", "y", "z"])[np.digitize(frame["a"], [-0.4, 0.4])], None)
    return frame, y


def fit_and_save(model, X, y, place):
    """Fit in a process of its own: a process that has fitted XGBoost hangs in a fork of it."""
    child = os.fork()
    if child == 0:
        save(model.fit(X, y), place)
        os._exit(0)
    os.waitpid(child, 0)


def originals(folder, only):
    """Save one model of every method, and two of tables."""
    frame, y = table()
    X = frame[["a", "c"]].to_numpy()
    for name in [name for name in methods() if not only or name in only]:
        settings = dict(QUICK.get(name, {})) | ({"steps": 20} if "steps" in method(name).get_params() else {})
        fit_and_save(method(name, random_state=0, **settings), X, y, folder / name)
        yield name, X
    for name in ("logistic-regression", "lightgbm"):
        if not only or f"table-{name}" in only:
            model = for_table(method(name, random_state=0, **QUICK.get(name, {})))
            fit_and_save(model, frame, y, folder / f"table-{name}")
            yield f"table-{name}", frame


# -- edits ---------------------------------------------------------------------------------------------------


def leaves(tree, path=()):
    """Yield the path of every value in JSON."""
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from leaves(value, (*path, key))


def edit_json(tree, rng):
    """Change, remove or double one value, and return where it is."""
    *path, last = place = rng.choice(list(leaves(tree)))
    for key in path:
        tree = tree[key]
    action = rng.random()
    if action < 0.15:
        del tree[last]
    elif action < 0.25 and isinstance(tree, list):
        tree.insert(last, tree[last])
    elif isinstance(tree[last], (int, float)) and action < 0.8:
        tree[last] = rng.choice(NUMBERS)
    else:
        tree[last] = rng.choice(NUMBERS + ODD)
    return place


def edit_array(array, rng):
    """Change some numbers of an array, or its shape or type."""
    action = rng.random()
    if action < 0.75 and array.size:
        array = array.copy()
        flat = array.reshape(-1)
        for _ in range(rng.choice([1, 1, 3])):
            value = rng.choice(NUMBERS + ([float("nan"), float("inf")] if array.dtype.kind == "f" else []))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                flat[rng.randrange(flat.size)] = np.array(value).astype(array.dtype)
        return array
    if action < 0.85:
        return array[: len(array) // 2] if array.ndim and len(array) else np.zeros(3, array.dtype)
    if action < 0.92:
        return np.concatenate([array, array]) if array.ndim else array
    return array.astype(rng.choice([np.float32, np.float64, np.int64, np.int32, np.uint8]))


def edit_tensors(tensors, layouts, rng):
    """Change one array, often its layout with it, and return its name."""
    names = [name for name in tensors if name != "values"]
    if not names:
        return ""
    name = rng.choice(names)
    tensors[name] = np.ascontiguousarray(edit_array(tensors[name], rng))
    entry = layouts.get(name, {})
    if "shape" in entry and rng.random() < 0.7:
        entry["shape"] = list(tensors[name].shape)[:: -1 if entry.get("order") == "F" else 1]
    return name


def edit(place, rng):
    """Edit one file of a model, make all hashes fit, and return what was edited."""
    manifest = json.loads((place / "manifest.json").read_bytes())
    name = rng.choice(["manifest.json", *manifest["files"], *[n for n in manifest["files"] if n.endswith(".gz")] * 3])
    if name == "manifest.json":
        what = edit_json(manifest, rng)
    elif name.endswith(".gz"):
        tensors = read_tensors(decompress(name, (place / name).read_bytes()))
        values = json.loads(tensors["values"].tobytes())
        what = edit_json(values, rng) if rng.random() < 0.5 else edit_tensors(tensors, values[1], rng)
        tensors["values"] = np.frombuffer(json.dumps(values).encode(), np.uint8)
        (place / name).write_bytes(compress(write_tensors(tensors)))
    else:
        tensors = read_tensors((place / name).read_bytes())
        what = edit_tensors(tensors, manifest["arrays"], rng)
        (place / name).write_bytes(write_tensors(tensors))
    if name != "manifest.json":
        data = (place / name).read_bytes()
        manifest["files"][name] = {"size": len(data), "sha256": sha256(data)}
    manifest.pop("sha256", None)
    manifest["sha256"] = sha256(canonical(manifest))
    (place / "manifest.json").write_bytes(canonical(manifest))
    return f"{name}, {what}"


# -- one trial -----------------------------------------------------------------------------------------------

OUTCOMES = ["refused", "probabilities", "error when predicting", "NOT A PROBABILITY", "OTHER ERROR"]


def try_model(place, X):
    """Open a model and predict, and return the number of the outcome."""
    warnings.simplefilter("ignore")
    try:
        model = load(place)
    except DeepSepError:
        return 0
    except Exception:
        traceback.print_exc()
        return 4
    try:
        p = model.predict_proba(X)
        return 1 if np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1, atol=1e-3) and p.min() >= 0 else 3
    except Exception:
        traceback.print_exc(limit=-4)
        return 2


def in_child(place, X):
    """Return the outcome of a trial in a process of its own."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        signal.alarm(10 * SECONDS)  # of waiting, on a busy machine
        os._exit(10 + try_model(place, X))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        ended = signal.Signals(os.WTERMSIG(status))
        return "HANG" if ended in (signal.SIGXCPU, signal.SIGALRM) else f"CRASH ({ended.name})"
    return OUTCOMES[os.WEXITSTATUS(status) - 10] if os.WEXITSTATUS(status) >= 10 else "CRASH (exit)"


def main():
    """Fuzz every kind of model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trials", type=int, help="edits of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="methods, or table-NAME")
    options = parser.parse_args()
    total = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X in originals(Path(folder), options.only):
            counts, rng, began = Counter(), random.Random(f"{options.seed} {name}"), time.perf_counter()
            for i in range(options.trials):
                place = Path(shutil.copytree(Path(folder) / name, Path(folder) / "copy"))
                file = edit(place, rng)
                outcome = in_child(place, X)
                counts[outcome] += 1
                if outcome == "error when predicting":
                    print(f"  {name}: edit {i} of {file}: {outcome}", flush=True)
                if outcome.isupper() or outcome.startswith(("CRASH", "HANG", "NOT")):
                    print(f"  {name}: edit {i} of {file}: {outcome}", flush=True)
                    kept = Path(f"fuzzed-{name}-{i}")
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(place, kept)
                shutil.rmtree(place)
            total += counts
            print(f"{name}: {dict(counts)} in {time.perf_counter() - began:.0f} s", flush=True)
    print(f"all: {dict(total)}")
    sys.exit(any(outcome[1].isupper() for outcome in total))


if __name__ == "__main__":
    main()

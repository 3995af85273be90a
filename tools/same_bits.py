"""Record what every method predicts on two small tables, or compare with an earlier record, bit for bit.

    python tools/same_bits.py record before.npz
    python tools/same_bits.py compare before.npz

The same for a table of mixed columns: fitted in Python and by the command line, with known shares, with a sample of its
rows, saved and loaded, and scored into a file. A change that moves code and does not change it leaves every number as
it was. It needs only the public names, so it runs on older versions of the code too. Bits depend on the machine and on
the versions of its libraries: record and compare on the same one.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, load_wine

from deepsep import TSVM, Committee, DeepSep, for_table, load, method, methods
from deepsep.cli import app

QUICK = {
    "deepsep": {"rounds": 2, "initial_epochs": 20},
    "exact-tsvm": {"n_unlabeled": 10},
    "lightgbm": {"n_estimators": 30},
    "random-forest": {"n_estimators": 50},
    "extra-trees": {"n_estimators": 50},
}
STEPS = 60  # of the networks that are trained in steps


def tables():
    """Yield (name, rows, labels, weights): wine with None marks and weights, iris with -1 marks."""
    X, codes = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.permutation(np.flatnonzero(codes == k))[:6] for k in range(3)])
    y = np.full(len(X), None)
    y[known] = np.array(["one", "two", "three"])[codes[known]]
    yield "wine", X, y, None
    X, codes = load_iris(return_X_y=True)
    y = np.where(rng.permutation(len(X)) < 24, codes, -1)
    yield "iris", X.astype(np.float32), y, rng.integers(1, 4, len(X))


def models():
    """Yield (name, estimator) for every method, with few epochs, and the variants with code of their own."""
    for name in methods():
        settings = QUICK.get(name, {})
        known = method(name).get_params()
        settings |= {"steps": STEPS} if "steps" in known else {}
        yield name, method(name, random_state=0, **settings)
    quick = QUICK["deepsep"] | {"random_state": 0}
    yield "deepsep as published", DeepSep.as_published(**quick)
    yield "deepsep calibrated", DeepSep(calibrate=True, **quick)
    yield "deepsep validated", DeepSep(validation_fraction=0.3, **quick)
    yield "deepsep pretrained", DeepSep(pretrain="autoencoder", pretrain_epochs=3, **quick)
    yield "deepsep pool", DeepSep(C_star="pool", n_unlabeled=40, n_networks=1, **quick)
    yield "tsvm rbf cccp", TSVM(kernel="rbf", algorithm="cccp", C=1.0, random_state=0)
    yield "tsvm cv", TSVM(probability="cv", n_unlabeled=50, random_state=0)
    yield "tsvm free bias", TSVM(balance=False, probability="softmax", random_state=0)


def predictions():
    """Return {method on table: the class probabilities of all rows, and of the training rows}."""
    out = {}
    for table, X, y, weight in tables():
        shares = dict.fromkeys(np.unique([v for v in y.tolist() if v not in (None, -1)]).tolist(), 1 / 3)
        for name, model in models():
            runs = {"": model}
            if name in ("deepsep", "tsvm"):
                runs[" with priors"] = type(model)(**model.get_params()).set_params(priors=shares)
            for suffix, run in runs.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        run.fit(X, y, sample_weight=weight)
                    except TypeError:  # this method takes no weights
                        run.fit(X, y)
                    out[f"{name}{suffix} on {table}"] = run.predict_proba(X)
                    out[f"{name}{suffix} on {table}, training rows"] = run.label_distributions_
    return out


def people():
    """Return a table of mixed columns with gaps; a sixth of the rows have a label."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=300)
    plans = np.array([["free", "basic", "trial"], ["basic", "pro", "team"]])
    frame = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(300)],
            "age": np.round(30 + 12 * kind + rng.normal(0, 6, 300), 1),
            "income": np.round(np.exp(rng.normal(8 + kind, 1)), 2),
            "plan": plans[kind, rng.integers(3, size=300)],
            "member": np.where(rng.random(300) < 0.3 + 0.4 * kind, "yes", "no"),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(2000, size=300) - 300 * kind, "D"),
            "segment": np.where(np.arange(300) < 50, np.array(["blue", "gold"])[kind], None),
        }
    )
    frame.loc[rng.random(300) < 0.1, "age"] = np.nan
    frame.loc[rng.random(300) < 0.1, "plan"] = None
    return frame


def tabular():
    """Return the same of a table of mixed columns, in Python and by the command line."""
    frame, out = people(), {}
    X, y = frame.drop(columns=["customer", "segment"]), frame["segment"]
    members = ["tsvm", "logistic-regression"]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for method_name, estimator in {
            "deepsep": DeepSep(random_state=0, **QUICK["deepsep"]),
            "committee": Committee(members=members, n_jobs=1, learning_curve=True, random_state=0),
        }.items():
            model = for_table(estimator).fit(X, y)
            out[f"{method_name} for a table"] = model.predict_proba(X)
            model[-1].save(folder / "part")
            loaded = load(folder / "part")
            out[f"{method_name} for a table, loaded"] = loaded.predict_proba(model[:-1].transform(X))
            student = getattr(loaded, "student_", None)
            if student is not None:
                out[f"student of {method_name}, loaded"] = student.predict_proba(model[:-1].transform(X))
        people_file, shares = folder / "people.csv", folder / "shares.csv"
        frame.to_csv(people_file, index=False)
        shares.write_text("class,share\nblue,0.7\ngold,0.3\n")
        fits = {
            "deepsep": ["--method", "deepsep", *(f"--set={k}={v}" for k, v in QUICK["deepsep"].items())],
            "tsvm with priors": ["--method", "tsvm", "--priors", str(shares)],
            "tsvm of a sample": ["--method", "tsvm", "--unlabelled", "100"],
        }
        for title, options in fits.items():
            place, scored = folder / title, folder / f"{title}.parquet"
            fit = ["fit", str(people_file), "--label", "segment", "--id", "customer", "--no-report", "-q", *options]
            _run([*fit, "--predictions", "parquet", "-o", str(place)])
            _run(["score", str(place), str(people_file), "--id", "customer", "-q", "-o", str(scored)])
            for what, file in (("predictions", place / "predictions.parquet"), ("scores", scored)):
                for column, values in pd.read_parquet(file).items():
                    text = not pd.api.types.is_numeric_dtype(values)
                    out[f"{title} by the command line, {what}, {column}"] = values.to_numpy(str if text else None)
    return out


def _run(arguments):
    try:
        app(arguments)
    except SystemExit as end:
        if end.code:
            raise


def main():
    """Record or compare."""
    action, path = sys.argv[1:]
    now = predictions() | tabular()
    if action == "record":
        np.savez(path, **now)
        print(f"recorded {len(now)} arrays")
        return
    before = np.load(path)
    missing = sorted(set(before.files) ^ set(now))
    different = [name for name in now if name in before.files and before[name].tobytes() != now[name].tobytes()]
    for name in different:
        numbers = before[name].shape == now[name].shape and before[name].dtype.kind == now[name].dtype.kind == "f"
        size = f", by at most {np.abs(before[name] - now[name]).max():.1e}" if numbers else ""
        print(f"differs: {name}{size}")
    for name in missing:
        print(f"only on one side: {name}")
    print(f"{len(now) - len(different)} of {len(now)} arrays are the same, bit for bit")
    sys.exit(bool(different or missing))


if __name__ == "__main__":
    main()

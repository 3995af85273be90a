"""Record what every method predicts on two small tables, or compare with an earlier record, bit for bit.

    python tools/same_bits.py record before.npz
    python tools/same_bits.py compare before.npz

A change that moves code and does not change it leaves every number as it was. It needs only the public names, so it
runs on older versions of the code too. Bits depend on the machine and on the versions of its libraries: record and
compare on the same one.
"""

import sys
import warnings

import numpy as np
from sklearn.datasets import load_iris, load_wine

from deepsep import TSVM, DeepSep, method, methods

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


def main():
    """Record or compare."""
    action, path = sys.argv[1:]
    now = predictions()
    if action == "record":
        np.savez(path, **now)
        print(f"recorded {len(now)} arrays")
        return
    before = np.load(path)
    missing = sorted(set(before.files) ^ set(now))
    different = [name for name in now if name in before.files and before[name].tobytes() != now[name].tobytes()]
    for name in different:
        print(f"differs: {name}, by at most {np.abs(before[name] - now[name]).max():.1e}")
    for name in missing:
        print(f"only on one side: {name}")
    print(f"{len(now) - len(different)} of {len(now)} arrays are the same, bit for bit")
    sys.exit(bool(different or missing))


if __name__ == "__main__":
    main()

"""DeepSep on a GPU: one fit, and 32 fits trained together, beside the CPU.

    python benchmarks/deepsep_gpu.py

The paper's largest setting (2,500 labels, 4,780 unlabelled rows, 100 features, five classes, six rounds, published
epochs). The 32 fits are Algorithm 1 with members of one `PackedNetwork`, each with its own seed; their TSVMs run one
after the other.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import time
import warnings

import numpy as np
import torch
from deepsep_speed import survey

from deepsep import TSVM, DeepSep
from deepsep.core.probability import round_weights, smooth_labels
from deepsep.networks import PackedNetwork


def fits_together(X, y, truth, members, device, batch_size):
    """Return seconds, of which in TSVMs, and the accuracy of each member's moving average on the unlabelled rows."""
    labelled = y >= 0
    start, in_tsvm = time.perf_counter(), 0.0
    scaled = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    D0 = torch.from_numpy(scaled[labelled]).to(device)
    D1 = torch.from_numpy(scaled[~labelled]).to(device)
    rngs = [np.random.default_rng(seed) for seed in range(members)]
    network = PackedNetwork(X.shape[1], 5, l2=(1e-4, 1e-5, 1e-6), rngs=rngs, device=device)
    labels = np.broadcast_to(smooth_labels(y[labelled], 5, 1e-3), (members, int(labelled.sum()), 5))
    settings = {"batch_size": batch_size, "rngs": rngs}
    network.train(D0, labels, loss="kl", epochs=100, lr=1e-3, **settings)
    average = np.zeros((members, len(D1), 5))
    for weight in round_weights(6, 0.8):
        embedded = np.concatenate([network.embed(D0), network.embed(D1)], axis=1)
        begin = time.perf_counter()
        propensities = np.stack([propensity(rows, y[np.argsort(~labelled, kind="stable")]) for rows in embedded])
        in_tsvm += time.perf_counter() - begin
        network.train(D1, propensities, loss="mse", epochs=10, lr=1e-4, **settings)
        network.train(D0, labels, loss="kl", epochs=10, lr=1e-4, **settings)
        average += weight * network.predict_proba(D1)
    seconds = time.perf_counter() - start
    return seconds, in_tsvm, (average.argmax(axis=2) == truth[~labelled]).mean(axis=1)


def propensity(rows, y):
    model = TSVM(n_unlabeled=250, tol=1e-3, random_state=0).fit(rows, y)
    return model.label_distributions_[y < 0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    X, truth = survey(2500 + 4780, 100)
    y = np.where(np.arange(len(X)) < 2500, truth, -1)
    name = torch.cuda.get_device_name() if a.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}; one CPU thread beside it\n")
    print("| fits | device | batch | seconds | per fit | in TSVMs | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for device, batch in (("cpu", 32), (a.device, 32), (a.device, 256)):
        DeepSep.as_published(rounds=1, initial_epochs=1, device=device, random_state=0).fit(X, y)  # warm up
        start = time.perf_counter()
        model = DeepSep.as_published(device=device, batch_size=batch, random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
        accuracy = (model.transduction_[2500:] == truth[2500:]).mean()
        print(f"| 1 | {device} | {batch} | {seconds:.2f} | {seconds:.2f} | | {accuracy:.4f} |", flush=True)
    for batch in (32, 256):
        seconds, in_tsvm, accuracy = fits_together(X, y, truth, a.members, a.device, batch)
        per = seconds / a.members
        row = [a.members, a.device, batch, f"{seconds:.2f}", f"{per:.2f}", f"{in_tsvm:.2f}", f"{accuracy.mean():.4f}"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)

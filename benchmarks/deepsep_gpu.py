"""DeepSep on a GPU, beside the CPU.

    python benchmarks/deepsep_gpu.py

The paper's largest setting: 2,500 labels, 4,780 unlabelled rows, 100 features, five classes, six rounds, published
epochs without the autoencoder.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import time
import warnings

import numpy as np
import torch
from deepsep_speed import survey

from deepsep import DeepSep

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    X, truth = survey(2500 + 4780, 100)
    y = np.where(np.arange(len(X)) < 2500, truth, -1)
    name = torch.cuda.get_device_name() if a.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}; one CPU thread beside it\n")
    print("| device | batch | seconds | accuracy |")
    print("|---|---|---|---|")
    for device, batch in (("cpu", 32), (a.device, 32), (a.device, 256)):
        DeepSep.as_published(pretrain=None, rounds=1, initial_epochs=1, device=device).fit(X, y)  # warm up
        start = time.perf_counter()
        model = DeepSep.as_published(pretrain=None, device=device, batch_size=batch, random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
        accuracy = (model.transduction_[2500:] == truth[2500:]).mean()
        print(f"| {device} | {batch} | {seconds:.2f} | {accuracy:.4f} |", flush=True)

"""How fast each family is made: tables per second, and operations launched per part of a batch.

python -m pretraining.generator
"""

from __future__ import annotations

import random
import time
from functools import partial

import torch

from pretraining.generator.batch import FAMILIES, PRIORS, draw_batch
from pretraining.speed import launches

SHAPES = [(128, 128, 12, 96), (640, 128, 40, 12), (256, 128, 200, 8)]


def main() -> None:
    """Print a line per family and per prior."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    shapes = "".join(f"{context} + {asked} rows, {columns} columns".rjust(32) for context, asked, columns, _ in SHAPES)
    print(f"tables per second and launches, {torch.get_num_threads()} threads of {device}\n{'':10}{shapes}")
    for name in [*FAMILIES, *PRIORS]:
        cells = []
        for context, asked, columns, tables in SHAPES:
            draw = partial(
                draw_batch,
                tables,
                context,
                asked,
                columns,
                generator=generator,
                family=name if name in FAMILIES else None,
                prior=name if name in PRIORS else "second",
                share_of_components=0,
            )
            draw(choices=random.Random(0))
            begin, repeats = time.perf_counter(), 8
            for seed in range(repeats):
                draw(choices=random.Random(seed))
            if device.type == "cuda":
                torch.cuda.synchronize()
            rate = repeats * tables / (time.perf_counter() - begin)
            counts = [launches(device, partial(draw, choices=random.Random(seed)))[0] for seed in range(3)]
            cells.append(f"{rate:22.0f} {sum(counts) / len(counts):9.0f}")
        print(f"{name:10}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()

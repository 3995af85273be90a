"""The whole state of a training run, in files small enough to travel.

    python -m pretraining.checkpoint pack FOLDER SMALLER_FOLDER    # everything but the weights in half precision
    python -m pretraining.checkpoint weights FOLDER FILE           # the moving average alone, as the package reads it

A folder holds parts of at most 15 MB and `checkpoint.json`, which names them. That file is written last: a run killed
while it saves leaves the checkpoint before.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepsep.errors import ModelFileError
from deepsep.networks.in_context_network import InContextNetwork, Sizes, save_network

PART_BYTES = 15_000_000
MANIFEST = "checkpoint.json"

State = dict[str, Any]


def save(folder: Path, state: State) -> None:
    """Write a state that `load` returns bit for bit."""
    buffer = io.BytesIO()
    torch.save(_moved(state, lambda tensor: tensor.detach().cpu()), buffer)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{digest[:12]}-{i}.part" for i in range(-(-len(data) // PART_BYTES))]
    for i, name in enumerate(names):
        _write(folder / name, data[i * PART_BYTES : (i + 1) * PART_BYTES])
    plain = {name: value for name, value in state.items() if name not in ("weights", "average", "optimisers")}
    _write(folder / MANIFEST, json.dumps({"parts": names, "sha256": digest, **plain}, indent=1).encode())
    for path in folder.glob("*.part*"):
        if path.name not in names:
            path.unlink()


def facts(folder: Path) -> State:
    """Return the settings of a state, and how far it has come."""
    found: State = json.loads(_read(folder / MANIFEST))
    return found


def load(folder: Path) -> State:
    """Read a state, on the CPU."""
    found = facts(folder)
    data = b"".join(_read(folder / name) for name in found["parts"])
    if hashlib.sha256(data).hexdigest() != found["sha256"]:
        raise ModelFileError(
            f"the checkpoint in {folder} is damaged: its parts are not those it was saved with; copy them again"
        )
    state: State = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return state


def compact(state: State) -> State:
    """Return the state in two thirds of the bytes.

    Optimisers remember some 50 steps and the moving average 1,000, so that rounding them once leaves no trace.
    """
    small = dict(state)
    # Squares of small gradients have no value in float16, and averaged weights too few digits in bfloat16.
    small["optimisers"] = _moved(
        state["optimisers"], lambda t: t.bfloat16() if t.dim() and t.is_floating_point() else t
    )
    small["average"] = _moved(state["average"], lambda tensor: tensor.half())
    return small


def _moved(value: Any, move: Any) -> Any:
    """Apply `move` to every tensor of nested containers."""
    if isinstance(value, Tensor):
        return move(value)
    if isinstance(value, dict):
        return {key: _moved(each, move) for key, each in value.items()}
    return [_moved(each, move) for each in value] if isinstance(value, list) else value


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ModelFileError(f"no whole checkpoint in {path.parent}: {path.name} is missing; copy all its files")
    return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("verb", choices=["pack", "weights"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    state = load(options.folder)
    if options.verb == "pack":
        save(options.out, compact(state))
    else:
        average = {name: tensor.float() for name, tensor in state["average"].items()}
        save_network(options.out, InContextNetwork(Sizes(**state["sizes"])), tables_seen=state["seen"], state=average)


if __name__ == "__main__":
    main()

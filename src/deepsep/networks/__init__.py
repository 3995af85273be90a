"""Networks that Algorithm 1 trains, behind one protocol.

``NumpyNetwork`` needs no torch, and is the fastest on a CPU; ``TorchNetwork`` takes any encoder and a GPU;
``PackedNetwork`` trains many small networks together. ``TorchRows`` is the TSVM's pass over rows on a GPU. Whatever
needs torch is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepsep.networks._numpy import NumpyNetwork
from deepsep.networks._protocol import Loss, Network

if TYPE_CHECKING:
    from deepsep.networks._packed import PackedNetwork
    from deepsep.networks._rows import TorchRows, rows_by_size
    from deepsep.networks._torch import TorchNetwork, default_encoder

__all__ = [
    "Loss",
    "Network",
    "NumpyNetwork",
    "PackedNetwork",
    "TorchNetwork",
    "TorchRows",
    "default_encoder",
    "rows_by_size",
]

_LAZY = {
    "PackedNetwork": "_packed",
    "TorchNetwork": "_torch",
    "TorchRows": "_rows",
    "default_encoder": "_torch",
    "rows_by_size": "_rows",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"{name} needs torch. Install it with: pip install torch") from error

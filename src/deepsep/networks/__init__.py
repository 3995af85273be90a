"""Networks and their training, behind one interface.

``NumpyNetwork`` needs no torch, and is the fastest on a CPU; ``TorchNetwork`` takes any encoder and a GPU.
``TorchArrays`` lets the TSVM's pass over rows run on a GPU. ``ContextView`` is a table as the pretrained in-context
network has read it. Everything that needs torch is imported on first use, since that takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names
from deepsep.networks.architecture import Architecture
from deepsep.networks.average import NetworkAverage
from deepsep.networks.interface import Loss, Network, choose_device
from deepsep.networks.network_committee import NetworkCommittee, member_states, members_of
from deepsep.networks.numpy_network import NumpyNetwork
from deepsep.networks.one_hot import OneHotAverage

if TYPE_CHECKING:
    from deepsep.networks.autoencoder import pretrain
    from deepsep.networks.context_view import (
        MOST_COLUMNS,
        ContextView,
        Member,
        components_of,
        draw_columns,
        draw_member,
        pool,
    )
    from deepsep.networks.loop import adam, tensor
    from deepsep.networks.mixed_batches import Batch, OnStep, StepSettings, train_steps
    from deepsep.networks.pretrained import WEIGHTS_SHA256, pretrained_network
    from deepsep.networks.torch_arrays import TorchArrays, rows_by_size
    from deepsep.networks.torch_network import TorchNetwork, default_encoder

__all__ = [
    "MOST_COLUMNS",
    "WEIGHTS_SHA256",
    "Architecture",
    "Batch",
    "ContextView",
    "Loss",
    "Member",
    "Network",
    "NetworkAverage",
    "NetworkCommittee",
    "NumpyNetwork",
    "OnStep",
    "OneHotAverage",
    "StepSettings",
    "TorchArrays",
    "TorchNetwork",
    "adam",
    "choose_device",
    "components_of",
    "default_encoder",
    "draw_columns",
    "draw_member",
    "member_states",
    "members_of",
    "pool",
    "pretrain",
    "pretrained_network",
    "rows_by_size",
    "tensor",
    "train_steps",
]

_HOME = {
    "Batch": "deepsep.networks.mixed_batches",
    "ContextView": "deepsep.networks.context_view",
    "MOST_COLUMNS": "deepsep.networks.context_view",
    "Member": "deepsep.networks.context_view",
    "OnStep": "deepsep.networks.mixed_batches",
    "StepSettings": "deepsep.networks.mixed_batches",
    "TorchArrays": "deepsep.networks.torch_arrays",
    "TorchNetwork": "deepsep.networks.torch_network",
    "WEIGHTS_SHA256": "deepsep.networks.pretrained",
    "adam": "deepsep.networks.loop",
    "components_of": "deepsep.networks.context_view",
    "default_encoder": "deepsep.networks.torch_network",
    "draw_columns": "deepsep.networks.context_view",
    "draw_member": "deepsep.networks.context_view",
    "pool": "deepsep.networks.context_view",
    "pretrain": "deepsep.networks.autoencoder",
    "pretrained_network": "deepsep.networks.pretrained",
    "rows_by_size": "deepsep.networks.torch_arrays",
    "tensor": "deepsep.networks.loop",
    "train_steps": "deepsep.networks.mixed_batches",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

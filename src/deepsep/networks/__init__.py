"""Networks and their training, behind one interface.

``NumpyNetwork`` needs no torch, and is the fastest on a CPU; ``TorchNetwork`` takes any encoder and a GPU.
``ContextView`` is a table as the pretrained in-context network has read it. Everything that needs torch is imported on
first use, since that takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names
from deepsep.networks.frozen import NetworkAverage
from deepsep.networks.interface import Loss, Network, choose_device
from deepsep.networks.network_committee import Architecture, NetworkCommittee, member_states, members_of
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
    "tensor",
    "train_steps",
]

_NAMES = {
    "autoencoder": ("pretrain",),
    "context_view": ("MOST_COLUMNS", "ContextView", "Member", "components_of", "draw_columns", "draw_member", "pool"),
    "loop": ("adam", "tensor"),
    "mixed_batches": ("Batch", "OnStep", "StepSettings", "train_steps"),
    "pretrained": ("WEIGHTS_SHA256", "pretrained_network"),
    "torch_network": ("TorchNetwork", "default_encoder"),
}
_HOME = {name: f"deepsep.networks.{module}" for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

"""Networks and their training, behind one interface.

``NumpyNetwork`` needs no torch, and is the fastest on a CPU; ``TorchNetwork`` takes any encoder and a GPU.
``TorchArrays`` lets the TSVM's pass over rows run on a GPU. ``ContextView`` is a table as the pretrained in-context
network has read it. Whatever needs torch loads on first use, since importing it takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names
from deepsep.networks.average import NetworkAverage
from deepsep.networks.committee import Committee, member_states, members_of
from deepsep.networks.interface import Loss, Network, choose_device
from deepsep.networks.numpy_network import NumpyNetwork
from deepsep.networks.one_hot import OneHotAverage

if TYPE_CHECKING:
    from deepsep.networks.adversarial import Generator, PairJudge
    from deepsep.networks.autoencoder import pretrain
    from deepsep.networks.context_view import ContextView, Member, components_of, draw_columns, draw_member, pool
    from deepsep.networks.density import Density
    from deepsep.networks.kernel_head import KernelHead
    from deepsep.networks.ladder_network import Ladder, denoising_costs
    from deepsep.networks.loop import adam, tensor
    from deepsep.networks.mixed_batches import Batch, OnStep, train_steps
    from deepsep.networks.pretrained import WEIGHTS_SHA256, pretrained_network
    from deepsep.networks.torch_arrays import TorchArrays, rows_by_size
    from deepsep.networks.torch_network import TorchNetwork, default_encoder
    from deepsep.networks.variational import VAE, ConditionalVAE, marginal_bound

__all__ = [
    "VAE",
    "WEIGHTS_SHA256",
    "Batch",
    "Committee",
    "ConditionalVAE",
    "ContextView",
    "Density",
    "Generator",
    "KernelHead",
    "Ladder",
    "Loss",
    "Member",
    "Network",
    "NetworkAverage",
    "NumpyNetwork",
    "OnStep",
    "OneHotAverage",
    "PairJudge",
    "TorchArrays",
    "TorchNetwork",
    "TrainingPhase",
    "adam",
    "choose_device",
    "components_of",
    "default_encoder",
    "denoising_costs",
    "draw_columns",
    "draw_member",
    "marginal_bound",
    "member_states",
    "members_of",
    "pool",
    "pretrain",
    "pretrained_network",
    "rows_by_size",
    "tensor",
    "train_steps",
    "train_together",
]

_HOME = {
    "Batch": "deepsep.networks.mixed_batches",
    "ConditionalVAE": "deepsep.networks.variational",
    "ContextView": "deepsep.networks.context_view",
    "Density": "deepsep.networks.density",
    "Generator": "deepsep.networks.adversarial",
    "KernelHead": "deepsep.networks.kernel_head",
    "Ladder": "deepsep.networks.ladder_network",
    "Member": "deepsep.networks.context_view",
    "OnStep": "deepsep.networks.mixed_batches",
    "PairJudge": "deepsep.networks.adversarial",
    "TorchArrays": "deepsep.networks.torch_arrays",
    "TorchNetwork": "deepsep.networks.torch_network",
    "VAE": "deepsep.networks.variational",
    "WEIGHTS_SHA256": "deepsep.networks.pretrained",
    "adam": "deepsep.networks.loop",
    "components_of": "deepsep.networks.context_view",
    "default_encoder": "deepsep.networks.torch_network",
    "denoising_costs": "deepsep.networks.ladder_network",
    "draw_columns": "deepsep.networks.context_view",
    "draw_member": "deepsep.networks.context_view",
    "marginal_bound": "deepsep.networks.variational",
    "pool": "deepsep.networks.context_view",
    "pretrain": "deepsep.networks.autoencoder",
    "pretrained_network": "deepsep.networks.pretrained",
    "rows_by_size": "deepsep.networks.torch_arrays",
    "tensor": "deepsep.networks.loop",
    "train_steps": "deepsep.networks.mixed_batches",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

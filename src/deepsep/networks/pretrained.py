"""The weights of the in-context network that come with the package: read on first use, and checked."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from deepsep.errors import ModelFileError
from deepsep.networks.in_context_network import InContextNetwork, load_network

WEIGHTS = Path(__file__).with_name("in_context.safetensors")
WEIGHTS_SHA256 = "f6a65dc5e30185eb35ec3b5ed00cf64614beb703e4543762be2e35d78ba3c812"


@cache
def pretrained_network(device: str) -> InContextNetwork:
    """Return the network on a device; the file is read and its hash checked once per process.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, or holds other weights than this version of deepsep expects.
    VersionError
        If it has a format that this version does not read.
    """
    if not WEIGHTS.is_file():
        raise ModelFileError(
            f"the weights of the in-context network are missing: no file {WEIGHTS}. They are part of the package: "
            "install deepsep again."
        )
    digest = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    network, _ = load_network(WEIGHTS)  # says itself what is wrong with a damaged file or another format
    if digest != WEIGHTS_SHA256:
        raise ModelFileError(
            f"{WEIGHTS} holds other weights (SHA-256 {digest[:12]}...) than this version of deepsep was made with "
            f"({WEIGHTS_SHA256[:12]}...). Install deepsep again."
        )
    return network.to(device).requires_grad_(False)

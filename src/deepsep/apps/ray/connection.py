"""The connection to a Ray cluster: that of this process, one at an address, or one that is started here."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from deepsep.core.checks import is_integer
from deepsep.errors import ParameterError, Setting, missing_package

LOCAL_CLUSTER = "local"  # makes Ray start a cluster on this machine, even if one is running


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[tuple[Any, int]]:
    """Yield Ray's module and the number of workers, by default one for each CPU; disconnect at the end.

    Uses the cluster that this process is connected to, if any; otherwise joins the one at ``address``, by default that
    in the variable RAY_ADDRESS. If that is "local", or there is none, a cluster is started on this machine.
    """
    if not (workers is None or is_integer(workers, 1)):
        raise ParameterError("{workers}; pass a positive integer or None.", workers=Setting("workers", workers))
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise missing_package('engine="ray"', "ray") from error
    ours = not ray.is_initialized()
    if ours:
        _join(ray, address, workers)
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if workers is not None and workers > cpus:
            raise ParameterError(
                f"{{workers}}, but the Ray cluster has {cpus} CPUs. Ask for fewer workers, or add machines to it.",
                workers=Setting("workers", workers),
            )
        yield ray, workers or max(cpus, 1)
    finally:
        if ours:
            ray.shutdown()


def _join(ray: Any, address: str | None, workers: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    place = address or os.environ.get("RAY_ADDRESS") or LOCAL_CLUSTER
    if place == LOCAL_CLUSTER:
        ray.init(address=place, num_cpus=workers, include_dashboard=False, **options)
        return
    try:
        _knock(place)
        ray.init(address=place, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ParameterError(
            f"{'{address}' if address else f'RAY_ADDRESS={place}'}: no Ray cluster answers "
            f"({str(error).splitlines()[0]}). Start one with `ray start --head` and name its address, or leave the "
            "address out: a cluster is then started on this machine.",
            address=Setting("address", place),
        ) from error


def _knock(address: str) -> None:
    """Raise unless something listens at an address, within ten seconds: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()

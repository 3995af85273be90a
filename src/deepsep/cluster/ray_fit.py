"""Fits on a Ray cluster: the boundaries of a TSVM, and the student of a committee."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sklearn.pipeline import Pipeline

from deepsep.classifiers.committee import Committee
from deepsep.classifiers.deepsep import DeepSep
from deepsep.classifiers.tsvm import TSVM
from deepsep.cluster.connection import connected
from deepsep.cluster.ray_network import RayNetwork
from deepsep.cluster.sharded_rows import SHARD_ROWS, ShardedRowsMaker
from deepsep.core.checks import is_integer
from deepsep.errors import ParameterError, Setting


class Cluster:
    """What a fit asks of a cluster.

    Attributes
    ----------
    make_rows : callable
        Makes the pass of a TSVM over its rows; called as :class:`deepsep.solvers.rows.Rows`.
    make_network : callable
        Makes the network of a student; called as :class:`deepsep.networks.NumpyNetwork`.
    """

    def __init__(self, ray: Any, n_workers: int, shard_rows: int) -> None:
        self.make_rows = ShardedRowsMaker(ray, n_workers, shard_rows=shard_rows)
        self.make_network = partial(RayNetwork, ray, n_workers)


@contextmanager
def on_ray(
    model: Any, *, address: str | None = None, workers: int | None = None, shard_rows: int = SHARD_ROWS
) -> Iterator[None]:
    """Let a model be fitted on a Ray cluster inside a ``with`` block.

    The unlabelled rows of a :class:`deepsep.TSVM`, and those of the boundaries of a :class:`deepsep.DeepSep`, are
    divided into shards, which the workers hold. Sums over the shards are added in their order, so that the result has
    the same bits with any number of workers, and differs from that of one machine in rounding alone. The student of a
    :class:`deepsep.Committee` is trained by Ray Train, on all workers at once; its members are fitted here. A worker
    that dies is replaced, and the result is the same.

    Uses the cluster that this process is connected to, if any; otherwise joins the one at ``address``, or starts one
    here. All machines need the same version of deepsep. The rows are in the memory of this process first.

    Parameters
    ----------
    model : TSVM, DeepSep or Committee, or a pipeline that ends in one
        The model to fit. It is not changed by it, and its clones are fitted here.
    address : str, optional
        Address of the Ray cluster, such as "auto" or "10.0.0.1:6379". None: that of the variable RAY_ADDRESS.
        "local", or neither: one is started on this machine.
    workers : int, optional
        Processes with a CPU each. None: one for each CPU of the cluster.
    shard_rows : int, optional
        Unlabelled rows in a shard. A TSVM of fewer rows is solved here.

    Raises
    ------
    ParameterError
        If the method cannot be fitted on a cluster, no cluster answers, or it has too few CPUs.
    ImportError
        If Ray is not installed.

    Examples
    --------
    ::

        from deepsep import TSVM
        from deepsep.cluster import on_ray

        model = TSVM()
        with on_ray(model, workers=4):
            model.fit(X, y)
    """
    estimator = model[-1] if isinstance(model, Pipeline) else model
    check_distributed(estimator)
    if not is_integer(shard_rows, 1):
        raise ParameterError("{rows}; pass a positive integer.", rows=Setting("shard_rows", shard_rows))
    with connected("a fit on Ray", address, workers) as (ray, n_workers):
        estimator._cluster = cluster = Cluster(ray, n_workers, shard_rows)
        try:
            yield
        finally:
            del estimator._cluster
            cluster.make_rows.stop()


def check_distributed(estimator: Any) -> None:
    """Raise unless a part of the fit of an estimator can be done on a cluster."""
    if not isinstance(estimator, TSVM | DeepSep | Committee):
        name = getattr(estimator, "method_name", type(estimator).__name__)
        raise ParameterError(
            f"{name} cannot be fitted on a Ray cluster. These can: tsvm, deepsep (its boundaries) and committee (its "
            "student)."
        )
    if isinstance(estimator, Committee) and not estimator.student:
        raise ParameterError(
            "of a committee, the student is trained on a Ray cluster, and with student=False there is none. Leave that "
            "out, or fit here."
        )

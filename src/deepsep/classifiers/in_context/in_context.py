"""The in-context network as a classifier: a fit is a forward pass."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from scipy.stats import beta

from deepsep import networks
from deepsep.classifiers.base import WithPriors
from deepsep.classifiers.declared_settings import integer, settings
from deepsep.classifiers.in_context.column_importances import column_importances
from deepsep.classifiers.in_context.context_draw import draw_context, order_by_content
from deepsep.classifiers.in_context.spectral_map import SpectralMap
from deepsep.core.arrays import Array, checked_array
from deepsep.core.checks import require
from deepsep.core.probability import mixture_weights
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DataError, DeepSepWarning, ModelFileError, warn
from deepsep.evaluation.folds import LabeledFold
from deepsep.networks import choose_device

if TYPE_CHECKING:
    from deepsep.networks import ContextView, Member


# The weights of the views without evidence. One member stands for all in the folds, and averaging members helps the
# view of columns more.
USUAL_WEIGHTS = {"columns": 0.6, "components": 0.4}
MAX_GRAPH_ROWS = 4_000


class _Context(NamedTuple):
    """Rows that the network has read, in their original units."""

    values: Array  # (c, d)
    codes: Array  # (c,)
    centre: Array  # (d,)
    spread: Array  # (d,)

    @classmethod
    def of(cls, values: Array, codes: Array) -> Self:
        # The median, since the distance to an outlier would make differences between other rows negligible.
        centre = np.median(values.astype(np.float64), axis=0)
        spread = np.abs(values - centre).mean(axis=0)
        return cls(values, codes, centre, np.where(spread > 0, spread, 1.0))


@settings
class InContext(WithPriors):
    r"""A network trained beforehand on millions of synthetic tables: it classifies a new table in one pass.

    Nothing is trained in a fit. The network reads a *context*, the labelled rows and a sample of the unlabelled ones,
    and then predicts any row; it was trained to use the unlabelled rows for classes and their shares. Several members
    read the same context with other identities of the columns and other numbers of the classes, and their probabilities
    are averaged. Predicted rows never influence one another: on a CPU a row gets the same bits alone or among a
    million.

    A fitted model, and so a saved one, **contains rows of the training table**, those of its context; ``context_size``
    limits their number. With ``view="spectral"`` it also contains up to 4,000 rows as principal components.

    Parameters
    ----------
    view : {"columns", "components", "both", "spectral"}, default="both"
        Input of the network: the columns as they are, which suits surveys and most company tables; their first 40
        principal components, which suit many correlated numbers; or both, averaged with weights from held-out labelled
        rows (``view_weights_``). Both take a little more than twice as long. "spectral": coordinates in a graph of
        nearest neighbours among up to 4,000 rows, most of them unlabelled, which suit tables whose classes are
        clusters; it needs unlabelled rows.
    n_members : int, default=4
        Number of members of each view. More members take more time and are slightly more accurate. With more than 128
        columns, each sees a different selection of 128, drawn in proportion to the importances of the columns in a
        small forest fitted to the labels of the context (``columns_``).
    context_size : int, default=1000
        Maximum number of rows in the context, and so of rows of the training table in a saved model. A quarter is kept
        for unlabelled rows. If the labelled rows do not all fit into the rest, they are drawn evenly from the classes;
        otherwise unlabelled rows fill it up. The network was trained with up to 3,072.
    priors : dict {class: share}, optional
        Class shares in the population of which the unlabelled rows are a sample. Probabilities are multiplied by a
        factor for each class such that their means over the unlabelled rows are these shares.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of the network. "auto": a GPU if there is one.
    random_state : int, RandomState or None, default=None
        The same seed on the same machine gives the same bits.

    Attributes
    ----------
    classes_ : array (c,)
        The classes.
    transduction_ : array (n,)
        Labels of the training rows: those given, and predictions for the others.
    label_distributions_ : array (n, c)
        Class probabilities of the training rows. Labelled rows are predicted like others.
    context_ : array of int
        The training rows in the context, labelled ones first; a row of weight k may occur k times.
    graph_ : array of int
        The training rows in the graph of nearest neighbours: those of the context and others. Only with
        ``view="spectral"``.
    columns_ : array (n_members, k) of int
        The columns that each member sees in the view of columns. Columns that are constant in the context are left out.
    view_weights_ : dict of str to float
        Weight of each view. Weights are 0.6 and 0.4 if a class has a single labelled row in the context, which cannot
        be held out.
    view_distributions_ : dict of str to array (n, c)
        Class probabilities of the training rows by each view, before ``priors``. Not in a saved model.
    estimated_shares_ : array (c,)
        Shares of the classes in the population, estimated from the unlabelled rows of the context by a part of the
        network that was trained for this, without ``priors``.
    estimated_shares_interval_ : array (c, 2)
        Their 90 % intervals, averaged over the members.
    prior_shift_ : array (c,)
        Logarithms of the factors of the classes, with ``priors`` only.

    Notes
    -----
    The network has 32 classes. With more, a member reads the context several times, each time with 31 separate classes
    and all others as one.

    Sample weights act through the draw of the context: a weight of k is k copies of a row if they fit, and a row of
    weight 0 is never in it.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import InContext
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(4, 1, (100, 2))])
    >>> y = np.full(300, None)
    >>> y[:5], y[-5:] = "near", "far"
    >>> model = InContext(view="columns", random_state=0).fit(X, y)
    >>> bool((model.predict(X[200:]) == "far").mean() > 0.9)
    True
    """

    method_name = "in-context"

    view: Literal["columns", "components", "both", "spectral"] = "both"
    n_members: int = integer(4, 1)
    context_size: int = integer(1000, 2)
    priors: Mapping[Any, float] | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    random_state: Any = None

    @property
    def needs_unlabeled(self) -> bool:
        """Whether a fit to labelled rows alone fails."""
        return self.view == "spectral"

    # -- fitting ---------------------------------------------------------------------------------------------

    def _check_with_classes(self) -> None:
        c = len(self.classes_)
        require(self, "context_size", self.context_size >= c, f"at least {c}: one labelled row for each class")
        super()._check_with_classes()

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array | None:
        self._forget("_have_read")
        self._weights = networks.WEIGHTS_SHA256
        self._device = choose_device(self.device)
        self._draw(rows, rng)
        self._forget("graph_")
        self._graph = self._draw_graph(rows, rng) if self.view == "spectral" else None
        self._draw_members(rng)
        self.view_weights_ = self._weigh_views(rng)
        self._estimate_shares()
        if rows.context.for_new_rows and self.priors is None:
            return None
        self.view_distributions_ = {name: self._ask(name, rows.X) for name in self._views()}
        return self._shift_to_priors(self._mix(self.view_distributions_), rows)

    def _draw(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        self.context_, left_out = draw_context(rows, int(self.context_size), rng)
        if left_out:
            kept = len(rows.labeled) - left_out
            warn(
                f"{len(rows.labeled)} labelled rows do not fit into a context of {self.context_size} rows with "
                f"unlabelled ones: it holds {kept} of them, drawn evenly from the classes. Raise context_size to use "
                "more.",
                DeepSepWarning,
            )
        self._context = _Context.of(np.ascontiguousarray(rows.X[self.context_]), rows.codes[self.context_])

    def _draw_graph(self, rows: TrainingRows, rng: np.random.Generator) -> SpectralMap:
        """Return the spectral coordinates of the context and of other rows."""
        if not rows.unlabeled.size:
            raise DataError(
                'InContext: view="spectral" learns from unlabelled rows, and there are none. Pass them in X as well, '
                "with None in y, or choose another view."
            )
        others = np.setdiff1d(np.flatnonzero(rows.weight > 0), self.context_)
        room = max(0, MAX_GRAPH_ROWS - len(self.context_))
        if len(others) > room:
            others = rng.permutation(order_by_content(rows.X, others))[:room]
        self.graph_ = np.concatenate([self.context_, others])
        some = self._scale(np.concatenate([self._context.values, rows.X[others]]))
        return SpectralMap.of(some[: len(self.context_)], some)

    def _draw_members(self, rng: np.random.Generator) -> None:
        c, n, values = len(self.classes_), int(self.n_members), self._context.values
        identity = networks.pretrained_network(self._device).sizes.identity
        self.columns_ = self._draw_columns(np.arange(len(values)), n, rng)
        self._members = {}
        if self.view in ("columns", "both"):
            self._members["columns"] = [networks.draw_member(c, columns, identity, rng) for columns in self.columns_]
        if self.view in ("components", "both"):
            every = np.arange(networks.components_of(self._scale(values)).axes.shape[2])
            self._members["components"] = [networks.draw_member(c, every, identity, rng) for _ in range(n)]
        if self._graph is not None:
            every = np.arange(len(self._graph.values))
            self._members["spectral"] = [networks.draw_member(c, every, identity, rng) for _ in range(n)]

    def _draw_columns(self, rows: Array, n_members: int, rng: np.random.Generator) -> Array:
        """Return the columns that each member sees, drawn by the labels of some rows of the context."""
        values = self._context.values
        varying = np.flatnonzero((values != values[0]).any(axis=0))
        if not varying.size:
            varying = np.arange(values.shape[1])
        importances = None
        if self.view in ("columns", "both") and len(varying) > networks.MOST_COLUMNS:
            labeled = rows[self._context.codes[rows] >= 0]
            importances = column_importances(values[labeled][:, varying], self._context.codes[labeled], rng)
        return networks.draw_columns(varying, n_members, rng, importances=importances)

    def _views(self) -> dict[str, ContextView]:
        """Return the context as read by the members of each view; it is read again after a copy or a load."""
        if "_have_read" not in self.__dict__:
            context = self._scale(self._context.values)
            self._have_read = {
                name: networks.ContextView(
                    networks.pretrained_network(self._device),
                    self._shown(name, context),
                    self._context.codes,
                    members,
                    networks.components_of(context) if name == "components" else None,
                )
                for name, members in self._members.items()
            }
        return self._have_read

    def _shown(self, view: str, scaled: Array) -> Array:
        """Return scaled rows as a view shows them to its members, who find components themselves."""
        return scaled if self._graph is None or view != "spectral" else self._graph(scaled)

    def _scale(self, X: Array) -> Array:
        """Return rows in single precision, centred and scaled by the context."""
        # The network does not distinguish values beyond 1e4, which might become infinite in single precision.
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((X - self._context.centre) / self._context.spread, -1e4, 1e4), dtype=np.float32)

    def _weigh_views(self, rng: np.random.Generator, max_unlabeled: int = 300) -> dict[str, float]:
        """Return the weight of each view from its predictions of held-out labelled rows.

        Each fold reads the context again, so only one member and ``max_unlabeled`` unlabelled rows take part.
        """
        seed = int(rng.integers(2**31))
        names, codes = list(self._members), self._context.codes
        labeled = np.flatnonzero(codes >= 0)
        # Copies of a row are in the same fold, so that its label is not in the context that predicts it.
        _, first, copy_of, copies = np.unique(
            np.column_stack([self._context.values[labeled], codes[labeled]]),
            axis=0,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        truth = codes[labeled[first]]
        folds = min(5, int(np.bincount(truth).min()))
        if len(names) == 1:
            return {names[0]: 1.0}
        if folds < 2:
            return dict(USUAL_WEIGHTS)
        context = self._scale(self._context.values)
        unlabeled = np.flatnonzero(codes < 0)
        unlabeled = unlabeled[np.linspace(0, len(unlabeled) - 1, min(len(unlabeled), max_unlabeled)).astype(int)]
        likelihoods = np.empty((len(names), len(truth)))
        for i, name in enumerate(names):
            # Components of all rows, since they do not depend on the labels.
            components = networks.components_of(context) if name == "components" else None
            for _, test in LabeledFold(folds, random_state=seed).split(None, truth):
                kept = np.concatenate([labeled[~np.isin(copy_of, test)], unlabeled])
                member = self._members[name][0]
                if name == "columns" and len(member.columns) == networks.MOST_COLUMNS:
                    # Columns that were chosen by the labels held out would make them easier than those of new rows.
                    columns = self._draw_columns(kept, 1, np.random.default_rng(seed))[0]
                    member = dataclasses.replace(member, columns=columns)
                view = networks.ContextView(
                    networks.pretrained_network(self._device), context[kept], codes[kept], [member], components
                )
                likelihoods[i, test] = view.probabilities(context[labeled[first[test]]])[
                    np.arange(len(test)), truth[test]
                ]
        weights = mixture_weights(likelihoods, copies.astype(float)) * [USUAL_WEIGHTS[name] for name in names]
        return dict(zip(names, (weights / weights.sum()).tolist(), strict=True))

    def _estimate_shares(self) -> None:
        mean, ends = np.zeros(len(self.classes_)), np.zeros((len(self.classes_), 2))
        tail = (1 - 0.9) / 2
        for name, view in self._views().items():
            each = view.shares()
            # The share of one class under a Dirichlet distribution has a beta distribution.
            quantiles = beta.ppf(
                np.array([tail, 1 - tail])[:, None, None],
                each.concentration * each.mean,
                each.concentration * (1 - each.mean),
            )
            mean += self.view_weights_[name] * each.mean.mean(axis=0)
            ends += self.view_weights_[name] * quantiles.mean(axis=1).T
        self.estimated_shares_, self.estimated_shares_interval_ = mean / mean.sum(), ends

    # -- predicting ------------------------------------------------------------------------------------------

    def _probabilities(self, X: Array) -> Array:
        return self._shifted(self._mix({name: self._ask(name, X) for name in self._views()}))

    def _ask(self, name: str, X: Array, chunk: int = 16_384) -> Array:
        view = self._views()[name]
        parts = [self._shown(name, self._scale(X[start : start + chunk])) for start in range(0, len(X), chunk)]
        return np.concatenate([view.probabilities(part) for part in parts])

    def _mix(self, by_view: Mapping[str, Array]) -> Array:
        if len(by_view) == 1:
            return next(iter(by_view.values()))
        weights = np.array([self.view_weights_[name] for name in by_view])
        sharpness = 1 / 0.9  # two views together are more confident than their geometric mean
        return networks.pool(list(by_view.values()), sharpness * weights)

    # -- copying and saving ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the contexts as the network read them, which are large and can be read again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_have_read"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder: short for ``deepsep.save(model, path)``.

        The folder contains rows of the training table, those of ``context_``, with their labels, which the model
        needs to predict. Fit with a smaller ``context_size`` to keep fewer. With ``view="spectral"`` it also contains
        up to 4,000 rows as principal components, without labels.
        """
        super().save(path)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state = {"weights": self._weights, "view_weights_": self.view_weights_}
        arrays = {
            "context_": self.context_,
            "context_rows": self._context.values,
            "context_codes": self._context.codes.astype(np.int32),
            "columns_": self.columns_,
            "estimated_shares_": self.estimated_shares_,
            "estimated_shares_interval_": self.estimated_shares_interval_,
        }
        if self._graph is not None:
            arrays |= {"graph_": self.graph_, **self._graph.to_arrays()}
        for name, members in self._members.items():
            for part in ("columns", "identities", "codings"):
                arrays[f"{name}/{part}"] = np.stack([getattr(member, part) for member in members])
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._weights = str(state["weights"])
        if self._weights != networks.WEIGHTS_SHA256:
            warn(
                f"the model was fitted with other weights of the in-context network ({self._weights[:12]}...) than "
                f"this version of deepsep has ({networks.WEIGHTS_SHA256[:12]}...), which read its rows again. So its "
                "probabilities are new ones, and the accuracy that it stated after the fit does not hold for them. "
                "Fit it again, or load it with the version of deepsep that saved it.",
                DeepSepWarning,
            )
        c, d = len(self.classes_), self.n_features_in_
        self.view_weights_ = state["view_weights_"]
        self.context_ = checked_array(arrays, "context_", (None,), "i")
        self.columns_ = checked_array(arrays, "columns_", (None, None), "i")
        self.estimated_shares_ = checked_array(arrays, "estimated_shares_", (c,), "f")
        self.estimated_shares_interval_ = checked_array(arrays, "estimated_shares_interval_", (c, 2), "f")
        rows = checked_array(arrays, "context_rows", (len(self.context_), d), "f")
        codes = checked_array(arrays, "context_codes", (len(self.context_),), "i")
        if codes.size and not (codes.min() >= -1 and codes.max() < c):
            raise ModelFileError("the context of the model has labels beyond its classes. Save the model again.")
        self._context = _Context.of(rows, codes)
        self._members = {name: _take_members(arrays, name, c) for name in self.view_weights_}
        self._graph = None
        if "spectral" in self._members:
            self.graph_ = checked_array(arrays, "graph_", (None,), "i")
            self._graph = SpectralMap.from_arrays(arrays, d)
        # A model that was fitted on a GPU can be loaded without one.
        self._device = choose_device("auto" if self.device == "cuda" else self.device)
        if self._weights != networks.WEIGHTS_SHA256:
            self._members = {name: self._fit_identities(members) for name, members in self._members.items()}

    def _fit_identities(self, members: list[Member]) -> list[Member]:
        """Return members with identities of columns as long as the network's, which other weights may change."""
        size, rng = networks.pretrained_network(self._device).sizes.identity, np.random.default_rng(0)
        return [
            member
            if member.identities.shape[1] == size
            else dataclasses.replace(member, identities=rng.standard_normal((len(member.columns), size), np.float32))
            for member in members
        ]

    def _check_restored(self) -> None:
        """Skip the check, which would read the whole context and take seconds."""


def _take_members(arrays: Mapping[str, Any], view: str, n_classes: int) -> list[Member]:
    columns = checked_array(arrays, f"{view}/columns", (None, None), "i")
    identities = checked_array(arrays, f"{view}/identities", (*columns.shape, None), "f")
    codings = checked_array(arrays, f"{view}/codings", (len(columns), None, n_classes), "i")
    return [networks.Member(*parts) for parts in zip(columns, identities, codings, strict=True)]

"""What a fitted DeepSep is: the networks of all rounds, and how they predict, embed, and are saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from deepsep import networks
from deepsep.core.arrays import take, take_codes
from deepsep.core.probability import shifted, temper
from deepsep.core.scaling import Scaling
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import read_rows
from deepsep.errors import ParameterError
from deepsep.files.saving import save
from deepsep.networks import Committee, Network, NetworkAverage, NumpyNetwork, member_states

Array = NDArray[Any]

SAVED_VALUES = ("history_", "n_rounds_", "n_iter_", "temperature_")


class Rounds(ClassifierMixin, TransformerMixin, BaseEstimator):
    """The networks of rounds 0 (the initial one) to T. :class:`deepsep.DeepSep` trains them."""

    # Settings that say what a network looks like.
    hidden: Sequence[int]
    dropout: float
    encoder: Any
    l2: float | Sequence[float]
    device: str

    # What training leaves behind.
    classes_: Array
    transduction_: Array
    label_distributions_: Array
    n_rounds_: int
    temperature_: float
    prior_shift_: Array  # only with priors
    _states: list[dict[str, Array]]  # one a round, from the initial one on
    _weights: Array  # of rounds 1 to T in the moving average
    _scaling: Scaling
    _row_shape: tuple[int, ...]
    _hidden: tuple[int, ...]
    _backend: str
    _device: str

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's own precision
        return tags

    # -- networks --------------------------------------------------------------------------------------------

    def _make_network(self, c: int, d: int, n: int, rng: np.random.Generator, noise: float = 0.0) -> Network:
        """Return a network, or a committee of ``n``; with noise to train it, and without to ask it."""
        members = [self._make_member(c, d, rng, noise) for _ in range(n)]
        return members[0] if n == 1 else Committee(members)

    def _make_member(self, c: int, d: int, rng: np.random.Generator, noise: float) -> Network:
        if self._backend == "numpy":
            return NumpyNetwork(
                d, c, hidden=self._hidden, dropout=self.dropout, noise=noise, l2=self._penalties(), rng=rng
            )
        shape = d if self.encoder is None else self._row_shape
        return networks.TorchNetwork(
            shape,
            c,
            encoder=self.encoder,
            hidden=self._hidden,
            dropout=self.dropout,
            noise=noise,
            l2=self._penalties(),
            device=self._device,
            rng=rng,
        )

    def _penalties(self) -> float | tuple[float, ...]:
        if not isinstance(self.l2, Sequence):
            return float(self.l2)
        if self.encoder is not None or len(self.l2) == 1:
            return float(self.l2[0])
        layers = len(self._hidden) + 1
        return tuple(np.interp(np.linspace(0, 1, layers), np.linspace(0, 1, len(self.l2)), self.l2).tolist())

    # -- predicting ------------------------------------------------------------------------------------------

    def _build_average(self) -> None:
        """Pack the rounds' networks for prediction; with T = 0 the initial one."""
        states = self._states[1:] or self._states
        self._packed = None
        if self.encoder is None:
            rounds = [member_states(state) for state in states]
            members = [member for states in rounds for member in states]
            each = [w / len(states) for w, states in zip(self._weights, rounds, strict=True) for _ in states]
            self._packed = NetworkAverage(members, np.array(each), self._scaling.centre, self._scaling.scale)

    def _network(self, state: dict[str, Array]) -> Network:
        d = int(np.prod(self._row_shape))
        if self._device == "cuda":  # a model that was fitted on a GPU also serves where there is none
            import torch

            self._device = "cuda" if torch.cuda.is_available() else "cpu"
        # As many as there are in the state: the setting may have been changed since the fit.
        network = self._make_network(len(self.classes_), d, len(member_states(state)), np.random.default_rng(0))
        network.load_state(state)
        return network

    def _check_rows(self, X: Any) -> Array:
        check_is_fitted(self, "n_rounds_")
        X = read_rows(self, X, reset=False, allow_nd=self.encoder is not None)
        return validate_shape(X, self._row_shape)

    def _probabilities(self, rows: Array) -> Array:
        if self._packed is not None:
            with one_blas_thread():
                p = self._packed.predict_proba(rows)
        else:
            scaled = self._scaling.apply(rows)
            states = self._states[1:] or self._states
            p = np.zeros((len(rows), len(self.classes_)))
            for weight, state in zip(self._weights, states, strict=True):
                p += weight * self._network(state).predict_proba(scaled)
            p /= p.sum(axis=1, keepdims=True)
        p = p if self.temperature_ == 1.0 else temper(p, self.temperature_)
        return shifted(p, self.prior_shift_) if hasattr(self, "prior_shift_") else p

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row: the moving average over the rounds' networks."""
        rows = self._check_rows(X)
        return self._probabilities(rows)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of every row, labelled or not."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def round_proba(self, X: Any, round: int = -1) -> Array:
        """Return the probabilities of one round's network alone: 0 is the initial network, -1 the last one."""
        rows = self._check_rows(X)
        p = self._network(self._state_of(round)).predict_proba(self._scaling.apply(rows)).astype(np.float64)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def round_embedding(self, X: Any, round: int = -1) -> Array:
        """Return the embedding of every row by one round's network: 0 is the initial network, -1 the last one."""
        rows = self._check_rows(X)
        return self._network(self._state_of(round)).embed(self._scaling.apply(rows))

    def _state_of(self, round: int) -> dict[str, Array]:
        if not -len(self._states) <= round < len(self._states):
            raise ParameterError(f"round={round}: the model has rounds 0 (the initial network) to {self.n_rounds_}.")
        return self._states[round]

    def transform(self, X: Any) -> Array:
        """Return the embedding f of every row, by the last network; several stand side by side."""
        return self.round_embedding(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of ``transform``: deepsep0, deepsep1 and so on."""
        check_is_fitted(self, "n_rounds_")
        width = sum(state["head.weight"].shape[1] for state in member_states(self._states[-1]))
        return np.array([f"deepsep{i}" for i in range(width)], dtype=object)

    def save(self, path: Any) -> None:
        """Save the fitted model as a folder; the same as ``deepsep.save(model, path)``."""
        save(self, path)

    # -- saving ----------------------------------------------------------------------------------------------

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a saved model holds beside settings, classes and columns: plain values, and arrays."""
        state = {name: getattr(self, name) for name in SAVED_VALUES}
        state |= {"row_shape": list(self._row_shape), "hidden": list(self._hidden), "n_networks": len(self._states)}
        arrays = {f"round{t}/{name}": value for t, saved in enumerate(self._states) for name, value in saved.items()}
        arrays |= {"centre": self._scaling.centre, "scale": self._scaling.scale, "round_weights": self._weights}
        if hasattr(self, "prior_shift_"):
            arrays["prior_shift_"] = self.prior_shift_
        arrays["label_distributions_"] = self.label_distributions_
        arrays["transduction_"] = np.searchsorted(self.classes_, self.transduction_).astype(np.int32)
        return state, arrays

    @classmethod
    def _from_parts(cls, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Return the fitted model that ``_to_parts`` took apart; ``state`` also has the classes and the columns."""
        model = cls(**params)
        model._row_shape, model._hidden = tuple(state.pop("row_shape")), tuple(state.pop("hidden"))
        n_networks = state.pop("n_networks")
        model.__dict__.update(state)
        c, d = len(model.classes_), int(np.prod(model._row_shape))
        model._scaling = Scaling(*(take(arrays, name, (d,), "f") for name in ("centre", "scale")))
        model._states = []
        for t in range(n_networks):
            prefix = f"round{t}/"
            model._states.append({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
        model._backend = "numpy" if model.encoder is None else "torch"
        model._device = "cpu" if model.encoder is None or model.device == "cpu" else "cuda"  # if there is one
        for saved in model._states:
            model._network(saved)  # raises where the weights are not those of such a network
        codes = take_codes(arrays, "transduction_", c)
        model.transduction_ = model.classes_[codes]
        model.label_distributions_ = take(arrays, "label_distributions_", (len(codes), c), "f")
        model._weights = take(arrays, "round_weights", (max(n_networks - 1, 1),), "f")
        if "prior_shift_" in arrays:
            model.prior_shift_ = take(arrays, "prior_shift_", (c,), "f")
        model._build_average()
        return model


def validate_shape(X: Any, row_shape: tuple[int, ...]) -> Array:
    """Return rows flattened, or raise if they do not have the shape of the training rows."""
    X = np.asarray(X)
    if X.shape[1:] != row_shape:
        raise ParameterError(f"X has rows of shape {X.shape[1:]}; the model was trained on rows of shape {row_shape}.")
    return np.asarray(X.reshape(len(X), -1))

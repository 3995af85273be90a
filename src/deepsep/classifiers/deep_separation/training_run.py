"""A run of Algorithm 1: its rows, its network and its history, and the networks of all rounds that it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deepsep import networks
from deepsep.core.arrays import Array
from deepsep.core.history import History, Row
from deepsep.core.probability import round_weights
from deepsep.core.scaling import ScaledRows, Scaling
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ParameterError
from deepsep.networks import Architecture, Loss, Network, NetworkAverage, NetworkCommittee, member_states


@dataclass(frozen=True)
class Phase:
    """Phase of training: its name, rows, loss, epochs and learning rate."""

    name: str
    on_unlabeled: bool
    loss: Loss
    epochs: int
    learning_rate: float
    batch_size: int
    stops_early: bool = False  # if rows are held out
    most_rows: int | None = None  # drawn at random if there are more


@dataclass(frozen=True, kw_only=True)
class SplitRows(TrainingRows):
    """Training rows as a matrix, some of them held out: ``labeled`` is D₀, and ``unlabeled`` D₁."""

    scaling: Scaling  # scaling of the features
    validation: Array  # the labelled rows held out
    device: str | None  # device of the rows for torch; None: they are scaled on demand

    @cached_property
    def labeled(self) -> Array:
        """Indices of the labelled rows with positive weight that are not held out."""
        return np.setdiff1d(super().labeled, self.validation)

    @cached_property
    def D0(self) -> Any:
        """The labelled rows, scaled, on the device."""
        return self.part(self.labeled)

    @cached_property
    def D1(self) -> Any:
        """The unlabelled rows, scaled, on the device."""
        return self.part(self.unlabeled)

    def part(self, index: Array) -> Any:
        """Return these rows, scaled: on demand for NumPy, at once for torch."""
        rows = ScaledRows(self.X, self.scaling, index)
        return rows if self.device is None else networks.tensor(rows[:], self.device)

    def unlabeled_in_chunks(self, size: int = 8_192) -> Iterator[tuple[slice, Any]]:
        """Yield D₁ chunk by chunk, each with its slice."""
        for start in range(0, len(self.unlabeled), size):
            at = slice(start, start + size)
            yield at, self.D1[at]


class TrainingRun:
    """A network in training on ``rows``, with a ``history`` of one row for each round and phase."""

    def __init__(self, rows: SplitRows, network: Network, history: History, decay: float) -> None:
        self.rows, self.network, self.history, self.decay = rows, network, history, decay
        self.states: list[dict[str, Array]] = []  # weights after each round, from the initial one on
        self._predicted: Array | None = None  # classes of D₁ after the last round
        self._held_out: list[Array] = []  # probabilities of the rows held out, by round

    @property
    def round(self) -> int:
        """The number of the current round; 0 is the initial phase."""
        return len(self.states)

    def train(self, phase: Phase, targets: Array, rng: np.random.Generator) -> None:
        """Train on D₀ or D₁, and add a row to the history."""
        if phase.stops_early and self.rows.validation.size:
            members = self.network.in_turn() if isinstance(self.network, NetworkCommittee) else [self.network]
            each = [self._train_until_no_better(member, phase, targets, rng) for member in members]
            done: Row = {"epochs": max(n for n, _ in each), "loss": float(np.mean([loss for _, loss in each]))}
        else:
            losses = self._train(self.network, phase, targets, rng, self.history.phase(phase.name))
            done = {"epochs": len(losses), "loss": losses[-1] if losses else None}
        self.history.add(round=self.round, phase=phase.name, **done)

    def _train(
        self, network: Network, phase: Phase, targets: Array, rng: np.random.Generator, on_epoch: Any
    ) -> list[float]:
        rows = self.rows
        index, X = (rows.unlabeled, rows.D1) if phase.on_unlabeled else (rows.labeled, rows.D0)
        if phase.most_rows is not None and phase.most_rows < len(index):
            drawn = np.sort(rng.choice(len(index), phase.most_rows, replace=False))
            index, targets = index[drawn], targets[drawn]
            X = rows.part(index)
        return network.train(
            X,
            targets,
            loss=phase.loss,
            epochs=phase.epochs,
            lr=phase.learning_rate,
            batch_size=phase.batch_size,
            rng=rng,
            weight=rows.weight[index] if rows.weighted else None,
            on_epoch=on_epoch,
        )

    def _train_until_no_better(
        self, network: Network, phase: Phase, targets: Array, rng: np.random.Generator, patience: int = 20
    ) -> tuple[int, float]:
        """Train until the validation loss has not improved for ``patience`` epochs; return the best epoch and loss."""
        best, best_state, best_epoch = np.inf, network.state(), 0
        report = self.history.phase(phase.name)
        held_out = self.rows.part(self.rows.validation)

        def on_epoch(epoch: int, loss: float) -> bool:
            nonlocal best, best_state, best_epoch
            report(epoch, loss)
            now = self._validation_loss(network.predict_proba(held_out))
            if now < best:
                best, best_state, best_epoch = now, network.state(), epoch
            return epoch - best_epoch >= patience

        losses = self._train(network, phase, targets, rng, on_epoch)
        network.load_state(best_state)
        return best_epoch + 1, losses[best_epoch]

    def end_round(self) -> None:
        """Store the round's network, and add class shares, agreement and validation to the history."""
        rows, t = self.rows, self.round
        self.states.append(self.network.state())
        predicted = np.empty(len(rows.unlabeled), np.int32)
        for at, X in rows.unlabeled_in_chunks():
            predicted[at] = self.network.predict_proba(X).argmax(axis=1)
        row: Row = {
            "round": t,
            "phase": "end",
            "shares": self.shares(predicted),
            "agreement": None if t == 0 else float((predicted == self._predicted).mean()),
        }
        if rows.validation.size:
            now = self.network.predict_proba(rows.part(rows.validation)).astype(np.float64)
            self._held_out = [*(self._held_out if t > 1 else []), now]  # the moving average is over rounds 1 to t
            average = np.tensordot(round_weights(len(self._held_out), self.decay), self._held_out, 1)
            own = rows.codes[rows.validation]
            row["validation_accuracy_network"] = float((now.argmax(axis=1) == own).mean())
            row["validation_accuracy"] = float((average.argmax(axis=1) == own).mean())
            row["validation_loss"] = self._validation_loss(average)
        self._predicted = predicted
        self.history.add(**row)

    def is_done(self) -> bool:
        """Return whether the moving average has not improved for two rounds on the held-out rows."""
        losses = [row["validation_loss"] for row in self.history.rows if row.get("validation_loss") is not None]
        return len(losses) > 3 and min(losses[-2:]) > min(losses[:-2])

    def interrupt(self) -> None:
        """Keep the complete rounds after an interruption, or the initial network as it is."""
        if not self.states:
            network = self.network.begun() if isinstance(self.network, NetworkCommittee) else self.network
            self.states.append(network.state())

    def shares(self, codes: Array) -> list[float]:
        """Return the shares of the classes among these codes."""
        counts = np.bincount(codes, minlength=self.rows.n_classes)
        return [float(share) for share in counts / max(len(codes), 1)]

    def _validation_loss(self, probabilities: Array) -> float:
        held = self.rows.validation
        own = probabilities[np.arange(len(held)), self.rows.codes[held]]
        return float(-np.average(np.log(np.maximum(own, 1e-12)), weights=self.rows.weight[held]))


@dataclass(frozen=True)
class TrainedRounds:
    """The networks of rounds 0 (the initial one) to T."""

    architecture: Architecture  # architecture of every network
    scaling: Scaling  # scaling of the rows
    states: list[dict[str, Array]]  # weights of each round's network, from the initial one on
    weights: Array  # (max(T, 1),): weights of rounds 1 to T in the moving average; with T = 0, of the initial network

    @property
    def averaged(self) -> list[dict[str, Array]]:
        """The networks in the moving average."""
        return self.states[1:] or self.states

    @cached_property
    def packed(self) -> NetworkAverage:
        """The default networks in the moving average, as they predict together."""
        members = [(weight, member_states(state)) for weight, state in zip(self.weights, self.averaged, strict=True)]
        states = [state for _, group in members for state in group]
        weights = [weight / len(group) for weight, group in members for _ in group]
        return NetworkAverage(states, np.array(weights), self.scaling.centre, self.scaling.scale)

    def predict_proba(self, rows: Array) -> Array:
        """Return the moving average over the rounds' networks."""
        if self.architecture.encoder is None:
            return self.packed.predict_proba(rows)
        scaled, p = self.scaling.apply(rows), np.zeros((len(rows), self.architecture.n_classes))
        for weight, state in zip(self.weights, self.averaged, strict=True):
            p += weight * self._network(state).predict_proba(scaled)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def round_proba(self, rows: Array, round: int) -> Array:
        """Return the probabilities of one round's network alone."""
        p = self.network(round).predict_proba(self.scaling.apply(rows)).astype(np.float64)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def embed(self, rows: Array, round: int) -> Array:
        """Return the embedding by one round's network."""
        return self.network(round).embed(self.scaling.apply(rows))

    def network(self, round: int) -> Network:
        """Return the network of a round: 0 is the initial one, -1 the last."""
        if not -len(self.states) <= round < len(self.states):
            last = len(self.states) - 1
            raise ParameterError(f"round={round}: the model has rounds 0 (the initial network) to {last}.")
        return self._network(self.states[round])

    def _network(self, state: dict[str, Array]) -> Network:
        # As many members as the state has, since the setting may have been changed after the fit.
        network = self.architecture.make(len(member_states(state)), np.random.default_rng(0))
        network.load_state(state)
        return network

    def check(self) -> None:
        """Raise if weights do not fit the architecture."""
        for state in self.states:
            self._network(state)

    @property
    def width(self) -> int:
        """Width of the embedding; those of several networks are concatenated."""
        return sum(state["head.weight"].shape[1] for state in member_states(self.states[-1]))

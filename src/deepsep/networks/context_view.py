"""A context that members of an ensemble have read with the in-context network, ready for rows to be asked about.

Members see the same rows, but differ in what should not matter: the columns they get where there are many, the random
identities of the columns, and the numbering of the classes. Where there are more classes than the network knows, a
member reads the context several times, each time with some of the classes by name and all others as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from deepsep.networks.components import LEAST_SPECTRUM, MOST_COMPONENTS, Components, find_components
from deepsep.networks.in_context_network import MAX_CLASSES, UNLABELED, InContextNetwork, Memory
from deepsep.networks.interface import Array

_T = TypeVar("_T")
_R = TypeVar("_R")

MOST_COLUMNS = 128
# Rows pass through the network in tiles of equal size, the last one filled up with zeros: with matrices of one shape,
# a row's products are summed in the same order, wherever it stands and whichever rows stand next to it.
TILES = {"cpu": 128, "cuda": 2048}


@dataclass(frozen=True)
class Member:
    """Columns and order in which one member sees a table."""

    columns: Array  # (k,)
    identities: Array  # (k, sizes.identity), float32
    # One row per reading of the context, with the network's number of each class. Only numbers from 1 on are told
    # apart in the answer where there are several readings; 0 then stands for all classes of the other readings.
    codings: Array  # (readings, C)

    @property
    def n_readings(self) -> int:
        """Number of times that the member reads the context."""
        return len(self.codings)


class Shares(NamedTuple):
    """Class shares that members estimate: one Dirichlet distribution per member."""

    mean: Array  # (members, C)
    concentration: Array  # (members, C)


def draw_member(
    n_classes: int, columns: Array, identity: int, rng: np.random.Generator, *, most_classes: int = MAX_CLASSES
) -> Member:
    """Draw the identities of the columns, and the numbers of the classes."""
    identities = rng.standard_normal((len(columns), identity), dtype=np.float32)
    if n_classes <= most_classes:
        return Member(columns, identities, rng.permutation(n_classes)[None])
    size = most_classes - 1
    groups = np.array_split(rng.permutation(n_classes), -(-n_classes // size))
    codings = np.zeros((len(groups), n_classes), int)
    for coding, group in zip(codings, groups, strict=True):
        coding[group] = np.arange(1, len(group) + 1)
    return Member(columns, identities, codings)


def draw_columns(
    candidates: Array,
    n_members: int,
    rng: np.random.Generator,
    *,
    importances: Array | None = None,
    most: int = MOST_COLUMNS,
) -> Array:
    """Return the columns that each member sees, (n_members, k): all, or ``most`` of them.

    They are drawn in proportion to the candidates' importances or, without these, from those that fewest members before
    saw.
    """
    used = np.zeros(len(candidates))
    chosen = []
    for _ in range(n_members):
        if importances is None:
            picked = np.argsort(used + rng.random(len(candidates)))[:most]
        else:  # waiting times with these rates: the next to arrive is any of the others in proportion to its rate
            picked = np.argsort(rng.standard_exponential(len(candidates)) / importances)[:most]
        used[picked] += 1
        chosen.append(np.sort(candidates[picked]))
    return np.stack(chosen)


class ContextView:
    """A context as the columns or their principal components show it, read by every member.

    Parameters
    ----------
    network : InContextNetwork
        On its device.
    context : array (c, d) of float32
        Rows.
    codes : array (c,)
        Their classes, -1 where not known.
    members : sequence of Member
        In a view of components, their columns are numbers of components.
    components : Components, optional
        Of the view of components; see :func:`components_of`.
    """

    def __init__(
        self,
        network: InContextNetwork,
        context: Array,
        codes: Array,
        members: Sequence[Member],
        components: Components | None = None,
    ) -> None:
        self._network, self._members = network, members
        self._device = next(network.parameters()).device
        self._components = None if components is None else Components(*(part.to(self._device) for part in components))
        values = _side_by_side(lambda part: self._look(self._tensor(part)), [context], self._device)[0]
        readings = [(member, i) for member in members for i in range(member.n_readings)]
        read = iter(_side_by_side(lambda each: self._read(values, codes, *each), readings, self._device))
        self._memories = [[next(read) for _ in range(member.n_readings)] for member in members]

    @property
    def n_classes(self) -> int:
        """C."""
        return int(self._members[0].codings.shape[1])

    def probabilities(self, rows: Array) -> Array:
        """Return the class probabilities of rows (n, d) of float32, each for itself: the members' geometric mean."""
        tile = TILES.get(self._device.type, TILES["cpu"])
        parts = [rows[start : start + tile] for start in range(0, len(rows), tile)]
        return np.concatenate(_side_by_side(lambda part: self._answer(part, tile), parts, self._device))

    def _answer(self, part: Array, tile: int) -> Array:
        filled = np.zeros((tile, part.shape[1]), np.float32)
        filled[: len(part)] = part
        values = self._look(self._tensor(filled))
        by_member = []
        for member, memories in zip(self._members, self._memories, strict=True):
            asked = values[None][..., member.columns]
            answers = [self._network.answer(memory, asked)[0].softmax(-1) for memory in memories]
            stacked = np.stack([answer.double().cpu().numpy() for answer in answers])
            by_member.append(_by_class(stacked[:, : len(part)], member))
        return pool(by_member, np.full(len(by_member), 1 / len(by_member)))

    def shares(self) -> Shares:
        """Return what the members say of the classes' shares among the unlabelled rows."""
        mean, weight = [], []
        for member, memories in zip(self._members, self._memories, strict=True):
            predictions = [memory.prediction for memory in memories]
            shares = np.stack([part.log_shares.exp().double().cpu().numpy() for part in predictions])
            mean.append(_by_class(shares, member)[0])
            own = _reading_of(member)
            weight.append(np.array([float(part.concentration[0]) for part in predictions])[own])
        return Shares(np.stack(mean), np.stack(weight))

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(self._device)

    def _look(self, values: Tensor) -> Tensor:
        return values if self._components is None else self._components.apply_to_each(values[None])[0]

    def _read(self, values: Tensor, codes: Array, member: Member, reading: int) -> Memory:
        coding = member.codings[reading]
        labels = np.where(codes >= 0, coding[codes], UNLABELED)
        spectrum = None if self._components is None else self._components.spectrum[:, member.columns]
        return self._network.encode(
            values[None][..., member.columns],
            torch.from_numpy(labels)[None].to(self._device),
            torch.tensor([int(coding.max()) + 1], device=self._device),
            self._tensor(member.identities)[None],
            spectrum,
        )


def pool(opinions: Sequence[Array], exponents: Array) -> Array:
    """Return the product of several opinions (n, C), each to its exponent, as probabilities.

    Exponents that sum to 1 give a geometric mean. Opinions that agree by and large are better calibrated so than as a
    plain mean, which is less sure than each of them. None may rule out a class on its own: hence the least probability.
    """
    least_probability = 1e-4
    logs = np.zeros(opinions[0].shape)
    for exponent, p in zip(exponents, opinions, strict=True):
        logs += exponent * np.log(np.maximum(p, least_probability))
    product = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(product / product.sum(1, keepdims=True))


def components_of(context: Array) -> Components:
    """Return the first principal components of a context, in single precision but found in double.

    Those that hardly vary are left out. Where columns repeat one another, or are more than the rows, they would be
    nothing but rounding, which the network would see magnified.
    """
    components = find_components(
        torch.from_numpy(context.astype(np.float64))[None], min(MOST_COMPONENTS, *context.shape)
    )
    n = max(1, int((components.spectrum > LEAST_SPECTRUM).sum()))
    components = components._replace(axes=components.axes[..., :n], spectrum=components.spectrum[..., :n])
    return Components(*(part.float() for part in components))


def _by_class(answers: Array, member: Member) -> Array:
    """Return (n, C) from what each reading says of the network's numbers, (readings, n, K)."""
    classes = np.arange(member.codings.shape[1])
    own = _reading_of(member)
    by_class = answers[own, :, member.codings[own, classes]].T
    return np.asarray(by_class / by_class.sum(1, keepdims=True))


def _reading_of(member: Member) -> Array:
    """Return the reading in which each class goes by its own name."""
    return np.asarray(member.codings.argmax(0)) if member.n_readings > 1 else np.zeros(member.codings.shape[1], int)


def _side_by_side(work: Callable[[_T], _R], items: Sequence[_T], device: torch.device) -> list[_R]:
    """Return the work done on every item; on a CPU by as many threads as torch may use, each with items of its own.

    Torch would rather share every single operation out among its threads. For matrices this small they mostly wait for
    one another, ten times as long as they compute where other programs need the cores, and sums may depend on their
    number. This way one item's bits do not.
    """

    def quietly(item: _T) -> _R:
        with torch.inference_mode():
            return work(item)

    n_threads = torch.get_num_threads()
    if device.type != "cpu" or n_threads == 1:
        return [quietly(item) for item in items]
    torch.set_num_threads(1)
    try:
        if len(items) == 1:
            return [quietly(items[0])]
        # A new thread starts with torch's default, not with the setting of the one that started it.
        with ThreadPoolExecutor(min(n_threads, len(items)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(quietly, items))
    finally:
        torch.set_num_threads(n_threads)

"""DeepSep: Algorithm 1 of the paper, an embedding and low-density boundaries that improve each other."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from deepsep import networks
from deepsep.classifiers.fitted_rounds import Rounds
from deepsep.classifiers.tsvm import TSVM
from deepsep.core.checks import (
    check_priors,
    is_integer,
    is_number,
    private_generator,
    require,
)
from deepsep.core.fingerprint import fingerprint
from deepsep.core.history import History, Row
from deepsep.core.labels import Labels
from deepsep.core.probability import fit_temperature, prior_shift, round_weights, shifted, smooth_labels
from deepsep.core.scaling import ScaledRows, Scaling
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import read_training_rows
from deepsep.errors import DataError, DeepSepWarning, InterruptWarning, LabelWarning, ParameterError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, fit_folds
from deepsep.evaluation.population import to_population
from deepsep.networks import Committee, Network, members_of
from deepsep.solvers.rows import Rows

Array = NDArray[Any]

VALIDATION_FROM = 50  # labelled rows below which none are held out
PATIENCE = 20  # epochs without a better validation loss
CALIBRATION_FOLDS = 3
CHUNK = 8_192  # rows that are embedded together
NETWORKS, NOISE = 3, 0.2  # of the default network, unless said otherwise


@dataclass
class _Rows:
    """The training rows in the order of the user, and which of them are D0 and D1."""

    X: Array  # (n, d), as the user gave them
    scaling: Scaling
    labels: Labels
    weight: Array  # (n,)
    weighted: bool
    labelled: Array  # indices of D0
    unlabelled: Array  # indices of D1
    validation: Array  # indices of labelled rows held out
    torch_device: str | None = None  # None: the network takes rows on demand

    @cached_property
    def D0(self) -> Any:
        """The labelled rows, scaled, on the device."""
        return self.part(self.labelled)

    @cached_property
    def D1(self) -> Any:
        """The unlabelled rows, scaled, on the device."""
        return self.part(self.unlabelled)

    def part(self, index: Array) -> Any:
        """Return these rows, scaled: made on demand for NumPy, once and for all for torch."""
        rows = ScaledRows(self.X, self.scaling, index)
        if self.torch_device is None:
            return rows
        import torch

        return torch.from_numpy(rows[:]).to(self.torch_device)


class DeepSep(Rounds):
    r"""Deep low-density separation: classify all rows from a few labels.

    A network :math:`g \circ f` is trained on the labelled rows; transductive SVMs (:class:`TSVM`) find boundaries
    through low density among the embedded rows :math:`f(x)`; what they say about the unlabelled rows, as probabilities
    :math:`\hat p`, trains the network further; and so on for a few rounds (Algorithm 1 of the paper). The TSVMs start
    from scratch in each round, so that early mistakes can be undone. Predictions are the moving average over the
    rounds' networks, weighted :math:`\propto \rho^{T - t}`.

    The defaults differ from the published settings (:meth:`as_published`). Three networks are trained instead of one,
    with a little noise on the features and a larger penalty. The TSVMs see up to 10,000 unlabelled rows instead of 250,
    which were chosen for speed. They do not balance classes: where the shares among the labels are not those of the
    population, balancing pulls the boundaries to the wrong place. And a round trains on propensities for 3 epochs
    instead of 10, which is as accurate and faster.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 32)
        Widths of the layers of f, each with tanh; batch norm and dropout follow the first. The last is the width of the
        embedding, of which there is one for each network.
    dropout : float, default=0.5
        Dropout rate.
    noise : float or None, default=None
        Standard deviation of the normal noise that is added to every feature of a row each time it is trained on.
        None: 0.2, a fifth of the deviation of a feature (``standardize``); 0 with your own encoder.
    n_networks : int or None, default=None
        Networks that start from different weights and are trained alike. The TSVMs see their embeddings side by side,
        and their probabilities are averaged. A fit takes nearly as many times as long. None: 3, or 1 with your own
        encoder, whose copies start alike unless it is a callable.
    encoder : torch module or callable without arguments that makes one, optional
        Your own f, for images, text or anything else; maps (batch, *shape of a row) to (batch, width). X may then have
        more than two dimensions. ``hidden`` and ``dropout`` are not used.
    pretrain : {None, "autoencoder"}, default=None
        Whether f starts from the first layers of an autoencoder of all rows.
    pretrain_epochs : int, default=20
        Epochs of the autoencoder.
    rounds : int, default=6
        T. 0 gives the initial network.
    initial_epochs : int, default=100
        Epochs on the labelled rows before the first round, at ``learning_rate``.
    propensity_epochs, label_epochs : int, default=3 and 10
        Epochs of a round on the unlabelled rows (mean squared error to the TSVMs' probabilities) and then on the
        labelled ones (KL divergence), at a tenth of ``learning_rate``. Each phase has a fresh Adam.
    learning_rate : float, default=1e-3
        Of Adam.
    batch_size : int, default=32
        Rows in a batch.
    l2 : float or sequence of float, default=1e-3
        Penalty on the squared weights of each layer, from the first to the head; not on biases or batch norm. For
        another number of layers it is interpolated; with your own encoder the first number serves all.
    smoothing : float, default=1e-3
        Of the labels: what every other class gets.
    C, C_star, s
        Of the TSVMs; see :class:`TSVM`.
    balance : bool or None, default=None
        Whether the TSVMs fix the mean score over the unlabelled rows. Without ``priors`` the constraint takes the
        labelled shares for those of the population, which they often are not. None: False.
    priors : dict {class: share}, optional
        How frequent the classes are in the population of which the unlabelled rows are a sample; for labels that fill
        quotas. Probabilities, those of the TSVMs in each round and the final ones, get a factor for each class so that
        their mean over the unlabelled rows is these shares.
    n_unlabeled : int or None, default=10_000
        Most unlabelled rows that the TSVMs are trained on, drawn anew in each round. None: all. All unlabelled rows get
        probabilities either way.
    propensity : {"platt", "softmax", "hard"}, default="platt"
        How the TSVMs' scores become probabilities.
    decay : float in [0, 1), default=0.8
        ρ of the moving average. 0: the last network alone.
    standardize : bool, default=True
        Whether features are first scaled to mean 0 and variance 1 over all rows.
    validation_fraction : float, default=0.0
        Part of the labelled rows held out to stop early: the initial phase when its loss has not improved for 20
        epochs, and the rounds when that of the moving average has not for two. Not used below 50 labelled rows.
    calibrate : bool, default=False
        Whether to temper the probabilities so that their log loss is lowest on labelled rows out of fold; three more
        fits.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the network is trained. "auto": your own encoder on a GPU if there is one; the default network is as
        fast on one CPU core, where it needs no torch.
    verbose : int, default=0
        1: a progress bar with the time left.
    callback : callable, optional
        Called with each row of ``history_`` as it is made.
    random_state : int, RandomState or None, default=None
        The same seed on the same machine gives the same bits. Global random state is neither used nor changed.

    Attributes
    ----------
    classes_ : array (c,)
        The labels, sorted.
    transduction_ : array (n,)
        The label of every training row: as given, or predicted.
    label_distributions_ : array (n, c)
        ``predict_proba`` of every training row, also of those whose label is known.
    history_ : list of dict
        One row a round and phase: losses, objective of the TSVMs, class shares, agreement with the round before,
        validation accuracy. ``pandas.DataFrame(model.history_)`` makes a table of it.
    n_rounds_ : int
        Rounds that were completed.
    temperature_ : float
        Of the calibration; 1.0 without.
    prior_shift_ : array (c,)
        Logarithms of the factors of the classes; only with ``priors``.

    References
    ----------
    M. C. Burkhart, K. Shan. Deep low-density separation for semi-supervised classification. ICCS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from deepsep import DeepSep
    >>> X, digit = load_digits(return_X_y=True)
    >>> X = X[:, X.std(axis=0) > 0]
    >>> known = np.random.default_rng(0).permutation(len(X)) < 100
    >>> model = DeepSep(rounds=2, random_state=0).fit(X, np.where(known, digit, -1))      # -1: unlabelled
    >>> bool((model.predict(X) == digit)[~known].mean() > 0.85)
    True
    >>> model.transform(X[:3]).shape
    (3, 96)
    """

    method_name = "deepsep"

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (128, 32),
        dropout: float = 0.5,
        noise: float | None = None,
        n_networks: int | None = None,
        encoder: Any = None,
        pretrain: Literal["autoencoder"] | None = None,
        pretrain_epochs: int = 20,
        rounds: int = 6,
        initial_epochs: int = 100,
        propensity_epochs: int = 3,
        label_epochs: int = 10,
        learning_rate: float = 1e-3,
        batch_size: int = 32,
        l2: float | Sequence[float] = 1e-3,
        smoothing: float = 1e-3,
        C: float = 0.1,
        C_star: float | Literal["pool"] | None = None,
        s: float = 0.0,
        balance: bool | None = None,
        priors: Mapping[Any, float] | None = None,
        n_unlabeled: int | None = 10_000,
        propensity: Literal["platt", "softmax", "hard"] = "platt",
        decay: float = 0.8,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        calibrate: bool = False,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        verbose: int = 0,
        callback: Callable[[Row], object] | None = None,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.noise = noise
        self.n_networks = n_networks
        self.encoder = encoder
        self.pretrain = pretrain
        self.pretrain_epochs = pretrain_epochs
        self.rounds = rounds
        self.initial_epochs = initial_epochs
        self.propensity_epochs = propensity_epochs
        self.label_epochs = label_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.l2 = l2
        self.smoothing = smoothing
        self.C = C
        self.C_star = C_star
        self.s = s
        self.balance = balance
        self.priors = priors
        self.n_unlabeled = n_unlabeled
        self.propensity = propensity
        self.decay = decay
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.device = device
        self.verbose = verbose
        self.callback = callback
        self.random_state = random_state

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """Return the estimator with the settings of the paper, and ours where it is silent.

        From the paper: layers of 128 and 32 with tanh, batch norm and dropout 0.5 between them, an L2 penalty that
        falls through the layers, ε = 1e-3, T = 6 rounds of 10 + 10 epochs at a tenth of the learning rate, C = 0.1,
        C* = (ℓ/u) C, 250 unlabelled rows in the TSVMs, ρ = 0.8. Ours: 100 initial epochs, learning rate 1e-3, batches
        of 32, penalties of 1e-4, 1e-5 and 1e-6, u in C* the 250 rows, balancing, Platt's sigmoid, features scaled.

        Parameters
        ----------
        **changes
            Settings to change, such as ``random_state``.
        """
        published: dict[str, Any] = {
            "hidden": (128, 32),
            "dropout": 0.5,
            "noise": 0.0,
            "n_networks": 1,
            "rounds": 6,
            "initial_epochs": 100,
            "propensity_epochs": 10,
            "label_epochs": 10,
            "learning_rate": 1e-3,
            "batch_size": 32,
            "l2": (1e-4, 1e-5, 1e-6),
            "smoothing": 1e-3,
            "C": 0.1,
            "C_star": None,
            "s": 0.0,
            "balance": True,
            "n_unlabeled": 250,
            "propensity": "platt",
            "decay": 0.8,
            "standardize": True,
        }
        return cls(**(published | changes))

    _is_part = False  # whether this fit is one of several of a larger one

    # -- Algorithm 1 -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to partly labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n, ...) with an encoder
            Numbers without NaN or infinity; :func:`deepsep.for_table` takes care of gaps, categories, dates and text.
        y : array-like of shape (n,)
            Labels (strings, integers or booleans); unlabelled rows are marked None, NaN, pd.NA, or -1 among
            integers.
        sample_weight : array-like of shape (n,), optional
            A weight of k counts as k copies of the row in the losses and in the TSVMs, 0 as its absence everywhere.

        Returns
        -------
        self
        """
        rng, rows, history = self._begin(X, y, sample_weight)
        network = self._new_network(rows, rng)
        labels = smooth_labels(rows.labels.codes[rows.labelled], len(self.classes_), self.smoothing)
        calibrate = self.calibrate
        with history:
            try:
                with one_blas_thread():
                    self._pretrain(network, rows, history, rng)
                    self._initial_phase(network, rows, labels, history, rng)  # θ₀, ψ₀
                    self._end_of_round(network, rows, history)
                    for _ in range(self.rounds if rows.unlabelled.size else 0):
                        propensities = self._separate(network, rows, history, rng)
                        self._phase(network, rows, "propensities", propensities, history, rng)
                        self._phase(network, rows, "labels", labels, history, rng)  # θₜ, ψₜ
                        self._end_of_round(network, rows, history)
                        if self._stop_early():
                            break
            except KeyboardInterrupt:
                if self._is_part:
                    raise
                self._interrupted(network)
                calibrate = False
            return self._finish(rows, history, rng, calibrate)

    # -- its steps -------------------------------------------------------------------------------------------

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.random.Generator, _Rows, History]:
        self._check_parameters()
        nd = self.encoder is not None
        X, labels, weight = read_training_rows(self, X, y, sample_weight, allow_nd=nd, stacklevel=5)
        c = len(self.classes_)
        require(self, "smoothing", self.smoothing < 1 / c, f"less than 1/{c}, since there are {c} classes")
        if self.priors is not None:
            check_priors(self.priors, self.classes_)
        self._row_shape, self._hidden = X.shape[1:], tuple(int(width) for width in self.hidden)
        flat = X.reshape(len(X), -1)
        rng = private_generator(self.random_state)
        self._scaling = Scaling.of(flat, weight) if self.standardize else Scaling.none(flat.shape[1])
        labelled = np.flatnonzero(labels.labelled & (weight > 0))
        unlabelled = np.flatnonzero(~labels.labelled & (weight > 0))
        labelled, validation = self._hold_out(labelled, labels, rng)
        if not unlabelled.size:
            warnings.warn(
                "no unlabelled rows: DeepSep fell back to the initial, supervised network. Pass the unlabelled rows "
                "in X as well, with None in y.",
                LabelWarning,
                stacklevel=4,
            )
        self._states: list[dict[str, Array]] = []
        self._guess: Array = labels.codes  # what the last round said of D1
        self._held_out: list[Array] = []  # what the rounds said of the rows held out
        rounds = self.rounds if unlabelled.size else 0
        n_epochs = self.initial_epochs + rounds * (self.propensity_epochs + self.label_epochs)
        n_epochs += self.pretrain_epochs if self.pretrain else 0
        fits = 1 + CALIBRATION_FOLDS * self.calibrate
        history = History(fits * n_epochs * self._count(), bool(self.verbose), self.callback)
        self.history_ = history.rows
        weighted = sample_weight is not None
        self.data_fingerprint_ = fingerprint(flat, labels.codes, getattr(self, "feature_names_in_", None))
        rows = _Rows(flat, self._scaling, labels, weight, weighted, labelled, unlabelled, validation)
        return rng, rows, history

    def _hold_out(self, labelled: Array, labels: Labels, rng: np.random.Generator) -> tuple[Array, Array]:
        counts = np.bincount(labels.codes[labelled])
        n = round(self.validation_fraction * len(labelled))
        if len(labelled) < VALIDATION_FROM or counts.min() < 2 or n < len(counts):
            return labelled, labelled[:0]
        seed = int(rng.integers(2**31))
        n = min(n, len(labelled) - len(counts))
        train, held = train_test_split(labelled, test_size=n, stratify=labels.codes[labelled], random_state=seed)
        missing = np.setdiff1d(labels.codes[held], labels.codes[train])
        back = np.array([held[labels.codes[held] == k][0] for k in missing], dtype=held.dtype)
        return np.sort(np.concatenate([train, back])), np.setdiff1d(held, back)

    def _new_network(self, rows: _Rows, rng: np.random.Generator) -> Network:
        c, d = len(self.classes_), rows.X.shape[1]
        self._device = self._choose_device()
        self._backend = "numpy" if self._device == "cpu" and self.encoder is None else "torch"
        rows.torch_device = self._device if self._backend == "torch" else None
        return self._make_network(c, d, self._count(), rng, self._deviation())

    def _count(self) -> int:
        """Return how many networks are to be trained."""
        if self.n_networks is not None:
            return self.n_networks
        return NETWORKS if self.encoder is None else 1

    def _deviation(self) -> float:
        """Return the standard deviation of the noise on the features."""
        if self.noise is not None:
            return float(self.noise)
        return NOISE if self.encoder is None else 0.0

    def _balanced(self) -> Any:
        return False if self.balance is None else self.balance

    def _pretrain(self, network: Network, rows: _Rows, history: History, rng: np.random.Generator) -> None:
        if self.pretrain is None:
            return
        X, last = self._scaling.apply(rows.X), []
        for member in members_of(network):
            twin: Any = member
            if self._backend == "numpy":
                d, c = rows.X.shape[1], len(self.classes_)
                twin = networks.TorchNetwork(d, c, hidden=self._hidden, dropout=self.dropout, rng=rng)
                twin.load_state(member.state())
            losses = networks.pretrain(
                twin,
                X,
                epochs=self.pretrain_epochs,
                lr=self.learning_rate,
                batch_size=max(self.batch_size, 128),
                rng=rng,
                weight=rows.weight if rows.weighted else None,
                on_epoch=history.phase("autoencoder"),
            )
            member.load_state(twin.state())
            last.append(losses[-1])
        history.add(round=0, phase="autoencoder", epochs=self.pretrain_epochs, loss=float(np.mean(last)))

    def _initial_phase(
        self, network: Network, rows: _Rows, labels: Array, history: History, rng: np.random.Generator
    ) -> None:
        if not rows.validation.size:
            self._phase(network, rows, "initial", labels, history, rng)
            return
        members = network.in_turn() if isinstance(network, Committee) else [network]
        epochs, losses = zip(
            *(self._until_no_better(member, rows, labels, history, rng) for member in members), strict=True
        )
        history.add(round=0, phase="initial", epochs=max(epochs), loss=float(np.mean(losses)))

    def _until_no_better(
        self, network: Network, rows: _Rows, labels: Array, history: History, rng: np.random.Generator
    ) -> tuple[int, float]:
        """Train until the validation loss has not improved for some epochs; return the best one's number, and loss."""
        best, best_state, best_epoch = np.inf, network.state(), 0
        on_epoch = history.phase("initial")
        held_out = rows.part(rows.validation)

        def watch(epoch: int, loss: float) -> None:
            nonlocal best, best_state, best_epoch
            on_epoch(epoch, loss)
            now = self._validation_loss(network.predict_proba(held_out), rows)
            if now < best:
                best, best_state, best_epoch = now, network.state(), epoch
            elif epoch - best_epoch >= PATIENCE:
                raise _EnoughError

        losses: list[float] = []
        with contextlib.suppress(_EnoughError):
            losses = self._train(network, rows, "initial", labels, rng, watch)
        network.load_state(best_state)
        return best_epoch + 1, losses[-1] if losses else float(best)

    def _phase(
        self, network: Network, rows: _Rows, name: str, targets: Array, history: History, rng: np.random.Generator
    ) -> None:
        """Train on D0 or D1 and note it."""
        losses = self._train(network, rows, name, targets, rng, history.phase(name))
        history.add(round=len(self._states), phase=name, epochs=len(losses), loss=losses[-1] if losses else None)

    def _train(
        self, network: Network, rows: _Rows, name: str, targets: Array, rng: np.random.Generator, on_epoch: Any
    ) -> list[float]:
        part, X = (rows.unlabelled, rows.D1) if name == "propensities" else (rows.labelled, rows.D0)
        epochs = {"initial": self.initial_epochs, "propensities": self.propensity_epochs, "labels": self.label_epochs}
        return network.train(
            X,
            targets,
            loss="mse" if name == "propensities" else "kl",
            epochs=epochs[name],
            lr=self.learning_rate if name == "initial" else self.learning_rate / 10,
            batch_size=self.batch_size,
            rng=rng,
            weight=rows.weight[part] if rows.weighted else None,
            on_epoch=on_epoch,
        )

    def _separate(self, network: Network, rows: _Rows, history: History, rng: np.random.Generator) -> Array:
        """Return p̂ of the unlabelled rows: what one-vs-rest TSVMs in the embedding say."""
        drawn = rows.unlabelled
        if self.n_unlabeled is not None and self.n_unlabeled < len(drawn):
            drawn = np.sort(rng.choice(drawn, self.n_unlabeled, replace=False))
        used = np.concatenate([rows.labelled, drawn])
        C_star = self.C_star
        if C_star == "pool":
            C_star = float(self.C * rows.weight[rows.labelled].sum() / rows.weight[rows.unlabelled].sum())
        tsvm = TSVM(
            C=self.C,
            C_star=C_star,
            s=self.s,
            balance=self._balanced(),
            priors=None if self.priors is None else dict(enumerate(check_priors(self.priors, self.classes_))),
            probability=self.propensity,
            tol=1e-3,
            random_state=0,  # nothing in it is random, but None would draw from the global generator
        )
        if self._device == "cuda":
            tsvm._make_rows = networks.rows_by_size(Rows, device=self._device)
        weight = rows.weight[used] if rows.weighted else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # constant units and the like are nothing to tell the user
            embedded = network.embed(rows.part(used))
            if not np.isfinite(embedded).all():
                raise DataError(
                    "training diverged: the embedding is no longer finite. Scale the features (standardize=True), or "
                    "use a smaller learning_rate."
                )
            tsvm.fit(embedded, rows.labels.codes[used], sample_weight=weight)
        propensities = np.empty((len(rows.unlabelled), len(self.classes_)), np.float32)
        for start in range(0, len(propensities), CHUNK):
            at = slice(start, start + CHUNK)
            propensities[at] = tsvm.predict_proba(network.embed(rows.D1[at]))
        history.add(
            round=len(self._states),
            phase="tsvm",
            objective=float(sum(path[-1] for path in tsvm.objective_path_)),
            passes=tsvm.n_iter_,
            shares=self._shares(propensities.argmax(axis=1)),
        )
        return propensities

    def _end_of_round(self, network: Network, rows: _Rows, history: History) -> None:
        """Store the round's network, and note how its predictions moved."""
        self._states.append(network.state())
        t = len(self._states) - 1
        guess = np.empty(len(rows.unlabelled), np.int32)
        for start in range(0, len(guess), CHUNK):
            at = slice(start, start + CHUNK)
            guess[at] = network.predict_proba(rows.D1[at]).argmax(axis=1)
        row: Row = {
            "round": t,
            "phase": "end",
            "shares": self._shares(guess),
            "agreement": None if t == 0 else float((guess == self._guess).mean()),
        }
        if rows.validation.size:
            now = network.predict_proba(rows.part(rows.validation)).astype(np.float64)
            self._held_out = [*(self._held_out if t > 1 else []), now]  # the moving average is over rounds 1 to t
            average = np.tensordot(round_weights(len(self._held_out), self.decay), self._held_out, 1)
            own = rows.labels.codes[rows.validation]
            row["validation_accuracy_network"] = float((now.argmax(axis=1) == own).mean())
            row["validation_accuracy"] = float((average.argmax(axis=1) == own).mean())
            row["validation_loss"] = self._validation_loss(average, rows)
        self._guess = guess
        history.add(**row)

    def _shares(self, codes: Array) -> list[float]:
        counts = np.bincount(codes, minlength=len(self.classes_))
        return [float(share) for share in counts / max(len(codes), 1)]

    def _stop_early(self) -> bool:
        """Whether the moving average has been no better than before for two rounds, on the rows held out."""
        losses = [row["validation_loss"] for row in self.history_ if row.get("validation_loss") is not None]
        return len(losses) > 3 and min(losses[-2:]) > min(losses[:-2])

    def _validation_loss(self, probabilities: Array, rows: _Rows) -> float:
        own = probabilities[np.arange(len(rows.validation)), rows.labels.codes[rows.validation]]
        return float(-np.average(np.log(np.maximum(own, 1e-12)), weights=rows.weight[rows.validation]))

    def _interrupted(self, network: Network) -> None:
        if not self._states:
            network = network.begun() if isinstance(network, Committee) else network
            self._states.append(network.state())
        done = len(self._states) - 1
        warnings.warn(
            f"interrupted: the model holds the {done} rounds of {self.rounds} that were complete"
            + (", that is, the initial network as far as it was trained." if done == 0 else ".")
            + (" Its probabilities are not calibrated." if self.calibrate else ""),
            InterruptWarning,
            stacklevel=3,
        )

    def _finish(self, rows: _Rows, history: History, rng: np.random.Generator, calibrate: bool) -> Self:
        for stale in ("_held_out", "_guess", "prior_shift_"):
            self.__dict__.pop(stale, None)
        self.n_rounds_ = len(self._states) - 1
        self.n_iter_ = max(self.n_rounds_, 1)
        self.temperature_ = 1.0
        self._weights = round_weights(max(self.n_rounds_, 1), self.decay)
        self._build_average()
        if calibrate:
            try:
                self.temperature_ = self._fit_temperature(rows, history, rng)
            except KeyboardInterrupt:
                message = (
                    "interrupted while calibrating: the model is complete, but its probabilities are not calibrated."
                )
                warnings.warn(message, InterruptWarning, stacklevel=3)
        self.label_distributions_ = self._probabilities(rows.X)
        if self.priors is not None:
            self.prior_shift_ = prior_shift(
                check_priors(self.priors, self.classes_),
                np.log(np.maximum(self.label_distributions_[rows.unlabelled], 1e-30)),
                rows.weight[rows.unlabelled],
                rows.labels.codes[rows.labelled],
                rows.weight[rows.labelled],
            )
            self.label_distributions_ = shifted(self.label_distributions_, self.prior_shift_)
        codes = np.where(rows.labels.labelled, rows.labels.codes, self.label_distributions_.argmax(axis=1))
        self.transduction_ = self.classes_[codes]
        return self

    def _fit_temperature(self, rows: _Rows, history: History, rng: np.random.Generator) -> float:
        codes = rows.labels.codes.copy()
        codes[rows.validation] = -1
        folds = min(CALIBRATION_FOLDS, int(np.bincount(codes[rows.labelled]).min()))
        if folds < 2:
            warnings.warn("calibrate needs two labelled rows of every class: left out.", LabelWarning, stacklevel=4)
            return 1.0
        seed, callback = int(rng.integers(2**31)), history.calibrating(self._count())
        copy = clone(self).set_params(calibrate=False, verbose=0, callback=callback, random_state=seed)
        labels, X = Labels(codes, self.classes_), rows.X.reshape(-1, *self._row_shape)
        dealt = deal_folds(labels, n_splits=folds, seed=seed, weight=rows.weight)
        held_out = fit_folds({"copy": Candidate(copy)}, X, labels, dealt, weight=rows.weight)
        weight = rows.weight[held_out.rows]
        if self.priors is not None:  # the labelled rows as a sample of the population
            weight = np.asarray(to_population(held_out.codes, weight, check_priors(self.priors, self.classes_)))
        return fit_temperature(held_out.probabilities, held_out.codes, weight)

    # -- settings -------------------------------------------------------------------------------------------

    def _choose_device(self) -> str:
        if self.device == "cpu" or (self.device == "auto" and self.encoder is None):
            return "cpu"
        import torch

        if torch.cuda.is_available():
            return "cuda"
        if self.device == "cuda":
            raise ParameterError('device="cuda": torch finds no GPU here. Use device="cpu" or "auto".')
        return "cpu"

    def _check_parameters(self) -> None:
        for name, least in (
            ("rounds", 0),
            ("initial_epochs", 1),
            ("propensity_epochs", 0),
            ("label_epochs", 0),
            ("pretrain_epochs", 1),
            ("batch_size", 1),
        ):
            require(self, name, is_integer(getattr(self, name), least), f"an integer of at least {least}")
        for name in ("dropout", "decay", "validation_fraction"):
            value = getattr(self, name)
            require(self, name, is_number(value) and 0 <= value < 1, "a number from 0 to below 1")
        for name, allowed in (
            ("pretrain", (None, "autoencoder")),
            ("propensity", ("platt", "softmax", "hard")),
            ("device", ("auto", "cpu", "cuda")),
        ):
            require(self, name, getattr(self, name) in allowed, " or ".join(map(repr, allowed)))
        widths = self.hidden if isinstance(self.hidden, Sequence) else ()
        widths_hold = bool(widths) and all(is_integer(width, 1) for width in widths)
        penalties: list[Any] = list(self.l2) if isinstance(self.l2, list | tuple) else [self.l2]
        penalties_hold = bool(penalties) and all(is_number(value) and value >= 0 for value in penalties)
        rate, smoothing, noise, networks = self.learning_rate, self.smoothing, self.noise, self.n_networks
        for name, holds, wanted in (
            ("learning_rate", is_number(rate) and rate > 0, "a positive number"),
            ("noise", noise is None or (is_number(noise) and noise >= 0), "a number of at least 0, or None"),
            ("n_networks", networks is None or is_integer(networks, 1), "an integer of at least 1, or None"),
            ("smoothing", is_number(smoothing) and 0 <= smoothing < 0.5, "a number from 0 to below 0.5"),
            ("calibrate", isinstance(self.calibrate, bool | np.bool), "True or False"),
            ("standardize", isinstance(self.standardize, bool | np.bool), "True or False"),
            ("l2", penalties_hold, "a number of at least 0, or a list or tuple of them"),
            ("hidden", widths_hold, "one or more positive integers, such as (128, 32)"),
            ("encoder", self.encoder is None or callable(self.encoder), "a torch module, or a callable that makes one"),
        ):
            require(self, name, holds, wanted)
        # The TSVM's own settings are checked before any training starts.
        shared = ("C", "C_star", "s", "priors", "n_unlabeled")
        try:
            TSVM(**{name: getattr(self, name) for name in shared}, balance=self._balanced())._check_parameters()
        except ParameterError as error:
            raise ParameterError(str(error).replace("TSVM:", "DeepSep:", 1)) from None


class _EnoughError(Exception):
    """Ends a phase in which validation no longer improves."""

"""DeepSep: Algorithm 1 of the paper as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from deepsep import networks
from deepsep.classifiers.base import WithPriors
from deepsep.classifiers.declared_settings import integer, real, setting, settings, widths
from deepsep.classifiers.deep_separation.algorithm import Schedule, deep_low_density_separation
from deepsep.classifiers.deep_separation.propensities import LowDensity
from deepsep.classifiers.deep_separation.training_run import Phase, SplitRows, TrainedRounds, TrainingRun
from deepsep.classifiers.tsvm.low_density_svm import draw_rows, unlabeled_cost
from deepsep.core.arrays import Array, below, checked_array
from deepsep.core.checks import is_number, require
from deepsep.core.history import History, Row
from deepsep.core.labels import Labels
from deepsep.core.probability import check_probabilities, fit_temperature, round_weights, temper
from deepsep.core.scaling import Scaling
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import CollapseWarning, InterruptWarning, LabelWarning, ParameterError, StopTraining, warn
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from deepsep.evaluation.population import to_population
from deepsep.networks import Architecture, NetworkAverage, choose_device, members_of
from deepsep.solvers.one_vs_rest import Costs, SolverSettings


def _are_penalties(value: Any) -> bool:
    each = list(value) if isinstance(value, list | tuple) else [value]
    return bool(each) and all(is_number(one) and one >= 0 for one in each)


@settings
class DeepSep(TransformerMixin, WithPriors):
    r"""Deep low-density separation: classify all rows from a few labels.

    A network :math:`g \circ f` is trained on the labelled rows; transductive SVMs (:class:`TSVM`) find boundaries
    through low density among the embedded rows :math:`f(x)`; their class probabilities of the unlabelled rows,
    :math:`\hat p`, train the network further. This repeats for a few rounds (Algorithm 1 of the paper). The TSVMs start
    from scratch in each round, so that early mistakes can be undone. Predictions are the moving average over the
    rounds' networks, weighted :math:`\propto \rho^{T - t}`.

    The defaults differ from the published settings (:meth:`as_published`). Three networks are trained instead of one,
    with a little noise on the features and a larger penalty. The TSVMs see up to 10,000 unlabelled rows; the paper
    chose 250 for speed. They do not balance classes, since balancing moves the boundaries to the wrong place if the
    shares among the labels differ from those of the population. A round trains on propensities for 3 epochs instead of
    10, which is as accurate and faster, and on 15,000 rows at most: with many more rows and few labels, the network
    forgets the labels.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 32)
        Widths of the layers of f, each with tanh; batch norm and dropout follow the first. The last is the width of the
        embedding; each network has its own.
    dropout : float, default=0.5
        Dropout rate.
    noise : float or None, default=None
        Standard deviation of the normal noise that is added to the features of a row each time it is trained on.
        None: 0.2, a fifth of a standardised feature's deviation; 0 with your own encoder.
    n_networks : int or None, default=None
        Number of networks, which start from different weights and are trained alike. Their embeddings are concatenated
        for the TSVMs, and their probabilities are averaged. Time is nearly proportional to their number. None: 3, or 1
        with your own encoder, whose copies start with equal weights unless it is a callable.
    encoder : torch module or callable without arguments that makes one, optional
        Your own f, for images, text or anything else; maps (batch, *shape of a row) to (batch, width). X may then have
        more than two dimensions. ``hidden`` and ``dropout`` are not used. On a CPU, torch takes about five times as
        long for a small network as the built-in one: for other widths, set ``hidden``.
    pretrain : {None, "autoencoder"}, default=None
        Whether f starts from the first layers of an autoencoder of all rows.
    pretrain_epochs : int, default=20
        Epochs of the autoencoder.
    rounds : int, default=6
        Number of rounds T. 0: the initial network alone.
    initial_epochs : int, default=100
        Epochs on the labelled rows before the first round, at ``learning_rate``.
    propensity_epochs, label_epochs : int, default=3 and 10
        Epochs of a round on the unlabelled rows (mean squared error to the TSVMs' probabilities) and then on the
        labelled ones (KL divergence), at a tenth of ``learning_rate``. Each phase has a fresh Adam.
    propensity_rows : int or None, default=15_000
        Maximum number of unlabelled rows that a round trains on, counted over all its epochs. A larger table gets fewer
        epochs; if one epoch exceeds the maximum, each round draws that many rows at random. None: all rows in every
        epoch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    batch_size : int, default=32
        Rows in a batch.
    l2 : float or sequence of float, default=1e-3
        Penalty on the squared weights of each layer, from the first to the head; not on biases or batch norm. For
        another number of layers it is interpolated; with your own encoder the first number serves all.
    smoothing : float, default=1e-3
        Smoothing of the labels: the target of every other class.
    C, C_star, s
        Of the TSVMs; see :class:`TSVM`.
    algorithm : {"auto", "single-loop", "cccp"}, default="auto"
        Solver of the TSVMs; see :class:`TSVM`. "auto" is the single loop, to a relative duality gap of 1e-3: the
        next round solves them again. "cccp" solves its convex problems to 1e-6.
    balance : bool, default=False
        Whether the TSVMs fix the mean score over the unlabelled rows. Without ``priors`` the constraint assumes
        that the labelled shares are those of the population, which is often wrong.
    priors : dict {class: share}, optional
        Class shares in the population of which the unlabelled rows are a sample; for labels that fill quotas. The
        probabilities of the TSVMs in each round, and the final ones, are multiplied by a factor for each class such
        that their means over the unlabelled rows are these shares.
    n_unlabeled : int or None, default=10_000
        Maximum number of unlabelled rows that the TSVMs are trained on, drawn again in each round. None: all. All
        unlabelled rows get probabilities either way.
    propensity : {"platt", "softmax", "hard"}, default="platt"
        Conversion of the TSVMs' scores into probabilities.
    decay : float in [0, 1), default=0.8
        ρ of the moving average. 0: the last network alone.
    standardize : bool, default=True
        Whether features are first scaled to mean 0 and variance 1 over all rows.
    validation_fraction : float, default=0.0
        Share of the labelled rows held out to stop early. The initial phase stops when its loss has not improved for 20
        epochs, and the rounds stop when the loss of the moving average has not improved for two. Not used with fewer
        than 50 labelled rows.
    calibrate : bool, default=False
        Whether to choose a temperature of the probabilities with the lowest log loss on held-out labelled rows, which
        takes three more fits.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training. "auto": a GPU for your own encoder, if there is one; the default network is as fast on
        one CPU core, where it does not need torch.
    verbose : int, default=0
        1: show a progress bar with the time left.
    callback : callable, optional
        Called with each row of ``history_`` as it is made. To end the training, raise
        :class:`deepsep.errors.StopTraining`: the model keeps the rounds that are complete.
    random_state : int, RandomState or None, default=None
        The same seed on the same machine gives the same bits. Global random state is neither used nor changed.

    Attributes
    ----------
    history_ : list of dict
        One row for each round and phase: losses, objective of the TSVMs, class shares, classes (by number) whose
        boundary collapsed and was found again, agreement with the previous round, validation accuracy.
        ``pandas.DataFrame(model.history_)`` makes a table of it.
    n_rounds_ : int
        Rounds that were completed.
    temperature_ : float
        Temperature of the calibration; 1.0 without.

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
    >>> model = DeepSep(rounds=2, random_state=0).fit(X, np.where(known, digit, -1))      # -1: unlabeled
    >>> bool((model.predict(X) == digit)[~known].mean() > 0.85)
    True
    >>> model.transform(X[:3]).shape
    (3, 96)
    """

    method_name = "deepsep"
    _calibration_folds: ClassVar[int] = 3

    hidden: Sequence[int] = widths((128, 32))
    dropout: float = real(0.5, at_least=0, below=1)
    noise: float | None = real(None, at_least=0, or_else=(None,))
    n_networks: int | None = integer(None, 1, or_none=True)
    encoder: Any = setting(
        None, lambda given: given is None or callable(given), "a torch module, or a callable that makes one"
    )
    pretrain: Literal["autoencoder"] | None = None
    pretrain_epochs: int = integer(20, 1)
    rounds: int = integer(6, 0)
    initial_epochs: int = integer(100, 1)
    propensity_epochs: int = integer(3, 0)
    propensity_rows: int | None = integer(15_000, 1, or_none=True)
    label_epochs: int = integer(10, 0)
    learning_rate: float = real(1e-3, above=0)
    batch_size: int = integer(32, 1)
    l2: float | Sequence[float] = setting(1e-3, _are_penalties, "a number of at least 0, or a list or tuple of them")
    smoothing: float = real(1e-3, at_least=0, below=0.5)
    C: float = real(0.1, above=0)
    C_star: float | Literal["pool"] | None = real(None, at_least=0, or_else=("pool", None))
    s: float = real(0.0, above=-1, at_most=0)
    algorithm: Literal["auto", "single-loop", "cccp"] = "auto"
    balance: bool = False
    priors: Mapping[Any, float] | None = None
    n_unlabeled: int | None = integer(10_000, 1, or_none=True)
    propensity: Literal["platt", "softmax", "hard"] = "platt"
    decay: float = real(0.8, at_least=0, below=1)
    standardize: bool = True
    validation_fraction: float = real(0.0, at_least=0, below=1)
    calibrate: bool = False
    device: Literal["auto", "cpu", "cuda"] = "auto"
    verbose: int = 0
    callback: Callable[[Row], object] | None = None
    random_state: Any = None

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """Return an estimator with the settings of the paper, which do not change when the defaults do.

        From the paper: layers of 128 and 32 units with tanh, batch norm and dropout 0.5 between them, an L2 penalty
        that falls from layer to layer, Glorot normal weights, a start from an autoencoder, ε = 1e-3, T = 6 rounds of
        10 + 10 epochs of Adam at a tenth of the initial learning rate, TSVMs by CCCP with C = 0.1, C* = (ℓ/u) C and 250
        unlabelled rows, ρ = 0.8.

        ``docs/paper.md`` lists all points on which the paper is silent or contradicts itself, with our reading.

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
            "encoder": None,
            "pretrain": "autoencoder",
            "pretrain_epochs": 20,
            "rounds": 6,
            "initial_epochs": 100,
            "propensity_epochs": 10,
            "propensity_rows": None,
            "label_epochs": 10,
            "learning_rate": 1e-3,
            "batch_size": 32,
            "l2": (1e-4, 1e-5, 1e-6),
            "smoothing": 1e-3,
            "C": 0.1,
            "C_star": None,
            "s": 0.0,
            "algorithm": "cccp",
            "balance": True,
            "priors": None,
            "n_unlabeled": 250,
            "propensity": "platt",
            "decay": 0.8,
            "standardize": True,
            "validation_fraction": 0.0,
            "calibrate": False,
            "device": "auto",
            "verbose": 0,
            "callback": None,
            "random_state": None,
        }
        return cls(**(published | changes))

    # -- fitting ---------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the precision of the network
        return tags

    @property
    def _accept(self) -> dict[str, Any]:  # type: ignore[override]
        return {"allow_nd": self.encoder is not None}

    @property
    def _all_steps(self) -> int:
        epochs = self.initial_epochs + self.rounds * (self.propensity_epochs + self.label_epochs)
        epochs += self.pretrain_epochs if self.pretrain else 0
        return (1 + self._calibration_folds * self.calibrate) * epochs * self._n_networks

    @property
    def _n_networks(self) -> int:
        if self.n_networks is not None:
            return self.n_networks
        return 3 if self.encoder is None else 1

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        architecture = self._architecture(rows)
        split = self._split(rows, architecture, rng)
        noise = self.noise if self.noise is not None else 0.2 if self.encoder is None else 0.0
        network = architecture.make(self._n_networks, rng, float(noise))
        with History(self._all_steps, bool(self.verbose), self.callback, rows.context.on_step) as history:
            self.history_ = history.rows
            run = TrainingRun(split, network, history, self.decay)
            interrupted = stopped = False
            try:
                self._pretrain(run, architecture, rng)
                deep_low_density_separation(run, self._low_density(rows, split), self._plan(rows), rng)
            except StopTraining:
                stopped = True
                run.interrupt()
            except KeyboardInterrupt:
                if rows.context.is_part:
                    raise
                interrupted = True
                run.interrupt()
                self._warn_of_interruption(len(run.states) - 1)
            self._warn_of_collapse()
            self.n_rounds_ = len(run.states) - 1
            self.n_iter_ = max(self.n_rounds_, 1)
            weights = round_weights(max(self.n_rounds_, 1), self.decay)
            self._trained = TrainedRounds(architecture, split.scaling, run.states, weights)
            self.temperature_ = 1.0
            if self.calibrate and not interrupted:
                self._calibrate(rows, split, history, rng, rounds=self.n_rounds_ if stopped else self.rounds)

    def _architecture(self, rows: TrainingRows) -> Architecture:
        # The default network is as fast on one CPU core, where it does not need torch.
        device = "cpu" if self.device == "auto" and self.encoder is None else choose_device(self.device)
        hidden = tuple(int(width) for width in self.hidden)
        shape = rows.X.shape[1:]
        return Architecture(shape, rows.n_classes, hidden, self.dropout, self.l2, self.encoder, device)

    def _split(self, rows: TrainingRows, architecture: Architecture, rng: np.random.Generator) -> SplitRows:
        flat = rows.matrix
        return SplitRows(
            flat,
            rows.codes,
            rows.weight,
            rows.classes,
            rows.weighted,
            scaling=Scaling.of(flat, rows.weight) if self.standardize else Scaling.none(flat.shape[1]),
            validation=self._hold_out(rows, rng),
            device=architecture.device if architecture.uses_torch else None,
        )

    def _hold_out(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        """Return the labelled rows that are held out to stop early."""
        labeled, codes = rows.labeled, rows.codes
        counts = np.bincount(codes[labeled])
        n = round(self.validation_fraction * len(labeled))
        if len(labeled) < 50 or counts.min() < 2 or n < len(counts):
            return labeled[:0]
        seed = int(rng.integers(2**31))
        n = min(n, len(labeled) - len(counts))
        train, held = train_test_split(labeled, test_size=n, stratify=codes[labeled], random_state=seed)
        missing = np.setdiff1d(codes[held], codes[train])
        back = np.array([held[codes[held] == k][0] for k in missing], dtype=held.dtype)
        return np.setdiff1d(held, back)

    def _plan(self, rows: TrainingRows) -> Schedule:
        epochs, most = self.propensity_epochs, self.propensity_rows
        if most is not None and epochs and rows.unlabeled.size:
            epochs = max(1, min(epochs, most // len(rows.unlabeled)))
        slow = partial(Phase, learning_rate=self.learning_rate / 10, batch_size=self.batch_size)
        labels = slow("labels", False, "kl", self.label_epochs)
        return Schedule(
            rounds=self.rounds,
            initial=Phase("initial", False, "kl", self.initial_epochs, self.learning_rate, self.batch_size, True),
            propensities=slow("propensities", True, "mse", epochs, most_rows=most),
            labels=labels,
            smoothing=self.smoothing,
        )

    def _low_density(self, rows: TrainingRows, split: SplitRows) -> LowDensity:
        shares = self._shares()

        def costs(drawn: Array) -> Costs:
            C_star = unlabeled_cost(self.C, self.C_star, split.weight, split.labeled, split.unlabeled, drawn)
            return Costs(self.C, C_star, float(self.s), bool(self.balance), shares)

        return LowDensity(
            draw=lambda rng: draw_rows(split.unlabeled, self.n_unlabeled, rng),
            costs=costs,
            propensity=self.propensity,
            shares=shares,
            effort=SolverSettings("cccp", tol=1e-6) if self.algorithm == "cccp" else SolverSettings(tol=1e-3),
        )

    def _pretrain(self, run: TrainingRun, architecture: Architecture, rng: np.random.Generator) -> None:
        """Start f from the first layers of an autoencoder of all rows, with ``pretrain``."""
        if self.pretrain is None:
            return
        rows, last = run.rows, []
        X = rows.scaling.apply(rows.X)
        for member in members_of(run.network):
            twin: Any = member
            if not architecture.uses_torch:
                d, c = rows.X.shape[1], rows.n_classes
                twin = networks.TorchNetwork(d, c, hidden=architecture.hidden, dropout=self.dropout, rng=rng)
                twin.load_state(member.state())
            losses = networks.pretrain(
                twin,
                X,
                epochs=self.pretrain_epochs,
                lr=self.learning_rate,
                batch_size=max(self.batch_size, 128),
                rng=rng,
                weight=rows.weight if rows.weighted else None,
                on_epoch=run.history.phase("autoencoder"),
            )
            member.load_state(twin.state())
            last.append(losses[-1])
        run.history.add(round=0, phase="autoencoder", epochs=self.pretrain_epochs, loss=float(np.mean(last)))

    def _warn_of_collapse(self) -> None:
        """Warn of classes that lost (nearly) all unlabelled rows in a round; ``history_`` has the rounds."""
        codes = sorted({code for row in self.history_ for code in row.get("collapsed", ())})
        if codes:
            names = ", ".join(map(repr, self.classes_[codes].tolist()))
            warn(
                f"the low-density boundary of class {names} left (nearly) all unlabelled rows on one side in some "
                "rounds and was found again with their mean score fixed. Pass priors, or a smaller C_star.",
                CollapseWarning,
            )

    def _warn_of_interruption(self, done: int) -> None:
        warn(
            f"interrupted: the model holds the {done} rounds of {self.rounds} that were complete"
            + (", that is, the partly trained initial network." if done == 0 else ".")
            + (" Its probabilities are not calibrated." if self.calibrate else ""),
            InterruptWarning,
        )

    def _calibrate(
        self, rows: TrainingRows, split: SplitRows, history: History, rng: np.random.Generator, *, rounds: int
    ) -> None:
        """Find the temperature with the lowest log loss on held-out labelled rows."""
        codes = rows.codes.copy()
        codes[split.validation] = -1
        folds = min(self._calibration_folds, int(np.bincount(codes[split.labeled]).min()))
        if folds < 2:
            warn("calibrate needs two labelled rows of every class: probabilities are not calibrated.", LabelWarning)
            return
        seed, callback = int(rng.integers(2**31)), history.calibrating(self._n_networks)
        copy = clone(self).set_params(rounds=rounds, calibrate=False, verbose=0, callback=callback, random_state=seed)
        labels = Labels(codes, self.classes_)
        dealt = deal_folds(labels, n_splits=folds, seed=seed, weight=rows.weight)
        try:
            held_out = FoldFits({"copy": Candidate(copy)}, rows.X, labels, dealt, rows.weight, checked=True).fit()
        except KeyboardInterrupt:
            if rows.context.is_part:
                raise
            warn(
                "interrupted while calibrating: the model is complete, but its probabilities are not calibrated.",
                InterruptWarning,
            )
            return
        weight = rows.weight[held_out.rows]
        shares = self._shares()
        if shares is not None:  # the labelled rows as a sample of the population
            weight = np.asarray(to_population(held_out.codes, weight, shares))
        self.temperature_ = fit_temperature(held_out.probabilities, held_out.codes, weight)

    def _describe_training_rows(self, rows: TrainingRows, learned: Array | None) -> None:
        if rows.context.for_new_rows and self.priors is None:
            super()._describe_training_rows(rows, None)
            return
        super()._describe_training_rows(rows, self._shift_to_priors(self._probabilities(rows.X), rows))

    # -- predicting ------------------------------------------------------------------------------------------

    def _flat(self, X: Any) -> Array:
        X, shape = self._read(X), self._trained.architecture.row_shape
        if X.shape[1:] != shape:
            raise ParameterError(f"X has rows of shape {X.shape[1:]}; the model was trained on rows of shape {shape}.")
        return np.asarray(X.reshape(len(X), -1))

    def network_average(self) -> NetworkAverage:
        """Return the networks in the moving average with their scaling, before temperature and known shares."""
        check_is_fitted(self, "transduction_")
        if self._trained.architecture.encoder is not None:
            raise ParameterError("the model has your own encoder, not the default networks.")
        return self._trained.packed

    def _probabilities(self, X: Any) -> Array:
        p = self._trained.predict_proba(X.reshape(len(X), -1))
        return self._shifted(p if self.temperature_ == 1.0 else temper(p, self.temperature_))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row: the moving average over the rounds' networks."""
        rows = self._flat(X)
        with one_blas_thread():
            return check_probabilities(self._probabilities(rows))

    def round_proba(self, X: Any, round: int = -1) -> Array:
        """Return the probabilities of one round's network alone: 0 is the initial network, -1 the last one."""
        return self._trained.round_proba(self._flat(X), round)

    def round_embedding(self, X: Any, round: int = -1) -> Array:
        """Return the embedding of every row by one round's network: 0 is the initial network, -1 the last one."""
        return self._trained.embed(self._flat(X), round)

    def transform(self, X: Any) -> Array:
        """Return the embedding f of every row, by the last network; those of several networks are concatenated."""
        return self.round_embedding(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of ``transform``: deepsep0, deepsep1 and so on."""
        check_is_fitted(self, "n_rounds_")
        return np.array([f"deepsep{i}" for i in range(self._trained.width)], dtype=object)

    # -- saving ----------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        trained = self._trained
        state = {name: getattr(self, name) for name in ("history_", "n_rounds_", "n_iter_", "temperature_")}
        state |= {"row_shape": list(trained.architecture.row_shape), "hidden": list(trained.architecture.hidden)}
        state["n_states"] = len(trained.states)
        arrays = {f"round{t}/{name}": value for t, saved in enumerate(trained.states) for name, value in saved.items()}
        arrays |= {**vars(trained.scaling), "round_weights": trained.weights}
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        n, shape, hidden = state.pop("n_states"), tuple(state.pop("row_shape")), tuple(state.pop("hidden"))
        self.__dict__.update(state)
        c, d = len(self.classes_), int(np.prod(shape))
        device = "cpu" if self.encoder is None or self.device == "cpu" else "cuda"  # if there is one
        self._trained = TrainedRounds(
            Architecture(shape, c, hidden, self.dropout, self.l2, self.encoder, device),
            Scaling.from_arrays(arrays, d),
            [below(arrays, f"round{t}/") for t in range(n)],
            checked_array(arrays, "round_weights", (max(n - 1, 1),), "f"),
        )
        self._trained.check()

    def _row_of_zeros(self) -> Array:
        return np.zeros((1, *self._trained.architecture.row_shape))

    # -- settings --------------------------------------------------------------------------------------------

    def _check_with_classes(self) -> None:
        c = len(self.classes_)
        require(self, "smoothing", self.smoothing < 1 / c, f"less than 1/{c}, since there are {c} classes")
        super()._check_with_classes()

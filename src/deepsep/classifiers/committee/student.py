"""The student of a committee: a network with nearly the same predictions in a fraction of the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from deepsep.classifiers.base import Classifier
from deepsep.classifiers.declared_settings import settings
from deepsep.core.arrays import Array, below
from deepsep.core.checks import is_number
from deepsep.core.probability import check_probabilities, smooth_labels
from deepsep.core.scaling import ScaledRows, Scaling
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ModelFileError, ParameterError
from deepsep.files.saving import COMMON_ATTRIBUTES
from deepsep.networks import NetworkAverage, NumpyNetwork, OneHotAverage

MAX_STUDENT_ROWS = 100_000  # unlabelled rows; more make no difference
LABEL_SMOOTHING = 1e-3  # as in DeepSep


@settings
class Student(Classifier):
    """Network that learns a committee's predictions: ``Committee(student=True).fit(X, y).student_``.

    It is trained in two phases, after the paper: on the committee's class probabilities of the unlabelled rows, then
    more slowly on these and the labels. A fifth of the unlabelled rows, at most 2,000, are held out to measure the
    agreement with the committee.

    Attributes
    ----------
    agreement_ : float
        Share of the held-out rows for which student and committee predict the same class.
    accuracy_loss_ : float
        Loss of accuracy due to the differences, if the committee's probabilities are right: the mean over the held-out
        rows of the probability of the committee's class minus that of the student's.
    n_held_out_ : int
        Number of held-out rows.
    network_weights_ : dict
        The weights of the network, by torch's names.
    """

    method_name = "student"
    predicts_in_threads = True  # in NumPy, without state
    _measured: ClassVar = ("agreement_", "accuracy_loss_", "n_held_out_")

    def _check_parameters(self) -> None:
        raise ParameterError("Student: only a committee can train it. Fit a Committee and use its student_.")

    # -- learning --------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, teacher: Classifier, rows: TrainingRows, p: Array, rng: np.random.Generator) -> Self | None:
        """Return the student of a fitted classifier; None if there are too few unlabelled rows.

        ``rows`` are those of the teacher's fit, and ``p`` (n, c) its probabilities of them.
        """
        n = len(rows.unlabeled)
        if n < 100:
            return None
        student = cls()
        read = (*COMMON_ATTRIBUTES, "_exponents")
        student.__dict__.update({name: value for name, value in vars(teacher).items() if name in read})
        student.n_held_out_ = min(int(0.2 * n), 2_000)
        held_out, pool = np.split(rng.permutation(rows.unlabeled), [student.n_held_out_])
        student._train(rows, pool[:MAX_STUDENT_ROWS], p, rng)
        codes = student._probabilities(rows.X).argmax(axis=1)
        student._set_transduction(np.where(rows.codes >= 0, rows.codes, codes))
        student._compare(p[held_out], codes[held_out], rows.weight[held_out])
        return student

    def _train(self, rows: TrainingRows, pool: Array, p: Array, rng: np.random.Generator) -> None:
        self._scaling = Scaling.of(rows.X, rows.weight)
        l2 = 1e-3 * min(1.0, 2_400 / len(pool))
        network = NumpyNetwork(rows.X.shape[1], rows.n_classes, hidden=(128, 32), dropout=0.0, l2=l2, rng=rng)

        # Labelled rows come first. They are weighted to the teacher's class shares, since labels may fill quotas.
        labeled = rows.labeled
        m, codes = len(labeled), rows.codes[labeled]
        index = np.concatenate([labeled, pool])
        mass = rows.weight[index] / rows.weight.max()
        shares = (p[pool] * mass[m:, None]).sum(axis=0) / mass[m:].sum()
        given = np.bincount(codes, weights=mass[:m], minlength=rows.n_classes)
        mass[:m] *= (shares / given * given.sum())[codes]
        targets = np.empty((len(index), rows.n_classes), np.float32)
        targets[:m] = smooth_labels(codes, rows.n_classes, min(LABEL_SMOOTHING, 0.1 / rows.n_classes))
        targets[m:] = p[pool]

        def train(first: int, epochs: int, rate: float) -> None:
            X: Any = ScaledRows(rows.X, self._scaling, index[first:])
            weight = mass[first:] / mass[first:].max()
            network.train(X, targets[first:], loss="kl", epochs=epochs, lr=rate, batch_size=64, rng=rng, weight=weight)

        epochs = int(np.clip(300_000 // len(pool), 12, 300))
        train(m, epochs - epochs // 6, 1e-3)
        train(0, epochs // 6, 1e-4)
        self._keep(network)

    def _keep(self, network: NumpyNetwork) -> None:
        self.network_weights_ = network.state()
        centre, scale = self._scaling.centre, self._scaling.scale
        self._network = NetworkAverage([self.network_weights_], np.ones(1), centre, scale)

    def _compare(self, p: Array, codes: Array, weight: Array) -> None:
        """Set the agreement with the teacher, and the loss of accuracy, on held-out rows."""
        row, teachers = np.arange(len(p)), p.argmax(axis=1)
        self.agreement_ = float(np.average(codes == teachers, weights=weight))
        self.accuracy_loss_ = float(np.average(p[row, teachers] - p[row, codes], weights=weight))

    # -- predicting and saving -------------------------------------------------------------------------------

    def in_parts(self, plain: Array, groups: Sequence[Array]) -> Callable[[Array, Array], Array | None] | None:
        """Return ``predict_proba`` for rows in two parts, as :class:`deepsep.networks.OneHotAverage` takes them.

        The function gives the same bits faster, or None for rows that need ``predict_proba``. Returns None if there is
        no such function.
        """
        if self._exponents is not None or not len(groups):
            return None
        network = OneHotAverage(self._network, plain, groups)

        def predict(numbers: Array, levels: Array) -> Array | None:
            with one_blas_thread():
                p = network.predict_proba(numbers, levels)
            return None if p is None else check_probabilities(p)

        return predict

    def predict_bounded(self, X: Array) -> Array:
        """Return ``predict_proba`` of a matrix that is known to be finite and of ordinary size."""
        if self._exponents is not None:
            return self.predict_proba(X)
        with one_blas_thread():
            return check_probabilities(self._probabilities(X))

    def network_average(self) -> NetworkAverage:
        """Return the network with its scaling, as it predicts."""
        return self._network

    def _probabilities(self, X: Array) -> Array:
        return self._network.predict_proba(X)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state = {name: getattr(self, name) for name in self._measured}
        network = {f"network/{name}": value for name, value in self.network_weights_.items()}
        return state, {**network, **vars(self._scaling)}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        d, c = self.n_features_in_, len(self.classes_)
        self.__dict__.update({name: state[name] for name in self._measured})
        if not (is_number(self.agreement_) and 0 <= self.agreement_ <= 1 and is_number(self.accuracy_loss_)):
            raise ModelFileError("the student has no agreement with its committee. Save the model again.")
        self._scaling = Scaling.from_arrays(arrays, d)
        saved = below(arrays, "network/")
        hidden = [len(saved[f"encoder.{i}.weight"]) for i in (0, 4)]
        # Raises if the weights do not fit together.
        network = NumpyNetwork(d, c, hidden=hidden, rng=np.random.default_rng(0))
        network.load_state(saved)
        self._keep(network)

"""The methods by name: one plain table."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from deepsep.errors import ParameterError


class Method(NamedTuple):
    """One row of the table."""

    place: str  # module:class, or module:function(name) for the supervised ones
    what: str
    assumes: str
    cost: str
    package: str | None = None  # an optional package without which it cannot be built
    extra: str = ""  # the extra of deepsep that installs it


BASELINE = "deepsep.rivals._supervised:baseline"

TABLE: Mapping[str, Method] = {
    "deepsep": Method(
        "deepsep._deepsep:DeepSep",
        "deep low-density separation: a network and transductive SVMs that teach each other",
        "boundaries between classes pass through few rows",
        "seconds, whatever the number of unlabelled rows up to 10,000; linear beyond",
    ),
    "tsvm": Method(
        "deepsep._tsvm:TSVM",
        "transductive SVMs, one against the rest, on the features as they are",
        "straight boundaries through few rows",
        "well below a second for thousands of rows; linear",
    ),
    "mean-teacher": Method(
        "deepsep.rivals._consistency:MeanTeacher",
        "a network that agrees with the moving average of itself under noise",
        "a little noise does not change the class",
        "seconds, whatever the number of rows",
    ),
    "pi-model": Method(
        "deepsep.rivals._consistency:PiModel",
        "a network that agrees with itself under two draws of noise",
        "a little noise does not change the class",
        "seconds, whatever the number of rows",
    ),
    "temporal-ensembling": Method(
        "deepsep.rivals._consistency:TemporalEnsembling",
        "a network that agrees with the average of its own earlier answers",
        "a little noise does not change the class",
        "seconds, whatever the number of rows",
    ),
    "pseudo-label": Method(
        "deepsep.rivals._pseudo_label:PseudoLabel",
        "a network that takes its own best guesses for labels, more and more",
        "boundaries between classes pass through few rows",
        "seconds, whatever the number of rows",
    ),
    "entropy-network": Method(
        "deepsep.rivals._entropy:EntropyNetwork",
        "a network that should also be sure about the unlabelled rows",
        "classes hardly overlap",
        "seconds, whatever the number of rows",
    ),
    "entropy-logistic": Method(
        "deepsep.rivals._entropy_logistic:EntropyLogistic",
        "logistic regression that should also be sure about the unlabelled rows",
        "classes hardly overlap, with straight boundaries",
        "seconds; linear",
    ),
    "svm-network": Method(
        "deepsep.rivals._svm_network:SVMNetwork",
        "a network with an SVM's loss; labelled rows alone",
        "nothing about the unlabelled rows",
        "seconds, whatever the number of rows",
    ),
    "deep-label-propagation": Method(
        "deepsep.rivals._deep_propagation:DeepLabelPropagation",
        "labels spread over neighbours in a network's embedding, and train it",
        "rows near each other in the embedding are of one class",
        "seconds to minutes; nearest neighbours of all rows in every round",
    ),
    "local-label-propagation": Method(
        "deepsep.rivals._local_propagation:LocalLabelPropagation",
        "each row takes the vote of the labelled rows nearest in a network's embedding, which trains it",
        "rows near each other in the embedding are of one class",
        "seconds to minutes; neighbours among the labelled rows in every round",
    ),
    "label-propagation": Method(
        "deepsep.rivals._spreading:LabelPropagation",
        "labels spread over a graph of nearest neighbours and stay as given",
        "neighbours are of one class, and labels are right",
        "seconds; nearest neighbours of all rows; memory linear",
    ),
    "label-spreading": Method(
        "deepsep.rivals._spreading:LabelSpreading",
        "labels spread over a graph of nearest neighbours and may be overruled",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; memory linear",
    ),
    "graph-mincut": Method(
        "deepsep.rivals._mincut:GraphMinCut",
        "the cheapest cut of a graph of nearest neighbours that separates the labels",
        "neighbours are of one class",
        "seconds to minutes; a maximum flow for each class and draw",
    ),
    "markov-random-walk": Method(
        "deepsep.rivals._random_walk:MarkovRandomWalk",
        "the label of the row from which a random walk over neighbours came",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; memory linear",
    ),
    "semiboost": Method(
        "deepsep.rivals._semiboost:SemiBoost",
        "boosted trees that also agree between similar rows",
        "similar rows are of one class",
        "seconds to minutes; a tree for each class and round",
    ),
    "vae-m1": Method(
        "deepsep.rivals._vae:VariationalM1",
        "logistic regression on what a variational autoencoder of all rows has found",
        "what describes the rows also tells the classes apart",
        "seconds, whatever the number of rows",
    ),
    "vae-m2": Method(
        "deepsep.rivals._vae:VariationalM2",
        "a variational autoencoder with the class as a hidden variable",
        "the class is a main cause of what the rows look like",
        "seconds; grows with the number of classes",
    ),
    "ladder": Method(
        "deepsep.rivals._ladder:LadderNetwork",
        "a network whose every layer also learns to remove noise",
        "a little noise does not change the class",
        "seconds, whatever the number of rows",
    ),
    "lightgbm": Method(
        BASELINE,
        "gradient boosting with LightGBM's defaults; labelled rows alone",
        "at least some hundred labels: with 35 its default leaves hold too few rows to split",
        "below a second",
    ),
    "lightgbm-few-labels": Method(
        BASELINE,
        "gradient boosting with settings that suit few rows; labelled rows alone",
        "nothing about the unlabelled rows",
        "below a second",
    ),
    "random-forest": Method(
        BASELINE,
        "500 trees on resampled rows; labelled rows alone",
        "nothing about the unlabelled rows",
        "a second",
    ),
    "extra-trees": Method(
        BASELINE,
        "500 trees with random thresholds; labelled rows alone",
        "nothing about the unlabelled rows",
        "a second",
    ),
    "logistic-regression": Method(
        BASELINE,
        "logistic regression; labelled rows alone",
        "straight boundaries",
        "well below a second",
    ),
    "knn": Method(
        BASELINE,
        "the vote of the nearest labelled rows",
        "few features, all of them telling",
        "well below a second",
    ),
    "svm": Method(
        BASELINE,
        "a support vector machine with an RBF kernel; labelled rows alone",
        "nothing about the unlabelled rows",
        "well below a second",
    ),
    "xgboost": Method(
        BASELINE,
        "gradient boosting with XGBoost's defaults; labelled rows alone",
        "nothing about the unlabelled rows",
        "below a second",
        package="xgboost",
        extra="xgboost",
    ),
    "self-training": Method(
        BASELINE,
        "logistic regression that adds its surest guesses to its labels",
        "sure guesses are right",
        "a second",
    ),
}


def methods() -> dict[str, str]:
    """Return the names of the methods that can be built here, each with what it is, what it assumes and what it costs.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> from deepsep import methods
    >>> methods()["tsvm"].split(". ")[1]
    'Assumes: straight boundaries through few rows'
    """
    return {
        name: f"{row.what[0].upper()}{row.what[1:]}. Assumes: {row.assumes}. Cost: {row.cost}."
        for name, row in TABLE.items()
        if row.package is None or find_spec(row.package) is not None
    }


def method(name: str, **settings: Any) -> Any:
    """Build a method by name.

    Parameters
    ----------
    name : str
        One of :func:`methods`.
    **settings
        Of the method's class, such as ``random_state``.

    Returns
    -------
    scikit-learn classifier
        With the conventions of :class:`deepsep.DeepSep`.

    Raises
    ------
    ParameterError
        If there is no such method, or it has no such setting.
    ImportError
        If it needs a package that is not installed.

    Examples
    --------
    >>> from deepsep import method
    >>> X = [[0.0, 1.0], [0.1, 0.8], [0.2, 0.9], [3.0, 0.2], [2.9, 0.1], [2.8, 0.3]]
    >>> y = ["low", "low", None, "high", "high", None]
    >>> method("label-spreading").fit(X, y).transduction_.tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """
    if name not in TABLE:
        close = get_close_matches(str(name), TABLE, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ParameterError(f"there is no method {name!r}; {hint}The methods are: {', '.join(TABLE)}.")
    row = TABLE[name]
    if row.package is not None and find_spec(row.package) is None:
        raise ImportError(
            f'the method {name!r} needs {row.package}. Install it with: pip install "deepsep[{row.extra}]"'
        )
    module, _, builder = row.place.partition(":")
    build = getattr(import_module(module), builder)
    if row.place == BASELINE:
        return build(name, **settings)
    known = list(build._get_param_names())
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise ParameterError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}.")
    return build(**settings)

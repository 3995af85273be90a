"""The catalogue of methods: one record each, used by help, reports, tuning, saving, the documentation and the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, NamedTuple

from deepsep.errors import ParameterError


class Range(NamedTuple):
    """Range in which a setting is tuned."""

    low: float
    high: float
    whole: bool = False
    log: bool = True


@dataclass(frozen=True)
class Method:
    """Record of a method."""

    name: str  # in code and on the command line
    title: str  # in sentences
    place: str  # its class, as ``module:class`` of this package
    what: str  # short description, as help and reports show it, like its assumption and its cost
    assumes: str
    cost: str
    uses_unlabeled: bool = True  # whether it learns from unlabelled rows
    # Whether ``deepsep compare`` runs it by default: the committee, and one quick method for each idea
    compared: bool = False
    in_study: bool = False  # whether it is in the paper's study
    tuning: Mapping[str, Range] = field(default_factory=dict)  # range of each setting that is tuned
    classifier: str = ""  # class that a supervised method wraps, as ``module:class``
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of that class that differ from its defaults
    standardize: bool = False  # whether a supervised method scales features first
    extra: str = ""  # the optional extra of deepsep that installs its dependencies
    shipped: Mapping[str, Any] = field(default_factory=dict)  # settings that commands use instead of its defaults

    @property
    def class_name(self) -> str:
        """The name of its class."""
        return self.place.partition(":")[2]

    @property
    def home(self) -> str:
        """The module of its class."""
        return f"deepsep.{self.place.partition(':')[0]}"

    @property
    def is_installed(self) -> bool:
        """True if the package that it needs is installed."""
        return not self.extra or find_spec(self.classifier.partition(":")[0]) is not None


_NETWORK = {"learning_rate": Range(3e-4, 1e-2), "dropout": Range(0.0, 0.7, log=False)}
_COST, _ENTROPY = Range(1e-2, 10), Range(0.03, 3)
_SPREAD, _NEIGHBOURS = Range(0.3, 0.995, log=False), Range(3, 50, whole=True)
_BOOSTING = {
    "learning_rate": Range(1e-2, 0.3),
    "num_leaves": Range(3, 63, whole=True),
    "min_child_samples": Range(1, 30, whole=True),
    "max_depth": Range(1, 10, whole=True),
}
_FOREST = {"max_features": Range(0.05, 1.0), "max_depth": Range(1, 10, whole=True)}

_LIGHTGBM = {"n_jobs": 1, "verbose": -1, "deterministic": True, "force_col_wise": True}


def _supervised(name: str, title: str, classifier: str, what: str, **others: Any) -> Method:
    """Return the record of a method that learns from the labelled rows alone."""
    common: dict[str, Any] = {
        "assumes": "nothing about the unlabelled rows",
        "cost": "below a second",
        "uses_unlabeled": False,
    }
    what = f"{what}; labelled rows alone"
    return Method(name, title, "classifiers.supervised:Supervised", what, classifier=classifier, **(common | others))


_METHODS = (
    Method(
        "committee",
        "committee",
        "classifiers.committee.committee:Committee",
        "forests, LightGBM, in-context networks and DeepSep, weighted by their predictions of held-out labels",
        "one of its members suits the table",
        "a minute or two for thousands of rows on two cores; linear",
        compared=True,
    ),
    Method(
        "deepsep",
        "DeepSep",
        "classifiers.deep_separation.deepsep:DeepSep",
        "deep low-density separation: a network and transductive SVMs that teach each other",
        "boundaries between classes pass through few rows",
        "seconds; linear in the unlabelled rows",
        compared=True,
        in_study=True,
        tuning={**_NETWORK, "C": _COST},
        # In Python, calibration is off by default since it costs three more fits. Commands calibrate, because
        # probabilities are part of their output. On NHANES it reduces the calibration error from 47 points to 3 to 5.
        shipped={"calibrate": True},
    ),
    Method(
        "tsvm",
        "TSVM",
        "classifiers.tsvm.tsvm:TSVM",
        "transductive SVMs, one against the rest, on the features as they are",
        "straight boundaries through few rows",
        "well below a second for thousands of rows; linear",
        compared=True,
        in_study=True,
        tuning={"C": _COST},
    ),
    Method(
        "in-context",
        "in-context network",
        "classifiers.in_context.in_context:InContext",
        "a network trained beforehand on synthetic tables, which classifies a new table in one pass",
        "the table resembles some of the millions it was trained on",
        "about a minute for thousands of rows on two cores; linear; nothing is trained",
    ),
    Method(
        "mean-teacher",
        "Mean Teacher",
        "zoo.consistency.consistency:MeanTeacher",
        "a network that agrees with the moving average of itself under noise",
        "a little noise does not change the class",
        "seconds, for any number of rows",
        compared=True,
        in_study=True,
        tuning={**_NETWORK, "consistency": Range(0.3, 100)},
    ),
    Method(
        "pi-model",
        "Π-model",
        "zoo.consistency.consistency:PiModel",
        "a network that agrees with itself under two draws of noise",
        "a little noise does not change the class",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "consistency": Range(0.3, 100)},
    ),
    Method(
        "transformation-stability",
        "transformation/stability loss",
        "zoo.consistency.consistency:TransformationStability",
        "a network that agrees with itself under several draws of noise, and on one class only",
        "a little noise does not change the class, and classes hardly overlap",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "consistency": Range(0.3, 100), "exclusivity": Range(0.01, 1)},
    ),
    Method(
        "temporal-ensembling",
        "temporal ensembling",
        "zoo.consistency.consistency:TemporalEnsembling",
        "a network that agrees with the average of its own earlier answers",
        "a little noise does not change the class",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "consistency": Range(0.3, 100)},
    ),
    Method(
        "pseudo-label",
        "pseudo-labels",
        "zoo.consistency.confidence:PseudoLabel",
        "a network that learns its own predictions as labels, with growing weight",
        "boundaries between classes pass through few rows",
        "seconds, for any number of rows",
        tuning=_NETWORK,
    ),
    Method(
        "entropy-network",
        "entropy-regularised network",
        "zoo.consistency.confidence:EntropyNetwork",
        "a network that should also be confident about the unlabelled rows",
        "classes hardly overlap",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "entropy": _ENTROPY},
    ),
    Method(
        "entropy-logistic",
        "entropy-regularised logistic regression",
        "zoo.consistency.entropy_logistic:EntropyLogistic",
        "logistic regression that should also be confident about the unlabelled rows",
        "classes hardly overlap, with straight boundaries",
        "seconds; linear",
        tuning={"C": _COST, "entropy": _ENTROPY},
    ),
    Method(
        "svm-network",
        "SVM network",
        "zoo.kernels.svm_network:SVMNetwork",
        "a network with an SVM's loss; labelled rows alone",
        "nothing about the unlabelled rows",
        "seconds, for any number of rows",
        uses_unlabeled=False,
        tuning=_NETWORK,
    ),
    Method(
        "deep-label-propagation",
        "deep label propagation",
        "zoo.propagation.embedding_propagation:DeepLabelPropagation",
        "labels spread over neighbours in a network's embedding, and train it",
        "rows near each other in the embedding are of one class",
        "seconds to minutes; nearest neighbours of all rows in every round",
        tuning={**_NETWORK, "alpha": _SPREAD, "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "local-label-propagation",
        "local label propagation",
        "zoo.propagation.embedding_propagation:LocalLabelPropagation",
        "each row takes the vote of the labelled rows nearest in a network's embedding, which trains it",
        "rows near each other in the embedding are of one class",
        "seconds to minutes; neighbours among the labelled rows in every round",
        tuning={**_NETWORK, "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "label-propagation",
        "label propagation",
        "zoo.graphs.spreading:LabelPropagation",
        "labels spread over a graph of nearest neighbours and stay as given",
        "neighbours are of one class, and labels are right",
        "seconds; nearest neighbours of all rows; memory linear",
        tuning={"n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "label-spreading",
        "label spreading",
        "zoo.graphs.spreading:LabelSpreading",
        "labels spread over a graph of nearest neighbours and may be overruled",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; memory linear",
        compared=True,
        tuning={"alpha": _SPREAD, "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "graph-mincut",
        "graph min-cut",
        "zoo.graphs.mincut:GraphMinCut",
        "the cheapest cut of a graph of nearest neighbours that separates the labels",
        "neighbours are of one class",
        "seconds to minutes; a maximum flow for each class and draw",
        tuning={"n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "markov-random-walk",
        "Markov random walk",
        "zoo.graphs.random_walk:MarkovRandomWalk",
        "the label of the row from which a random walk over neighbours came",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; memory linear",
        tuning={"n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "semiboost",
        "SemiBoost",
        "zoo.wrappers.semiboost:SemiBoost",
        "boosted trees that also agree between similar rows",
        "similar rows are of one class",
        "seconds to minutes; a tree for each class and round",
        tuning={"C": _COST, "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "vae-m1",
        "variational M1",
        "zoo.generative.variational_autoencoder:VariationalM1",
        "logistic regression on the hidden variables of a variational autoencoder of all rows",
        "what describes the rows also tells the classes apart",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "C": _COST},
    ),
    Method(
        "vae-m2",
        "variational M2",
        "zoo.generative.variational_autoencoder:VariationalM2",
        "a variational autoencoder with the class as a hidden variable",
        "the class is a main cause of what the rows look like",
        "seconds; grows with the number of classes",
        tuning={**_NETWORK, "alpha": Range(1, 100)},
    ),
    Method(
        "vae-m1m2",
        "variational M1+M2",
        "zoo.generative.variational_autoencoder:VariationalM1M2",
        "M2 on the hidden variables of M1",
        "what describes the rows also tells the classes apart",
        "seconds; grows with the number of classes",
        tuning={**_NETWORK, "alpha": Range(1, 100)},
    ),
    Method(
        "ladder",
        "ladder network",
        "zoo.consistency.ladder:LadderNetwork",
        "a network whose every layer also learns to remove noise",
        "a little noise does not change the class",
        "seconds, for any number of rows",
        tuning={"learning_rate": _NETWORK["learning_rate"]},
    ),
    Method(
        "feature-matching-gan",
        "feature-matching GAN",
        "zoo.adversarial.feature_matching:FeatureMatchingGAN",
        "a network that also tells rows from made-up ones, which imitate the mean features of real rows",
        "what sets rows apart from made-up ones also sets the classes apart",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "weight": Range(0.1, 10)},
    ),
    Method(
        "complement-gan",
        "complement GAN",
        "zoo.adversarial.feature_matching:ComplementGAN",
        "the same, with made-up rows where rows are few: boundaries between classes go there",
        "boundaries between classes pass through few rows",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "weight": Range(0.1, 10), "entropy": _ENTROPY},
    ),
    Method(
        "triple-gan",
        "Triple-GAN",
        "zoo.adversarial.triple_gan:TripleGAN",
        "a classifier and a generator of rows, whose pairs of row and class should pass for labelled ones",
        "the class is a main cause of what the rows look like",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "pseudo": Range(0.01, 1)},
    ),
    _supervised(
        "lightgbm",
        "LightGBM",
        "lightgbm:LGBMClassifier",
        "gradient boosting with LightGBM's defaults",
        assumes="at least some hundred labels: with 35 its default leaves hold too few rows to split",
        in_study=True,
        tuning=_BOOSTING,
        settings=_LIGHTGBM,
    ),
    _supervised(
        "lightgbm-few-labels",
        "LightGBM (few labels)",
        "lightgbm:LGBMClassifier",
        "gradient boosting with settings that suit few rows",
        compared=True,
        in_study=True,
        tuning=_BOOSTING,
        # Chosen on 12 tables at 35, 125 and 500 labels, on other splits than the benchmark's: 61.2 % of rows right on
        # average, 60.5 % with ordinary thresholds, leaves of at least 3 rows and an L2 penalty of 1, and better
        # calibrated.
        settings={
            **_LIGHTGBM,
            "n_estimators": 200,
            "learning_rate": 0.05,
            "num_leaves": 8,
            "min_child_samples": 1,
            "min_data_in_bin": 1,
            "reg_lambda": 3.0,
            "extra_trees": True,
            "subsample": 0.8,
            "subsample_freq": 1,
            "colsample_bytree": 0.5,
        },
    ),
    _supervised(
        "random-forest",
        "random forest",
        "sklearn.ensemble:RandomForestClassifier",
        "500 trees on resampled rows",
        cost="a second",
        compared=True,
        tuning=_FOREST,
        settings={"n_estimators": 500},
    ),
    _supervised(
        "extra-trees",
        "extra trees",
        "sklearn.ensemble:ExtraTreesClassifier",
        "500 trees with random thresholds",
        cost="a second",
        tuning=_FOREST,
        settings={"n_estimators": 500},
    ),
    _supervised(
        "logistic-regression",
        "logistic regression",
        "sklearn.linear_model:LogisticRegression",
        "logistic regression",
        assumes="straight boundaries",
        cost="well below a second",
        compared=True,
        tuning={"C": Range(1e-2, 100)},
        settings={"max_iter": 1000},
        standardize=True,
    ),
    Method(
        "knn",
        "k nearest neighbours",
        "classifiers.supervised:Supervised",
        "the vote of the nearest labelled rows",
        "few features, all of them informative",
        "well below a second",
        uses_unlabeled=False,
        tuning={"n_neighbors": Range(1, 30, whole=True)},
        classifier="sklearn.neighbors:KNeighborsClassifier",
        settings={"algorithm": "brute"},
        standardize=True,
    ),
    _supervised(
        "svm",
        "SVM",
        "sklearn.svm:SVC",
        "a support vector machine with an RBF kernel",
        cost="well below a second",
        tuning={"C": Range(1e-2, 100)},
        # On standardised features "auto" equals "scale", but respects weights. The small tolerance makes a weight of 2
        # equal to two rows.
        settings={"gamma": "auto", "tol": 1e-9},
        standardize=True,
    ),
    _supervised(
        "xgboost",
        "XGBoost",
        "xgboost:XGBClassifier",
        "gradient boosting with XGBoost's defaults",
        tuning={"learning_rate": Range(1e-2, 0.3), "max_depth": Range(1, 10, whole=True)},
        settings={"n_jobs": 1, "verbosity": 0},
        extra="xgboost",
    ),
    Method(
        "self-training",
        "self-training",
        "classifiers.supervised:Supervised",
        "logistic regression that adds its most confident predictions to its labels",
        "confident predictions are right",
        "a second",
        compared=True,
        classifier="sklearn.semi_supervised:SelfTrainingClassifier",
        settings={"estimator": "sklearn.linear_model:LogisticRegression"},
        standardize=True,
    ),
    Method(
        "co-training",
        "co-training",
        "zoo.wrappers.co_training:CoTraining",
        "two classifiers on different columns that label their most confident rows for each other",
        "either half of the columns would do alone, and they err on different rows",
        "seconds to minutes; a fit of two classifiers in every round",
    ),
    Method(
        "tri-training",
        "tri-training",
        "zoo.wrappers.tri_training:TriTraining",
        "three forests, each taught the labels on which the other two agree",
        "where two of three agree, they are right",
        "seconds; some fits to all rows",
    ),
    Method(
        "virtual-adversarial",
        "virtual adversarial training",
        "zoo.consistency.virtual_adversarial:VirtualAdversarial",
        "a network whose prediction should not change under small changes of a row",
        "boundaries between classes pass through few rows",
        "seconds, for any number of rows",
        tuning={**_NETWORK, "epsilon": Range(0.03, 1.0)},
    ),
    Method(
        "laplacian-svm",
        "Laplacian SVM",
        "zoo.graphs.laplacian_svm:LaplacianSVM",
        "a support vector machine whose scores also vary little between neighbours",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; linear in the rows, cubic in the centres",
        tuning={"C": Range(1e-1, 100), "smoothness": Range(1.0, 1e4), "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "cluster-kernel",
        "cluster kernel",
        "zoo.graphs.spectral_kernels:ClusterKernel",
        "a support vector machine for which rows of one cluster are close",
        "classes are made of clusters",
        "seconds; nearest neighbours of all rows, and leading eigenvectors of their graph",
        tuning={"C": _COST, "power": Range(1, 20, whole=True), "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "spectral-transform",
        "spectral transform",
        "zoo.graphs.spectral_kernels:SpectralTransform",
        "a support vector machine on the eigenvectors of a graph, weighted so that they agree with the labels",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows, and leading eigenvectors of their graph",
        tuning={"C": _COST, "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "information-regularization",
        "information regularisation",
        "zoo.graphs.information:InformationRegularization",
        "class distributions of all rows that vary little within neighbourhoods",
        "neighbours are of one class",
        "seconds; nearest neighbours of all rows; memory linear",
        tuning={"strength": Range(0.01, 10), "n_neighbors": _NEIGHBOURS},
    ),
    Method(
        "null-category-gp",
        "null-category Gaussian process",
        "zoo.transductive.null_category_gp:NullCategoryGP",
        "a Gaussian process for each class against the rest, with a gap between both in which no row lies",
        "boundaries between classes pass through few rows, and known class shares",
        "seconds for thousands of rows; linear in the rows, cubic in the inducing points",
        tuning={"gamma": Range(1e-3, 10), "variance": Range(0.3, 30)},
    ),
    Method(
        "deep-kernel",
        "deep kernel",
        "zoo.kernels.deep_kernel:DeepKernel",
        "a Gaussian process on a network's embedding, which should also be confident about the unlabelled rows",
        "unlabelled rows resemble labelled ones",
        "seconds, for any number of unlabelled rows; cubic in up to 1,000 labelled ones",
        tuning={**_NETWORK, "alpha": Range(0.01, 10)},
    ),
    Method(
        "switching-tsvm",
        "label-switching TSVM",
        "zoo.transductive.switching_tsvm:SwitchingTSVM",
        "transductive SVMs that label the unlabelled rows, a fixed share of them positive, and switch pairs of labels",
        "straight boundaries through few rows, and known class shares",
        "seconds for thousands of rows; dozens of SVMs for each class",
        tuning={"C": _COST},
    ),
    Method(
        "gradient-tsvm",
        "∇TSVM",
        "zoo.transductive.gradient_tsvm:GradientTSVM",
        "transductive SVMs with smooth losses, by gradient descent",
        "straight boundaries through few rows",
        "a second for thousands of rows; linear",
        tuning={"C": _COST},
    ),
    Method(
        "continuation-tsvm",
        "continuation TSVM",
        "zoo.transductive.continuation_tsvm:ContinuationTSVM",
        "∇TSVM, whose objective is smoothed first, and then less and less",
        "straight boundaries through few rows",
        "a second for thousands of rows; linear",
        tuning={"C": _COST},
    ),
    Method(
        "s4vm",
        "S4VM",
        "zoo.transductive.s4vm:S4VM",
        "several boundaries through few rows, and the labels that risk least compared with the supervised SVM",
        "straight boundaries, one of several through few rows",
        "fifty TSVMs: seconds to minutes for thousands of rows; linear",
        tuning={"C": _COST},
    ),
    Method(
        "exact-tsvm",
        "exact TSVM",
        "zoo.transductive.exact_tsvm:ExactTSVM",
        "the TSVM at its global minimum, with a proof; for 50 unlabelled rows at most",
        "straight boundaries through few rows",
        "seconds to minutes for 50 unlabelled rows; may double with each",
        tuning={"C": _COST},
    ),
)

CATALOGUE: Mapping[str, Method] = {record.name: record for record in _METHODS}


def record_of(estimator: Any) -> Method | None:
    """Return the record of an estimator's method; None if it is not in the catalogue."""
    return CATALOGUE.get(getattr(estimator, "method_name", ""))


def title_of(estimator: Any) -> str:
    """Return the name of an estimator in sentences: the method's title, or else its class."""
    record = record_of(estimator)
    return type(getattr(estimator, "estimator", estimator)).__name__ if record is None else record.title


def uses_unlabeled(estimator: Any) -> bool:
    """Return whether an estimator learns from unlabelled rows; True for unknown ones."""
    record = record_of(estimator)
    return bool(getattr(estimator, "uses_unlabeled", True)) if record is None else record.uses_unlabeled


def find_method(name: str) -> Method:
    """Return the record of a method by its name, or raise with the nearest name."""
    if name not in CATALOGUE:
        close = get_close_matches(str(name), CATALOGUE, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ParameterError(f"there is no method {name!r}; {hint}The methods are: {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]


def methods() -> dict[str, str]:
    """Return the installed methods by name, each with a description, its assumption and its cost.

    Examples
    --------
    >>> from deepsep import methods
    >>> methods()["tsvm"].split(". ")[1]
    'Assumes: straight boundaries through few rows'
    """
    return {
        name: f"{record.what[0].upper()}{record.what[1:]}. Assumes: {record.assumes}. Cost: {record.cost}."
        for name, record in CATALOGUE.items()
        if record.is_installed
    }

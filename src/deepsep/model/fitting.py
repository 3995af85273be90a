"""Fit a model to a table in a file, a database or memory: what ``deepsep fit`` does, in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.base import Classifier
from deepsep.classifiers.building import shipped_method
from deepsep.classifiers.committee.committee import Committee
from deepsep.core.checks import check_priors, with_fields
from deepsep.core.training_rows import Context
from deepsep.errors import ParameterError, Setting
from deepsep.model.predictions import check_predicted_names
from deepsep.model.table_model import TableModel, for_table
from deepsep.model.training_table import Training, TrainingTable, read_training
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS
from deepsep.table.reading_settings import AS_DETECTED, Reading

DEFAULT_METHOD = "committee"


def fit(
    table: Any,
    *,
    label: str | None = None,
    id: str | None = None,
    method: Any = DEFAULT_METHOD,
    effort: Literal["fast", "normal", "best"] | None = None,
    priors: Mapping[Any, float] | None = None,
    keep: Sequence[str] = (),
    report: bool = True,
    seed: int = 0,
    reading: Reading = AS_DETECTED,
    **fields: Any,
) -> TableModel:
    """Fit a model to a table of which some rows have labels.

    It learns from the unlabelled rows too, and predicts them: of a large table it learns from 20,000, drawn at random.
    The model is the one that ``deepsep fit`` writes.

    Parameters
    ----------
    table : path, sequence of paths, DataFrame or Query
        CSV, TSV, Parquet, Feather, Excel or SPSS; a pattern such as ``"parts/*.csv"``; several files; a DataFrame of
        pandas, polars or Arrow; or a :class:`deepsep.apps.sql.Query` to a database.
    label : str, optional
        Column of labels, empty for unlabelled rows. It may be in another table, which ``labels`` names.
    id : str, optional
        Column of identifiers, which is not a feature. None: rows are numbered from 0.
    method : str or estimator, default="committee"
        One of :func:`deepsep.methods`, or an estimator of deepsep such as ``DeepSep(rounds=3)``.
    effort : {"fast", "normal", "best"}, optional
        How much a committee computes. None: "normal".
    priors : dict {class: share}, optional
        Shares of the classes in the population, if they are known.
    keep : sequence of str, default=()
        Columns to use even if they look like identifiers, or are given for labelled rows only.
    report : bool, default=True
        Whether a report will be asked for: a committee then also fits its members without the unlabelled rows.
    seed : int, default=0
        The same seed gives the same model.
    reading : Reading, optional
        How the files are read.
    **fields
        Fields of :class:`deepsep.model.training_table.TrainingTable`: ``labels``, ``on``, ``prefer``, ``labels_drawn``,
        ``weight``, ``label_weight``, ``drop``, ``text``, ``unlabeled``, ``merge_spellings`` and ``no_label``; and of
        ``reading``, such as ``sheet``.

    Returns
    -------
    TableModel
        With :attr:`~TableModel.predictions`, :attr:`~TableModel.expected_accuracy`, :meth:`~TableModel.report` and
        :meth:`~TableModel.save`.

    Raises
    ------
    DataError
        If the table cannot be read, or nothing can be learned from it.
    ParameterError
        If settings contradict each other.

    Examples
    --------
    >>> import pandas as pd
    >>> import deepsep
    >>> people = pd.DataFrame({"age": [25, 31, 64, 70, 28, 68]})
    >>> people["segment"] = ["young", "young", "old", "old", None, None]
    >>> model = deepsep.fit(people, label="segment", method="tsvm")
    >>> model.predictions["segment"].tolist()
    ['young', 'old']
    >>> deepsep.fit(people, label="segmnt")
    Traceback (most recent call last):
    ...
    deepsep.errors.DataError: label column 'segmnt' not found; did you mean 'segment'?
    """
    of_table = {name: fields.pop(name) for name in TrainingTable.__dataclass_fields__ if name in fields}
    (reading,) = with_fields("fit", fields, reading)
    asked = TrainingTable(source=table, label=label, id=id, reading=reading, **of_table)
    settings = {} if effort is None else {"effort": effort}
    weighted = bool(asked.weight or asked.label_weight)
    estimator = build(method, settings, seed, weighted=weighted)
    if priors is not None:
        check_takes_priors(estimator)
    data = read_training(asked, seed)
    if priors is not None:
        check_priors(dict(priors), data.labels.classes)
        estimator.set_params(priors=dict(priors))
    return fit_training(estimator, data, keep=keep, report=report)


def fit_training(
    estimator: Any, data: Training, *, keep: Sequence[str] = (), report: bool = True, context: Context | None = None
) -> TableModel:
    """Return an estimator fitted to rows that are read already."""
    check_predicted_names(data, MOST_PROBABLE_CLASS)
    if isinstance(estimator, Committee):
        estimator.set_params(twins=report)
    return for_table(estimator, keep=keep).fit_training(data, context)


def build(method: Any, settings: dict[str, Any], seed: int, *, weighted: bool) -> Any:
    """Return a method with its settings and seed, or raise if it does not support what is asked for.

    A committee has a learning curve, unless the settings say otherwise.
    """
    if not isinstance(method, str):
        if settings:
            raise ParameterError("{effort} is for the committee. Leave it out.", effort=Setting("effort"))
        if not isinstance(method, Classifier):
            raise ParameterError(
                f"{{method}}: {type(method).__name__} is not an estimator of deepsep. Pass one of deepsep.methods(), "
                "or fit it with deepsep.for_table.",
                method=Setting("method"),
            )
        return method
    if settings.get("effort") is not None and method != DEFAULT_METHOD:
        raise ParameterError(
            "{effort} is for the committee: leave it out, or leave out {method}.",
            effort=Setting("effort"),
            method=Setting("method", method),
        )
    if method == DEFAULT_METHOD:
        settings = {"learning_curve": True, **settings}
    estimator = shipped_method(method, settings, seed)
    if weighted and not has_fit_parameter(estimator, "sample_weight"):
        raise ParameterError(
            f"{method} takes no weights. Leave out {{weight}} and {{label_weight}}, or choose another method.",
            weight=Setting("weight"),
            label_weight=Setting("label_weight"),
        )
    return estimator


def check_takes_priors(estimator: Any) -> None:
    """Raise if a method has no setting for known shares of the classes."""
    if "priors" not in estimator.get_params(deep=False):
        raise ParameterError(
            f"{getattr(estimator, 'method_name', type(estimator).__name__)} takes no priors. Leave out {{priors}}, or "
            "leave out {method}: the committee takes them.",
            priors=Setting("priors"),
            method=Setting("method"),
        )

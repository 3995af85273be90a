"""Model of a table: a pipeline for DataFrames that knows its accuracy, its predictions and its report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Self

import pandas as pd
from joblib import cpu_count
from sklearn.pipeline import Pipeline

from deepsep import models
from deepsep.classifiers.committee.committee import Committee
from deepsep.classifiers.renaming import rename_classes
from deepsep.core.checks import with_fields
from deepsep.core.column_kinds import ColumnType
from deepsep.core.model_parts import is_pipeline
from deepsep.core.threads import silent_workers
from deepsep.core.training_rows import Context
from deepsep.drift.profile import TrainingProfile
from deepsep.errors import DataError, ModelFileError, ParameterError, Setting, TrainingTableError
from deepsep.evaluation.expected_accuracy import Evidence, ExpectedAccuracy
from deepsep.evaluation.population import given_shares
from deepsep.files.atomic import replace_file
from deepsep.files.manifest import check_model_folder
from deepsep.files.saving import save
from deepsep.model.model_folder import PREDICTIONS_FORMATS, write_folder
from deepsep.model.predictions import Predictions, predict_unlabeled
from deepsep.model.reading_again import as_remembered
from deepsep.model.segment_sizes import Sizes, as_groups, segment_sizes
from deepsep.model.training_table import ROW_COLUMN, TableOrigin, Training
from deepsep.report.findings import check_population
from deepsep.report.held_out import FOLDS
from deepsep.report.page import render
from deepsep.report.summary import summarize
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS
from deepsep.scoring.files import score_file
from deepsep.scoring.frame import score_frame
from deepsep.scoring.job import Progress
from deepsep.scoring.leaving_out import reasons
from deepsep.scoring.to_label import rows_to_label
from deepsep.scoring.training_profile import remember_columns
from deepsep.scoring.who_scores import label_of
from deepsep.table.columns import UsefulColumns, as_frame
from deepsep.table.locations import find_column
from deepsep.table.pipeline import table_steps
from deepsep.table.reading_settings import Reading


class TableColumn(NamedTuple):
    """A column of the training table."""

    type: ColumnType | None  # "number", "boolean", "date" or "text"; None if it is not used
    left_out: str | None  # why it is not used


class TableModel(Pipeline):
    """Model of a table, as :func:`deepsep.fit`, :func:`deepsep.for_table` and :func:`deepsep.load` return it.

    It is a scikit-learn pipeline, with all that those have: ``fit(X, y)``, ``predict``, ``predict_proba``, ``score``,
    ``model[-1]`` for the estimator. Its first step chooses the columns, its last classifies.

    A model of :func:`deepsep.fit` also has the rows that it was fitted to, in :attr:`training`: from them come
    :attr:`predictions`, :meth:`report`, and the files that :meth:`save` writes next to the model. They are not saved
    with it.

    Attributes
    ----------
    origin_ : TableOrigin or None
        How the training table was read: the column of identifiers, and the settings of its files. Later tables are
        read in the same way.

    Examples
    --------
    >>> import pandas as pd
    >>> import deepsep
    >>> people = pd.DataFrame({"user": range(6), "age": [25, 31, 64, 70, 28, 68]})
    >>> people["segment"] = ["young", "young", "old", "old", None, None]
    >>> model = deepsep.fit(people, label="segment", id="user", method="tsvm")
    >>> model.predictions[["user", "segment"]]
       user segment
    0     4   young
    1     5     old
    >>> model.schema_
    {'age': TableColumn(type='number', left_out=None)}
    """

    origin_: TableOrigin | None = None
    training_profile_: TrainingProfile | None = None
    _training: Training | None = None
    _findings: list[dict[str, Any]] | None = None
    _predictions: Predictions | None = None
    _summary: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_training": None, "_predictions": None, "_summary": None}

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Fit all steps to a table; ``y`` has None for unlabelled rows."""
        if y is not None and hasattr(X, "__len__") and hasattr(y, "__len__") and len(X) != len(y):
            raise DataError(f"X has {len(X)} rows and y has {len(y)} entries; they must match.")
        self._training = self._predictions = self._summary = self._findings = self.origin_ = None
        super().fit(X, y, **params)
        return self

    def set_output(self, *, transform: Literal["default", "pandas"] | None = None) -> Self:
        """Set what ``transform`` returns: arrays, or DataFrames of pandas."""
        if transform not in (None, "default", "pandas"):
            raise ParameterError(
                "{transform}: the steps of a model pass DataFrames of pandas on. Pass 'default' or 'pandas'.",
                transform=Setting("transform", transform),
            )
        super().set_output(transform=transform)
        return self

    def fit_training(self, data: Training, context: Context | None = None) -> Self:
        """Fit all steps to rows that are read already, and remember their profile and how they were read."""
        self._predictions = self._summary = None
        weights = {} if data.weight is None else {"sample_weight": data.weight}
        if isinstance(self[-1], Committee):
            weights["labels_drawn"] = data.labels_drawn
        columns = self[0].fit_transform(data.X, data.labels)
        encoded = self[1:-1].fit_transform(columns, data.labels) if len(self) > 2 else columns
        self._findings = _problems(self, columns, data)
        with silent_workers():
            rows = self[-1].training_rows(encoded, data.labels, **weights)
            self[-1].fit_rows(rows, context)
        remember_columns(self, columns, data.labels, data.weight)
        self[0].label_ = data.label
        self.origin_, self._training = data.origin, data
        return self

    # -- what is known about it ---------------------------------------------------------------------------------

    @property
    def schema_(self) -> dict[str, TableColumn]:
        """Columns of the training table, used or not."""
        used = {name: TableColumn(kind, None) for name, kind in self[0].schema_.items()}
        left_out = {name: TableColumn(None, reason) for name, reason in self[0].left_out_.items()}
        return {name: (used | left_out)[name] for name in self[0].feature_names_in_}

    @property
    def label_(self) -> str | None:
        """Name of the column of labels; None if they were no column."""
        return label_of(self)

    @property
    def expected_accuracy(self) -> ExpectedAccuracy | None:
        """Share of the unlabelled rows that should be right, with its interval; None if nothing tells it."""
        return getattr(self[-1], "expected_accuracy_", None)

    @property
    def evidence_(self) -> Evidence | None:
        """Predictions for held-out rows, on which sets and accuracies rest; None if it is not a committee."""
        return getattr(self[-1], "evidence_", None)

    @property
    def student(self) -> Any:
        """Network that answers like the committee, much faster; None if there is none."""
        return getattr(self[-1], "student_", None)

    @property
    def training(self) -> Training:
        """Rows that it was fitted to."""
        if self._training is None:
            raise TrainingTableError(
                "the model does not have its training table: only deepsep.fit keeps it, and a saved model never does. "
                "Pass a table and its labels, or fit again."
            )
        return self._training

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Problems of the training table, as :func:`deepsep.check_table` finds them."""
        return list(self._findings or ())

    @property
    def predictions(self) -> pd.DataFrame:
        """Identifier, label, probabilities and confidence of the unlabelled rows that were read.

        Of a table of which only a part was read, :meth:`save` predicts all.
        """
        if self._predictions is None:
            self._predictions = predict_unlabeled(self, self.training)
        return self._predictions.frame

    # -- results ------------------------------------------------------------------------------------------------

    def summary(self, table: Any = None, labels: Any = None, **settings: Any) -> dict[str, Any]:
        """Return everything that the report shows, as plain values.

        Parameters
        ----------
        table, labels
            Rows and labels to evaluate it with. None: those that it was fitted to.
        **settings
            As in :func:`deepsep.report.summarize`.
        """
        if table is not None:
            return summarize(self, table, labels, **settings)
        if settings or self._summary is None:
            self._summary = _evaluate(self, self.training, **settings)
        return self._summary

    def report(self, path: str | os.PathLike[str], table: Any = None, labels: Any = None, **settings: Any) -> Path:
        """Write the report as a page, and return its path; settings as in :meth:`summary`."""
        replace_file(Path(path), render(self.summary(table, labels, **settings)))
        return Path(path)

    def score_frame(self, frame: Any, *, id: str | None = None, **settings: Any) -> pd.DataFrame:
        """Return label, probabilities and confidence of every row: :func:`deepsep.scoring.score_frame`.

        ``id`` is the column of identifiers; by default that of the training table, if there is one.
        """
        rows = as_frame(frame)
        return score_frame(self, rows, id=self._id_in(rows.columns) if id is None else id, **settings)

    def score_file(
        self,
        source: Any,
        target: str | os.PathLike[str],
        *,
        id: str | None = None,
        reading: Reading | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Score a file of any size, or several: :func:`deepsep.scoring.score_file`.

        The file is read as the training table was: ``id`` is the same, and so is ``reading``. A field of it wins by
        name, such as ``skip_rows=0``, and a whole ``reading`` replaces all of it.
        """
        given = {} if reading is None else asdict(reading)
        given |= {name: settings.pop(name) for name in Reading.__dataclass_fields__ if name in settings}
        id, reading = as_remembered(self, source, id, given)
        return score_file(self, source, target, id=id, reading=reading, progress=progress, **settings)

    def reasons(self, table: Any, n: int = 3) -> pd.DataFrame:
        """Return the columns that contributed most to the label of each row: :func:`deepsep.scoring.reasons`."""
        return reasons(self, table, n)

    def next_rows(self, n: int = 25, table: Any = None, **settings: Any) -> pd.DataFrame:
        """Return the rows whose labels should help most: :func:`deepsep.scoring.rows_to_label`.

        ``table`` is by default the one that it was fitted to, and its ``id`` and ``label`` are those of the fit.
        """
        if table is not None:
            rows = as_frame(table)
            return rows_to_label(self, rows, n, **{"id": self._id_in(rows.columns), **settings})
        data = self.training
        frame = data.X.assign(**{str(data.ids.name): data.ids.to_numpy(), data.label: data.y.to_numpy()})
        return rows_to_label(self, frame, n, id=str(data.ids.name), label=data.label, **settings)

    def sizes(
        self,
        by: str | None = None,
        *,
        screened: Mapping[Any, int] | None = None,
        table: Any = None,
        weight: Any = None,
    ) -> Sizes:
        """Return the share of every class in the population, with 90 % intervals.

        The model's predictions are corrected by their errors on labels that were held out, so that the intervals hold
        however wrong it is, and are narrow if it is good.

        Parameters
        ----------
        by : str, optional
            Column of groups, in each of which the shares are estimated.
        screened : dict {class: int}, optional
            For labels that fill quotas: how many people were looked at until the labels of a class were found.
        table : DataFrame, optional
            The unlabelled rows of the population. None: those that the model was fitted to, with its labelled rows.
        weight : array-like, optional
            Weights of the rows of ``table``.
        """
        if table is not None:
            if by is not None:
                raise ParameterError(
                    "{by} needs the labelled rows, too. Leave out table, on a model of deepsep.fit.",
                    by=Setting("by", by),
                )
            rows = self.predict_proba(table)
            return segment_sizes(self, rows, weight, screened=screened, count_labels=False)
        data = self.training
        free, groups = ~data.labeled, None
        if by is not None:
            column = data.ids if by == data.ids.name else data.X[find_column(data.X.columns, by, "column of groups")]
            names = as_groups(column)
            groups = names[free], names[~free]
        return segment_sizes(
            self,
            self[-1].label_distributions_[free],
            None if data.weight is None else data.weight[free],
            groups=groups,
            group_name=by,
            screened=screened,
            n_unlabeled=None if data.large is None else data.large.chosen.n_unlabeled,
        )

    def rename(self, names: Mapping[Any, str]) -> TableModel:
        """Return the model with other names for its classes; probabilities stay the same to the last bit."""
        renamed: TableModel = rename_classes(self, names)
        return renamed

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        report: bool = True,
        predictions: Literal["parquet", "csv", "xlsx"] | None = None,
        **decision: Any,
    ) -> Path:
        """Write the model to a folder, and next to it what ``deepsep fit`` writes.

        These are the predictions of all unlabelled rows, the report, the labels that were used, and labels that may be
        wrong. A model without its training table is written alone. The folder is written completely or not at all.

        Parameters
        ----------
        path : str or path
            A new or empty folder, or that of an earlier model, which is replaced.
        report : bool, default=True
            Whether to write the report.
        predictions : {"parquet", "csv", "xlsx"}, optional
            Format of the predictions. None: that of the table if it was an Excel or text file, and else Parquet.
        **decision
            How labels follow from probabilities: ``sets``, ``per_class``, ``abstain`` and ``costs`` of
            :class:`deepsep.scoring.Decision`.
        """
        if predictions not in (None, *PREDICTIONS_FORMATS):
            formats, given = ", ".join(PREDICTIONS_FORMATS), Setting("predictions", predictions)
            raise ParameterError(f"{{format}}; pass one of {formats}.", format=given)
        (labels,) = with_fields("save", decision, MOST_PROBABLE_CLASS)
        target = check_model_folder(path)
        if self._training is None:
            save(self, target)
        else:
            with TemporaryDirectory() as scratch:
                predicted = predict_unlabeled(self, self.training, labels, folder=Path(scratch))
                write_folder(self, target, predicted, predictions, summary=self.summary() if report else None)
        return target

    def _id_in(self, names: Sequence[Any]) -> str | None:
        known = None if self.origin_ is None else self.origin_.id
        return known if known in list(names) else None


def for_table(estimator: Any, *, keep: Sequence[str] = ()) -> TableModel:
    """Return a model that takes any DataFrame: it selects useful columns, encodes them, and fits.

    Numbers become normal scores by rank, so that outliers do not matter, and their gaps are filled and marked.
    Categories become one column per level; rare levels, and levels not seen in training, share one. Dates are split
    into their parts. Texts, and categories with a hundred levels or more, become 30 numbers computed from their
    letters. For forests and boosted trees, numbers stay as they are and categories become codes. Identifiers, constant
    columns, and columns that are given for labelled rows only are left out, with one warning that names them (see
    ``model[0].left_out_``).

    The model remembers its columns and their types: rows to score need the same columns, in any order. Extra columns
    are ignored; missing columns and changed types are listed in the error.

    ``y`` may hold None for unlabelled rows, as everywhere. The pipeline can be saved with :func:`deepsep.save`. Its
    ``classes_``, ``predict``, ``predict_proba`` and ``transform`` are those of the estimator; use ``model[-1]`` for
    everything else, for example ``model[-1].transduction_`` or
    ``model[-1].round_proba(model[:-1].transform(table))``.

    Parameters
    ----------
    estimator : estimator
        :class:`deepsep.DeepSep`, :class:`deepsep.TSVM`, or any scikit-learn classifier.
    keep : sequence of str, default=()
        Columns to use even if they look like identifiers, or are given for labelled rows only.

    Returns
    -------
    TableModel
        With the steps ``usefulcolumns``, ``tableencoder``, an imputer where the estimator needs one, and the estimator.

    Examples
    --------
    >>> import pandas as pd
    >>> from deepsep import TSVM, for_table
    >>> table = pd.DataFrame({"age": [25, 31, 64, 70, None, 68], "plan": ["free", "free", "pro", "pro", "free", "pro"]})
    >>> segment = ["young", "young", "old", "old", None, None]
    >>> model = for_table(TSVM()).fit(table, segment)
    >>> model.predict(table).tolist()
    ['young', 'young', 'old', 'old', 'young', 'old']
    >>> model.predict(table[["plan"]])
    Traceback (most recent call last):
    ...
    deepsep.errors.DataError: the columns differ from those of the training table:
      missing: 'age'
    """
    if isinstance(keep, str):
        raise ParameterError("{keep}; pass a list of columns.", keep=Setting("keep", keep))
    return TableModel(table_steps(estimator, keep=keep))


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Any:
    """Open a saved model.

    Every hash is checked before anything is built, and nothing in the folder is executed.

    Parameters
    ----------
    path : str or path
        The folder that ``save`` wrote.
    encoder : callable or torch.nn.Module, optional
        The encoder of a model with an encoder of your own, since the folder holds only its weights: the module itself,
        or a function that makes it.

    Returns
    -------
    TableModel or estimator
        The saved model; its predictions are the same to the last bit. ``provenance_`` says where it comes from: the
        name of the folder, the method, when and by which version of deepsep it was written, the fingerprint of the
        training data, and a hash of the whole model.

    Raises
    ------
    ModelFileError
        If the folder is not a model, is damaged or edited, or names types that no model needs.
    VersionError
        If it was written in a newer format.

    Warns
    -----
    DeepSepWarning
        If the model was written with another version of deepsep, or of scikit-learn for a pipeline.
    """
    model = models.load(path, encoder=encoder)
    if not (is_pipeline(model) and isinstance(model[0], UsefulColumns)):
        return model
    table_model = TableModel(model.steps, transform_input=model.transform_input, memory=None, verbose=model.verbose)
    table_model.provenance_ = model.provenance_
    table_model.training_profile_ = getattr(model, "training_profile_", None)
    try:
        table_model.origin_ = None if model.origin_ is None else TableOrigin.from_plain(model.origin_)
    except (TypeError, ValueError, DataError) as error:
        raise ModelFileError(
            f"{path}: its manifest does not say how its table was read ({error}). Save the model again."
        ) from error
    return table_model


def _evaluate(model: Any, data: Training, **settings: Any) -> dict[str, Any]:
    """Return what :func:`deepsep.report.summarize` does, for a model and its training rows."""
    own = {
        "ids": data.ids,
        "proba": model[-1].label_distributions_,
        "label": data.label,
        "findings": model.findings,
        "sample_weight": data.weight,
        "labels_drawn": data.labels_drawn,
        "seed": data.seed,
        "n_jobs": min(FOLDS, cpu_count()),
    }
    with silent_workers():
        return summarize(model, data.X, data.labels, **own | settings)


def _problems(model: Any, columns: Any, data: Training) -> list[dict[str, Any]]:
    """Return the problems of a training table whose columns are converted; also, if so, that it is a part of one."""
    ids = None if data.ids.name == ROW_COLUMN else data.ids
    of_table = {"label": data.label, "ids": ids, "merged": data.merged}
    shares = given_shares(model[-1], data.labels.classes)
    findings = check_population(columns, data.labels, shares, data.weight, model[0].left_out_, **of_table)
    if data.large is None:
        return findings
    n, n_labeled = len(data.X), int(data.labeled.sum())
    message = (
        f"this is about {n:,} rows: the {n_labeled:,} with a label, and {n - n_labeled:,} of the "
        f"{data.large.chosen.n_unlabeled:,} without one, drawn at random. All of them are predicted."
    )
    return [*findings, {"severity": "note", "code": "part", "columns": [], "message": message, "next": "Nothing."}]

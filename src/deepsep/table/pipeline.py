"""Encode a table with categories, dates, text and gaps as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from skrub import StringEncoder, TableVectorizer, ToCategorical, tabular_pipeline

from deepsep.table.columns import UsefulColumns
from deepsep.table.encoder import TableEncoder

NAMES = 100  # number of levels from which a category is encoded as text
TREE_NAMES = 40  # the same for trees, which get codes instead of one column per level


def for_table(estimator: Any, *, keep: Sequence[str] = ()) -> Pipeline:
    """Return a pipeline that takes any DataFrame: it selects useful columns, encodes them, and fits.

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
    sklearn.pipeline.Pipeline
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
    pipeline: Pipeline = tabular_pipeline(estimator)
    steps = dict(pipeline.steps)
    if isinstance(steps["tablevectorizer"].low_cardinality, ToCategorical):
        encoder = steps["tablevectorizer"].set_params(high_cardinality=StringEncoder(random_state=0))
    else:  # skrub scales for all estimators but trees, which it knows by name
        scale = steps.pop("squashingscaler", None) is not None
        encoder = TableEncoder(cardinality_threshold=NAMES if scale else TREE_NAMES, scale=scale)
    del steps["tablevectorizer"]
    if "simpleimputer" in steps and isinstance(encoder, TableEncoder) and encoder.scale:
        steps["simpleimputer"].set_params(strategy="median")
    first = {"usefulcolumns": UsefulColumns(keep=tuple(keep)), type(encoder).__name__.lower(): encoder}
    pipeline.steps = [*first.items(), *steps.items()]
    return pipeline


def source_columns(encoder: Any, names: Sequence[str]) -> list[list[int]] | None:
    """Return which columns of the encoded table come from each column of the table; None if that is unknown.

    ``for_table`` encodes each column and each row by itself. The encoding of a shuffled column is therefore the
    shuffled encoding of the column, and a table need not be encoded again for each column. Other steps may mix columns
    even if they keep their names, so the answer for them is None.
    """
    steps = [step for _, step in getattr(encoder, "steps", [])]
    kinds = [type(step) for step in steps]
    if kinds[:2] not in ([UsefulColumns, TableEncoder], [UsefulColumns, TableVectorizer]):
        return None
    if kinds[2:] not in ([], [SimpleImputer]):
        return None
    features = _sources(steps[1])
    for imputer in steps[2:]:
        # Features without any value are dropped, and the indicators of gaps come last.
        kept = [source for source, value in zip(features, imputer.statistics_, strict=True) if value == value]
        gaps = [] if imputer.indicator_ is None else imputer.indicator_.features_
        features = kept + [features[i] for i in gaps]
    place = {name: j for j, name in enumerate(names)}
    if not place.keys() >= set(features):
        return None
    encoded: list[list[int]] = [[] for _ in names]
    for i, source in enumerate(features):
        encoded[place[source]].append(i)
    return encoded


def _sources(encoder: Any) -> list[str]:
    """Return the column of the table from which each feature comes."""
    if isinstance(encoder, TableEncoder):
        return [str(name) for name in encoder.feature_names_in_[encoder.sources_]]
    return [encoder.output_to_input_[name] for name in encoder.get_feature_names_out()]

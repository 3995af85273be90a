"""Encode a table with categories, dates, text and gaps as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.impute import SimpleImputer
from skrub import StringEncoder, TableVectorizer, ToCategorical, tabular_pipeline

from deepsep.table.columns import UsefulColumns
from deepsep.table.encoder import TableEncoder


def table_steps(estimator: Any, *, keep: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """Return the steps of :func:`deepsep.for_table`: the choice of columns, their encoding, and the estimator."""
    max_levels = 100  # number of levels from which a category is encoded as text
    tree_names = 40  # the same for trees, which get codes instead of one column per level
    steps = dict(tabular_pipeline(estimator).steps)
    if isinstance(steps["tablevectorizer"].low_cardinality, ToCategorical):
        encoder = steps["tablevectorizer"].set_params(high_cardinality=StringEncoder(random_state=0))
    else:  # skrub scales for all estimators but trees, which it knows by name
        scale = steps.pop("squashingscaler", None) is not None
        encoder = TableEncoder(cardinality_threshold=max_levels if scale else tree_names, scale=scale)
    del steps["tablevectorizer"]
    if "simpleimputer" in steps and isinstance(encoder, TableEncoder) and encoder.scale:
        steps["simpleimputer"].set_params(strategy="median")
    first = {"usefulcolumns": UsefulColumns(keep=tuple(keep)), type(encoder).__name__.lower(): encoder}
    return [*first.items(), *steps.items()]


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

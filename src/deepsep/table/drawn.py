"""Columns that say how the labels of a table were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.label_origins import LABEL_ORIGINS
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.table.locations import closest

DRAWN_COLUMN = "labels_drawn"  # the column in files of labels that deepsep writes


def word_or_column(given: str, names: Sequence[str], where: str) -> tuple[str | None, str | None]:
    """Return an origin for all labels, or the column of these tables that has that of each, or raise if it is neither.

    Examples
    --------
    >>> word_or_column("quota", ["age", "how"], "people.csv"), word_or_column("how", ["age", "how"], "people.csv")
    (('quota', None), (None, 'how'))
    """
    if given.strip().lower() in LABEL_ORIGINS:
        return given.strip().lower(), None
    if given in names:
        return None, given
    similar = closest(given, [*LABEL_ORIGINS, *names])
    hint = "" if similar is None else f"; did you mean {similar!r}?"
    raise ParameterError(
        f"{{drawn}}: this is neither an origin of all labels, which is {_listed()}, nor a column of {where}{hint}",
        drawn=Setting(DRAWN_COLUMN, given),
    )


def read_drawn(table: pd.DataFrame, labeled: Any, where: str, *, named: str | None = None) -> pd.Series[Any] | None:
    """Return the origin of each label as a word, None where it is unknown; None without a column for it.

    The origins are in the column ``named``; where it is empty, ``labels_drawn`` counts. Those of unlabelled rows are
    not checked.

    Examples
    --------
    >>> read_drawn(pd.DataFrame({"labels_drawn": ["random", "", "Chosen"]}), [True] * 3, "people").tolist()
    ['random', None, 'chosen']
    """
    columns = {name: table[name].map(_word).astype(object) for name in (named, DRAWN_COLUMN) if name in table.columns}
    if not columns:
        return None
    words = pd.Series([None] * len(table), table.index, dtype=object)
    for name, own in columns.items():
        bad = np.asarray(labeled, bool) & (own.notna() & ~own.isin(LABEL_ORIGINS)).to_numpy()
        if bad.any():
            row = int(bad.argmax())
            raise DataError(
                f"{where}: column {name!r}: row {row + 1} has {table[name].iloc[row]!r}, which is not an origin of "
                f"labels. Write {_listed()}; leave the cell empty if you do not know."
            )
        words = words.where(words.notna(), own)
    return words.where(words.isin(LABEL_ORIGINS), None)


def _word(cell: Any) -> str | None:
    """Return a cell as a word; None if it is empty."""
    return None if pd.isna(cell) else str(cell).strip().lower() or None


def _listed() -> str:
    return "'random' (rows drawn at random), 'quota' (a fixed number of each class) or 'chosen' (for any other reason)"

"""Spellings of labels: one for each class, and words that mean that there is no label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from deepsep.core.labels import alike, folded
from deepsep.errors import DataError, Setting
from deepsep.table.columns import key_text

Merged = Mapping[str, Sequence[str]]  # other spellings of a class, by the one that is used


def clean_labels(
    columns: Sequence[pd.Series[Any]], *, merge: bool, no_label: Sequence[str]
) -> tuple[list[pd.Series[Any]], Merged]:
    """Return columns of labels with one spelling for each class, and empty where a word means no label.

    Only spellings that differ in nothing but case, blanks and accents are merged. The most frequent one is used,
    without blanks around it. Also returned are those that were merged.

    Examples
    --------
    >>> columns, merged = clean_labels([pd.Series(["Gold", "gold ", "Gold", "?"])], merge=True, no_label=["?"])
    >>> columns[0].tolist(), merged
    (['Gold', 'Gold', 'Gold', None], {'Gold': ['gold ']})
    """
    counts = Counter(value for column in columns for value in column.dropna())
    texts = {value: key_text(value) or "" for value in counts}
    new: dict[Any, Any] = {}
    for word in no_label:
        same = [value for value, text in texts.items() if folded(text) == folded(word)]
        if not same:
            known = ", ".join(repr(text) for text in list(texts.values())[:8])
            raise DataError(
                f"{{no_label}}: no label is written like this. The labels are {known}{' ...' * (len(texts) > 8)}.",
                no_label=Setting("no_label", word),
            )
        new |= dict.fromkeys(same)
    merged: dict[str, list[str]] = {}
    for names in alike(pd.Series([value for value in counts if value not in new], dtype=object)) if merge else ():
        used = " ".join(min(names, key=lambda name: (-counts[name], name)).split())
        merged[used] = sorted(name for name in names if name != used)
        new |= dict.fromkeys(names, used)
    if not new:
        return list(columns), {}
    cleaned = [[new.get(value, value) for value in column] for column in columns]
    both = zip(cleaned, columns, strict=True)
    return [pd.Series(values, column.index, dtype=object, name=column.name) for values, column in both], merged

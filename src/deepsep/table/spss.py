"""Read SPSS files (.sav), with the labels of their values in place of codes."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from deepsep.errors import DataError, missing_package


def read_spss(path: Path) -> pd.DataFrame:
    """Return the table; a column whose values all have labels holds these instead.

    A scale on which only the ends have labels stays a column of numbers, and values declared missing are missing.
    """
    if find_spec("pyreadstat") is None:
        raise missing_package(f"{path} is an SPSS file. Reading it", "pyreadstat")
    pyreadstat: Any = import_module("pyreadstat")
    try:
        frame, about = pyreadstat.read_sav(str(path))
    except pyreadstat.ReadstatError as error:
        raise DataError(f"{path} is damaged or incomplete ({error}). Save it again in SPSS, or as CSV.") from error
    for name, labels in about.variable_value_labels.items():
        given = frame[name].dropna()
        if len(given) and given.isin(list(labels)).all():
            frame[name] = frame[name].map(labels).astype("str")
    return pd.DataFrame(frame)

"""Read SPSS files (.sav), with the labels of their values in place of codes."""

from __future__ import annotations

import faulthandler
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from deepsep.core.threads import without_interrupts
from deepsep.errors import DataError, missing_package

CURE = "Save it again in SPSS, or as CSV."


def read_spss(path: Path) -> pd.DataFrame:
    """Return the table; a column whose values all have labels holds these instead.

    A scale on which only the ends have labels stays a column of numbers, and values declared missing are missing. The
    file is read in a process of its own, since a damaged one can crash the library that reads it.
    """
    if find_spec("pyreadstat") is None:
        raise missing_package(f"{path} is an SPSS file. Reading it", "pyreadstat")
    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

    pool = ProcessPoolExecutor(max_workers=1)
    try:
        with without_interrupts():
            result = pool.submit(_read, path)
        frame: pd.DataFrame = result.result()
        return frame
    except BrokenProcessPool as error:
        raise DataError(
            f"{path} is damaged: the program that reads it crashed, or ran out of memory. {CURE}"
        ) from error
    finally:
        pool.shutdown(kill_workers=True)


def _read(path: Path) -> pd.DataFrame:
    faulthandler.disable()  # a crash is reported by the parent
    pyreadstat: Any = import_module("pyreadstat")
    try:
        frame, about = pyreadstat.read_sav(str(path))
    except pyreadstat.ReadstatError as error:
        raise DataError(f"{path} is damaged or incomplete ({error}). {CURE}") from error
    for name, labels in about.variable_value_labels.items():
        given = frame[name].dropna()
        if len(given) and given.isin(list(labels)).all():
            frame[name] = frame[name].map(labels).astype("str").mask(frame[name].isna())
    return pd.DataFrame(frame)

"""Costs of mistakes: a table of true and predicted classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import DataError, ParameterError
from deepsep.table import read_table
from deepsep.table.batches import open_files

Array = NDArray[Any]
Costs = Mapping[Any, Mapping[Any, float]]


def check_costs(costs: Any, classes: Array) -> Array:
    """Return costs as a matrix, (true class, called class), or raise.

    Parameters
    ----------
    costs : dict {true class: {called class: cost}}
        The cost of calling a row of one class another one. All pairs of different classes must be there; a right call
        costs nothing unless it is there too.
    classes : array (c,)
        The classes of the model.

    Examples
    --------
    >>> check_costs({"stays": {"leaves": 1}, "leaves": {"stays": 20}}, np.array(["leaves", "stays"]))
    array([[ 0., 20.],
           [ 1.,  0.]])
    """
    if not isinstance(costs, Mapping) or not all(isinstance(line, Mapping) for line in costs.values()):
        raise ParameterError(f"costs={costs!r}; pass a dict {{true class: {{called class: cost}}}}.")
    names = classes.tolist()
    _check_names(costs, names, "true")
    matrix = np.zeros((len(names), len(names)))
    for i, true in enumerate(names):
        line = costs[true]
        _check_names(line, names, f"called, where the true class is {true!r}", besides=true)
        for j, called in enumerate(names):
            if called in line:
                matrix[i, j] = _number(line[called], true, called)
    return matrix


def _check_names(given: Mapping[Any, Any], names: list[Any], role: str, *, besides: Any = None) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ParameterError(f"costs: {unknown[0]!r} is not a class of the model ({role}). It has {_listed(names)}.")
    missing = [name for name in names if name not in given and name != besides]
    if missing:
        raise ParameterError(f"costs: the class {missing[0]!r} is missing ({role}). Give a cost for every class.")


def _number(cost: Any, true: Any, called: Any) -> float:
    if isinstance(cost, bool) or not isinstance(cost, int | float | np.number) or not np.isfinite(float(cost)):
        what = "nothing" if cost != cost else repr(cost)
        raise ParameterError(f"costs: the cost of calling {true!r} {called!r} is {what}; write a number such as 5.")
    return float(cost)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, list(names)[:20]))


def read_costs(file: Path, classes: Array) -> dict[Any, dict[Any, float]]:
    """Return the costs in a table, by true and called class.

    The table has a line for each true class and a column for each called one, with the true class in the first column;
    or the columns true, called and cost.
    """
    long_columns = ("true", "called", "cost")
    table = open_files(file)
    names = table.names
    long = sorted(name.lower() for name in names) == sorted(long_columns)
    by_text = {str(name): name for name in classes.tolist()}
    costs: dict[Any, dict[Any, float]] = {}
    cells: Iterable[tuple[Any, Any, Any]]
    if long:
        true, called, cost = (next(name for name in names if name.lower() == wanted) for wanted in long_columns)
        frame = read_table(table, label=true, types={called: "text"})
        cells = zip(frame[true].tolist(), frame[called].tolist(), frame[cost].tolist(), strict=True)
    elif len(names) < 3:
        raise DataError(
            f"{file} has {len(names)} columns. Write a line for each true class and a column for each called one, with "
            "the true class in the first column; or the columns true, called and cost."
        )
    else:
        lines = read_table(table, label=names[0])[names].itertuples(index=False, name=None)
        cells = ((line[0], name, value) for line in lines for name, value in zip(names[1:], line[1:], strict=True))
    for one, other, value in cells:
        pair = by_text.get(str(one), one), by_text.get(str(other), other)
        line = costs.setdefault(pair[0], {})
        if pair[1] in line:
            raise DataError(f"{file} has the cost of calling {pair[0]!r} {pair[1]!r} twice. Leave one of them.")
        if value != value and pair[0] == pair[1]:  # an empty cell on the diagonal: nothing
            continue
        line[pair[1]] = value
    try:
        check_costs(costs, classes)
    except ParameterError as error:
        raise DataError(f"{file}: {error}") from None
    return costs

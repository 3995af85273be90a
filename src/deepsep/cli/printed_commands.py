"""Commands that other commands print for the next step, with all options that their tables need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from deepsep.cli.options import TrainingOptions
from deepsep.table.reading_settings import Reading


def fit_command(table: Sequence[Any], options: Mapping[str, Any], reading: Reading, output: str = "model") -> str:
    """Return a ``deepsep fit`` of a table, for a shell.

    Examples
    --------
    >>> fit_command(["my table.csv"], {"--label": "segment", "--id": None}, Reading(skip_rows=1))
    "deepsep fit 'my table.csv' --label segment --skip-rows 1 -o model"
    """
    words = [*map(str, table), *option_words({**options, **reading_options(reading)}), "-o", output]
    return shlex.join(["deepsep", "fit", *words])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as words; those without a value are left out, and those with several are repeated.

    Examples
    --------
    >>> option_words({"--id": "user", "--drop": "", "--labels": ["a.csv", "b.csv"], "--dayfirst": True})
    ['--id', 'user', '--labels', 'a.csv', '--labels', 'b.csv', '--dayfirst']
    """
    words = []
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif isinstance(value, list | tuple):
            words += [word for each in value for word in (option, str(each))]
        elif value or (value == 0 and value is not False):
            words += [option, str(value)]
    return words


def reading_options(reading: Reading) -> dict[str, Any]:
    """Return the options of a reading that are not the usual ones."""
    usual = {field.name: field.default for field in fields(Reading)}
    given = {name: value for name, value in asdict(reading).items() if value != usual[name]}
    dayfirst = given.pop("dayfirst", None)
    options = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    return options if dayfirst is None else {**options, "--dayfirst" if dayfirst else "--monthfirst": True}


def training_options(training: TrainingOptions) -> dict[str, Any]:
    """Return the options that name rows and labels, without the table and how it is read."""
    given = {name: value for name, value in asdict(training).items() if name not in ("table", "reading")}
    return {f"--{name.replace('_', '-')}": value for name, value in given.items()}


def fit_options(model: Any) -> dict[str, Any]:
    """Return the options that a model remembers of its fit: columns to leave out, to read as text, and of weights."""
    origin = getattr(model, "origin_", None)
    if origin is None:
        return {}
    return {
        "--drop": ",".join(origin.drop),
        "--text": ",".join(origin.text),
        "--weight": origin.weight,
        "--merge-spellings": origin.merge_spellings,
        "--no-label": list(origin.no_label),
    }

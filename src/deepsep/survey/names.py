"""Read and write the names of segments as a small JSON file for people to edit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepsep.errors import DataError, ParameterError


def read_names(path: str | os.PathLike[str]) -> dict[int, str]:
    """Read the names of segments from a JSON file such as ``{"0": "Night owls", "1": "Early birds"}``.

    Segments that are not in the file keep their suggested names.

    Parameters
    ----------
    path : str or path
        The file, in the format of :func:`write_names`.

    Returns
    -------
    dict
        Number of the segment to its name, for ``SurveySegments(names=...)`` or
        :meth:`~deepsep.SurveySegments.rename`.

    Raises
    ------
    DataError
        If the file is not such JSON, names a segment twice, or gives two segments the same name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_names(["Night owls", "Early birds"], f"{folder}/names.json")
    ...     read_names(f"{folder}/names.json")
    {0: 'Night owls', 1: 'Early birds'}
    """
    place, example = Path(path), '{"0": "Night owls", "1": "Early birds"}'
    try:
        pairs = json.loads(place.read_text(encoding="utf-8-sig"), object_pairs_hook=list)
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise DataError(f"{place} is not a JSON file: {error}. It should look like {example}.") from error
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise DataError(f"{place} does not map segments to names. It should look like {example}.")
    names: dict[int, str] = {}
    for key, name in pairs:
        if not (key.isascii() and key.isdigit()):
            raise DataError(f"{place}: {key!r} is not the number of a segment. It should look like {example}.")
        if int(key) in names:
            raise DataError(f"{place}: segment {key} is named twice, {names[int(key)]!r} and {name!r}. Keep one.")
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{place}: the name of segment {key} is {name!r}; write some text.")
        names[int(key)] = name.strip()
    try:
        apply_names([f"\0{k}" for k in range(max(names, default=-1) + 1)], names)
    except ParameterError as error:
        raise DataError(f"{place}: {error}") from None
    return names


def write_names(names: Sequence[str] | Mapping[int, str], path: str | os.PathLike[str]) -> None:
    """Write the names of segments to a JSON file that people can edit; :func:`read_names` reads it.

    Parameters
    ----------
    names : sequence of str, or dict of int to str
        In the order of the segments, or by their number.
    path : str or path
        The file; an existing one is replaced.
    """
    Path(path).write_text(dump_names(names), encoding="utf-8")


def dump_names(names: Sequence[str] | Mapping[int, str]) -> str:
    """Return names as the text of a JSON file."""
    pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
    return json.dumps({str(k): str(name) for k, name in pairs}, indent=2, ensure_ascii=False) + "\n"


def apply_names(suggested: Sequence[str], names: Any) -> list[str]:
    """Return the suggested names, replaced by the user's where given, or raise."""
    if not isinstance(names, Mapping):
        names = dict(enumerate(names))
    known = range(len(suggested))
    unknown = [key for key in names if isinstance(key, bool) or not isinstance(key, int) or key not in known]
    if unknown:
        raise ParameterError(
            f"names: there is no segment {unknown[0]!r}; the segments are 0 to {len(suggested) - 1}, largest first."
        )
    result = [str(names.get(k, suggested[k])).strip() for k in known]
    for k in names:
        if not isinstance(names[k], str) or not result[k]:
            raise ParameterError(f"names[{k}]={names[k]!r}; pass some text.")
    for k, name in enumerate(result):
        if name in result[:k]:
            raise ParameterError(
                f"names: segments {result.index(name)} and {k} would both be called {name!r}. Give each its own name."
            )
    return result

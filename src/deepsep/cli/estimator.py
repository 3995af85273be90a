"""Build the method of a command from its options: settings and known class shares."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepsep.core.checks import check_priors
from deepsep.errors import DataError, ParameterError


def parse_settings(given: list[str]) -> dict[str, Any]:
    """Return name=value pairs as settings; values as Python or JSON writes them, anything else as text."""
    settings = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--set {pair}: write it as name=value, such as --set rounds=3.")
        settings[name.strip()] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # everything that literal_eval may raise
        return text


def with_effort(settings: dict[str, Any], effort: str | None) -> dict[str, Any]:
    """Return the settings with --effort, or raise if it is set twice."""
    if effort is not None and "effort" in settings:
        raise ParameterError("--effort and --set effort say the same. Leave one of them out.")
    return settings if effort is None else {**settings, "effort": effort}


def settings_by_method(given: list[str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of several methods, given as METHOD.NAME=VALUE, or NAME=VALUE where only one has NAME."""
    from deepsep.classifiers.building import setting_names
    from deepsep.classifiers.catalogue import find_method

    settings: dict[str, dict[str, Any]] = {}
    for key, value in parse_settings(given).items():
        name, dot, setting = key.rpartition(".")
        if not dot:
            owners = [each for each in names if setting in setting_names(each)]
            if not owners:
                raise ParameterError(f"--set {setting}: none of the methods has this setting: {', '.join(names)}.")
            if len(owners) > 1:
                raise ParameterError(
                    f"--set {setting}: {', '.join(owners)} have this setting. Name the method, such as --set "
                    f"{owners[0]}.{setting}."
                )
            name = owners[0]
        elif find_method(name).name not in names:
            raise ParameterError(f"--set {key}: {name} is not compared. Those that are: {', '.join(names)}.")
        if setting == "priors":
            raise ParameterError("--set priors: pass the shares as --priors FILE, for all methods.")
        settings.setdefault(name, {})[setting] = value
    return settings


def read_priors(file: Path, classes: Any) -> dict[Any, float]:
    """Return the shares of these classes in a file, or raise if they are not shares of them."""
    by_text = {str(label): label for label in classes.tolist()}
    priors = {by_text.get(label, label): share for label, share in read_shares(file).items()}
    try:
        check_priors(priors, classes)
    except ParameterError as error:
        raise ParameterError(f"{file}: {error}") from None
    return priors


def read_shares(file: Path) -> dict[str, float]:
    """Return the shares by class of a JSON file, or of a table of two columns."""
    if file.suffix.lower() == ".json":
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"{file} does not exist.") from None
        except ValueError as error:
            raise DataError(f"{file} is no JSON ({error}).") from None
        if not isinstance(content, dict):
            raise DataError(f'{file} must hold an object, such as {{"gold": 0.2, "blue": 0.8}}.')
        pairs = list(content.items())
    else:
        from deepsep.table import read_table
        from deepsep.table.batches import open_files

        table = open_files(file)
        names = table.names
        if len(names) != 2:
            raise DataError(
                f"{file} has {len(names)} columns ({', '.join(names[:5])}); it must have two: class, share."
            )
        frame = read_table(table, label=names[0])
        pairs = list(zip(frame[names[0]].tolist(), frame[names[1]].tolist(), strict=True))
    shares: dict[str, float] = {}
    for label, share in pairs:
        if str(label) in shares:
            raise DataError(f"{file} names the class {label!r} twice.")
        if not isinstance(share, int | float) or isinstance(share, bool):
            raise DataError(f"{file}: the share of {label!r} is {share!r}; write a number such as 0.25.")
        shares[str(label)] = float(share)
    return shares

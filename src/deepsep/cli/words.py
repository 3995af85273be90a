"""Reword the library's messages for the command line: options instead of Python settings."""

from __future__ import annotations

from deepsep.errors import Setting, Worded


def in_options(message: object) -> str:
    """Return a message with options in place of settings.

    Examples
    --------
    >>> from deepsep.errors import DataError
    >>> in_options(DataError("Name it, for example {it} (Cyrillic).", it=Setting("encoding", "cp1251")))
    'Name it, for example --encoding cp1251 (Cyrillic).'
    """
    return message.worded(_option) if isinstance(message, Worded) else str(message)


def _option(setting: Setting) -> str:
    others = {
        "types": "--text",
        "unlabeled": "--unlabelled",
        "batch_rows": "--batch-size",
        "coverage": "--sets",
        "Query.database": "--from",
        "n_questions": "--number",
        "max_bytes": "DEEPSEP_MAX_BYTES in the environment",
    }
    option = others.get(setting.name, f"--{setting.name.replace('_', '-')}")
    if setting.value is ... or setting.value is True:
        return option
    if setting.value is False and setting.name == "dayfirst":
        return "--monthfirst"
    # For several columns, or a dict of columns to types: the columns.
    values = list(setting.value) if isinstance(setting.value, list | dict) else [setting.value]
    return f"{option} {' '.join(map(_quoted, values))}"


def _quoted(value: object) -> str:
    text = str(value)
    plain = isinstance(value, float) or text.replace("-", "").replace("_", "").isalnum()
    return text if plain else repr(text)

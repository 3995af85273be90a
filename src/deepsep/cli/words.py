"""The library's messages, in the words of the command line."""

from __future__ import annotations

import re

# What a message calls a parameter in Python, and what the option is called.
OPTIONS = (
    (r"pass types=\{'([^']*)': 'text'\}", r"pass --text '\1'"),
    (r"name it: for_table\(estimator, keep=\['([^']*)'\]\)", r"pass --keep '\1'"),
    (r"for_table\(estimator, keep=\[\.\.\.\]\)", "--keep"),
    (r"encoding='([^']*)'", r"--encoding \1"),
    (r"delimiter=('[^']*')", r"--delimiter \1"),
    (r"with sheet=", "with --sheet"),
    (r"^types: column", "--text: column"),
    (r"^keep: column", "--keep: column"),
    (r": every entry of y marks an unlabelled row \([^)]*\)\.", "."),
    (r"engine='(\w+)'", r"--engine \1"),
    (r"batch_rows=(\S+); pass", r"--batch-size \1: pass"),
    (r"Name it: label=\.", "Name it with --label."),
    (
        r"; or allow more with max_bytes, or with (\w+) in the environment",
        r"; or allow more with \1 in the environment",
    ),
)


def spoken(message: str) -> str:
    """Return a message with options where it has parameters.

    Examples
    --------
    >>> spoken("Name it, for example encoding='cp1251' (Cyrillic).")
    'Name it, for example --encoding cp1251 (Cyrillic).'
    """
    for pattern, option in OPTIONS:
        message = re.sub(pattern, option, message)
    return message

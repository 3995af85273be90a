"""The errors and warnings of deepsep.

Every error is a :class:`DeepSepError`; those about values are also a :class:`ValueError`, so that code written for
scikit-learn catches them too. A message keeps the settings it names as separate parts, so that the command line can
name its options instead.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self


def shown(value: Any) -> str:
    """Return a value as a user would write it: ``repr``, without the type names that NumPy puts around its numbers."""
    most_shown = 20  # values of an array that a message lists
    if type(value) in (list, tuple):
        parts = ", ".join(map(shown, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return f"{{{', '.join(f'{shown(key)}: {shown(part)}' for key, part in value.items())}}}"
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return shown(value.tolist()) if value.size <= most_shown else f"an array of shape {value.shape}"
    return repr(value)


def listed(words: Iterable[str], most: int = 5) -> str:
    """Return the first words with commas, and how many more there are."""
    words = list(words)
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


class Setting(NamedTuple):
    """A setting in a message, with or without a value: ``encoding='cp1251'`` in Python."""

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return f"{self.name}=" if self.value is ... else f"{self.name}={shown(self.value)}"


class Worded(Exception):
    """An error or warning whose message has ``{name}`` in place of each setting.

    Examples
    --------
    >>> error = DataError("use another {encoding}", encoding=Setting("encoding", "cp1251"))
    >>> str(error)
    "use another encoding='cp1251'"
    >>> error.worded(lambda setting: f"--{setting.name} {setting.value}")
    'use another --encoding cp1251'
    """

    def __init__(self, text: str = "", **settings: Setting) -> None:
        self.text, self.settings = text, settings
        super().__init__(self.worded(str))

    def worded(self, name: Callable[[Setting], str]) -> str:
        """Return the message, with each setting formatted by the function."""
        message = self.text
        for key, setting in self.settings.items():
            message = message.replace(f"{{{key}}}", name(setting))
        return message

    def followed_by(self, sentence: str, **settings: Setting) -> Self:
        """Return the same message with another sentence, in a line of its own after a list."""
        gap = " " if self.text.endswith(".") else "\n"
        return type(self)(f"{self.text}{gap}{sentence}", **(self.settings | settings))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.text, self.settings)


def _restore(kind: type[Worded], text: str, settings: dict[str, Setting]) -> Worded:
    return kind(text, **settings)


class DeepSepError(Worded):
    """Base of every error that deepsep raises on purpose."""


def missing_package(feature: str, package: str) -> ImportError:
    """Return the error for a feature that needs a package, by the name under which pip installs it."""
    return ImportError(f"{feature} needs {package}. Install it with: pip install {package}", name=package)


class DataError(DeepSepError, ValueError):
    """The rows cannot be used: not finite, all equal, or of the wrong shape."""


class TrainingTableError(DataError, AttributeError):
    """A model does not have its training table; an :class:`AttributeError`, so that ``dir`` and notebooks work."""


class DatabaseError(DeepSepError):
    """A database cannot be reached, read or written, for reasons outside the user's control, such as a full disk."""


class LabelError(DeepSepError, ValueError):
    """The labels cannot be used: none given, one class only, or ambiguous marks of unlabelled rows."""


class ParameterError(DeepSepError, ValueError):
    """A setting has an invalid value, by itself or together with another setting."""


class StopTraining(Exception):  # like StopIteration, not an error
    """Raised by a ``callback`` of :class:`deepsep.DeepSep` to end the training; the model keeps the complete rounds."""


class DeepSepWarning(Worded, UserWarning):
    """Base of every warning: the result stands, but it may not be what was expected."""


class LabelWarning(DeepSepWarning):
    """Labels are so few, or so incomplete, that part of a method falls back to something simpler."""


class CollapseWarning(DeepSepWarning):
    """Without balancing, a class lost (nearly) all unlabelled rows; its boundary was found again with a constraint."""


class ApproximationWarning(DeepSepWarning):
    """There are too many rows for the exact kernel, so a Nyström approximation is used."""


class DriftWarning(DeepSepWarning):
    """The rows that were scored differ from the training table, so their labels may be wrong."""


class InterruptWarning(DeepSepWarning):
    """A fit was interrupted; the model holds the completed rounds."""


class ModelFileError(DeepSepError, ValueError):
    """A model cannot be saved, or a saved one cannot be opened: not a model, damaged, edited, or of unknown types."""


class VersionError(ModelFileError):
    """A saved model has a format that this version of deepsep cannot read."""


def warn(message: str, category: type[Warning] = DeepSepWarning, **settings: Setting) -> None:
    """Issue a warning at the innermost line outside deepsep and the libraries it builds on."""
    inner = ("deepsep", "sklearn", "skrub", "joblib", "threadpoolctl", "contextlib")
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        frame, level = frame.f_back, level + 1
    warnings.warn(category(message, **settings), stacklevel=level)

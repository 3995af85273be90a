"""The errors and warnings of deepsep.

Every error is a :class:`DeepSepError`; those about values are also a :class:`ValueError`, so code that knows only
scikit-learn catches them as well.
"""

from __future__ import annotations


class DeepSepError(Exception):
    """Base of every error that deepsep raises on purpose."""


class DataError(DeepSepError, ValueError):
    """The rows cannot be used: not finite, all alike, or of the wrong shape."""


class LabelError(DeepSepError, ValueError):
    """The labels cannot be used: none given, one class only, or ambiguous marks of unlabelled rows."""


class ParameterError(DeepSepError, ValueError):
    """A setting has a value that makes no sense, alone or beside another setting."""


class DeepSepWarning(UserWarning):
    """Base of every warning: the result stands, but it may not be what was expected."""


class LabelWarning(DeepSepWarning):
    """Labels are so few, or so incomplete, that part of the method falls back on something simpler."""


class CollapseWarning(DeepSepWarning):
    """Without balancing, a class lost (nearly) all unlabelled rows; its problem was solved with balancing."""


class ApproximationWarning(DeepSepWarning):
    """There are too many rows for the exact kernel: a Nyström map took its place."""


class InterruptWarning(DeepSepWarning):
    """A fit was interrupted; the model holds what was complete."""


class ModelFileError(DeepSepError, ValueError):
    """A model cannot be written, or a saved one cannot be opened: foreign, damaged, edited, or of unknown types."""


class VersionError(ModelFileError):
    """The saved model has a format that this version of deepsep does not read."""

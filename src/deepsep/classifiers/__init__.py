"""The classifiers of partly labelled rows: DeepSep, the methods that the paper names, and supervised ones.

All keep to one contract: the same marks for unlabelled rows, the same labels, errors and attributes.
:func:`deepsep.method` builds them by name. Classes load on first use.
"""

from deepsep._lazy import lazy_names
from deepsep.classifiers.catalogue import CATALOGUE

_HOME = {record.class_name: record.home for record in CATALOGUE.values()}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)

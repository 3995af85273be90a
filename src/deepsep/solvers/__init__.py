"""The exact TSVM: the paths ``cccp`` and ``single_loop``, which use ``newton``, which uses ``rows``."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

"""Limit BLAS to one thread: for small matrices, starting a second thread costs more than it saves."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # inspects the loaded libraries, which takes milliseconds


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside a ``with`` block, and restore the previous limit after it."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited

"""Limit BLAS to one thread: for small matrices, starting a second thread costs more than it saves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # inspects the loaded libraries, which takes milliseconds


_lock = Lock()
_holders = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block, and restore the previous limit after it.

    The limit is the process's. Where several threads hold it, the last one to leave restores it.
    """
    global _holders, _limit
    with _lock:
        if _holders == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limit.restore_original_limits()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Threads and worker processes: one thread for BLAS, and workers that leave Ctrl-C to the process that started them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from multiprocessing import resource_tracker
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # inspects the loaded libraries, which takes milliseconds


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside a ``with`` block: for small matrices, a second costs more than it saves."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_watching: set[int] = set()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back inside a ``with`` block; processes started in it never see it.

    A terminal sends Ctrl-C to all processes of a command. Workers that got it would print a traceback each.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the first worker, and its start lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def silent_workers() -> Iterator[None]:
    """Keep processes that are started in a ``with`` block from printing warnings, also after Ctrl-C."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def end_with(parent: int) -> None:
    """End this process soon after its parent, the process of this number, has ended for any reason."""
    if os.name == "nt" or parent == os.getpid() or parent in _watching:
        return
    _watching.add(parent)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:  # a process whose parent has ended gets another one
        time.sleep(1.0)
    os._exit(1)

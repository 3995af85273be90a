"""Refits in another process, so that the page never waits for one."""

from __future__ import annotations

import os
import threading
import warnings
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from deepsep.apps.label.refit import Job, Refit, refit
from deepsep.core.threads import end_with, without_interrupts

MAX_FAILURES = 3  # in a row


class Background:
    """Runs one refit at a time in a process that ends with this one.

    Attributes
    ----------
    running : bool
        Whether a refit is under way, or its result has not been taken.
    error : str
        Reason why the last refit failed; "" if it did not.
    """

    def __init__(self) -> None:
        self.running, self.error = False, ""
        self._done: list[Refit | Exception] = []
        self._process: Any = None
        self._pipe: Any = None
        self._failures = 0

    def start(self, job: Job) -> bool:
        """Start a refit, unless one is running or several in a row have failed."""
        if self.running or self._failures >= MAX_FAILURES:
            return False
        self.running = True
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return True

    def take(self) -> Refit | None:
        """Return the result of a refit, once; None if there is none, or it failed."""
        if not self._done:
            return None
        result = self._done.pop()
        self.running = False
        if isinstance(result, Refit):
            self.error, self._failures = "", 0
            return result
        self.error, self._failures = str(result) or type(result).__name__, self._failures + 1
        return None

    @property
    def process(self) -> int | None:
        """Number of the process; None before the first refit."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()

    def _run(self, job: Job) -> None:
        try:
            if self._process is None:
                self._begin()
            self._pipe.send(job)
            self._done.append(self._pipe.recv())
        except (OSError, EOFError):  # it was killed, for example for lack of memory
            self._process = None
            self._done.append(RuntimeError("the process of the refit ended"))
        except Exception as error:  # a table that cannot be sent must not end the labelling
            self._done.append(error)

    def _begin(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        with without_interrupts():
            process.start()
        theirs.close()
        self._process = process


def _work(pipe: Connection, parent: int) -> None:
    """Fit until the other end is closed; errors are sent as results."""
    end_with(parent)
    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):
        os.nice(10)  # other programs come first
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        result: Any
        try:
            result = refit(job)
        except Exception as error:
            result = RuntimeError(str(error) or type(error).__name__)
        pipe.send(result)

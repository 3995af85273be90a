"""Progress bars for fits: of methods that train a network, and of a committee with its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deepsep.core.context import Context

if TYPE_CHECKING:
    from deepsep.cli.console import Console

OnStep = Callable[[float, float, str], None]


def duration(seconds: float, cores: int) -> str:
    """Return roughly how long some seconds of work take on several cores."""
    minutes = seconds / cores / 60
    time = "less than a minute" if minutes < 0.75 else f"about {round(minutes)} minute{'s' * (minutes >= 1.5)}"
    return f"{time} on {cores} core{'s' * (cores > 1)}"


@contextmanager
def watching(out: Console, estimator: Any, name: str) -> Iterator[Context]:
    """Show a progress bar while an estimator is fitted, if it trains a network; yields the context of the fit."""
    if out.shows_progress and estimator._all_steps is not None:
        with out.bar(name, total=estimator._all_steps) as bar:

            def on_step(steps: int, loss: float) -> None:
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
                bar.update(steps)

            yield Context(on_step=on_step)
    else:
        yield Context()


@contextmanager
def watching_committee(out: Console, *, report: bool) -> Iterator[tuple[Context, OnStep]]:
    """Show one progress bar for all fits of a committee and its report.

    Yields the context of the fit, and what the report calls at each step.
    """
    report_seconds = 20.0  # seconds of work on one core, about, that a report adds to the fits of a committee
    fits, after = 0.0, report_seconds if report else 0.0
    with out.share_bar("committee") as bar:

        def move(seconds: float, what: str) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(seconds / (fits + after) - bar.n)

        def on_work(done: float, total: float, what: str) -> None:
            nonlocal fits
            fits = total
            move(done, what)

        yield Context(on_work=on_work), lambda done, total, what: move(fits + after * done / total, what)

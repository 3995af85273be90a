"""Progress bars for fits of methods that train a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsep.cli.console import Console


@contextmanager
def watching(out: Console, estimator: Any, name: str) -> Iterator[None]:
    """Show a progress bar while an estimator is fitted, if it trains a network; the model is not changed by it."""
    if out.shows_progress and estimator._all_steps is not None:
        with out.bar(name, total=estimator._all_steps) as bar:

            def on_step(steps: int, loss: float) -> None:
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
                bar.update(steps)

            estimator._on_step = on_step
            try:
                yield
            finally:
                del estimator._on_step
    else:
        yield

"""The history of a fit: one row per round and phase, for progress bars, callbacks and plots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tqdm import tqdm

Row = dict[str, Any]

# The remaining time comes first, because a narrow terminal cuts off the end.
BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}, {n_fmt}/{total_fmt}{postfix}"


class History:
    """Collects the rows of a fit, passes each to a callback, and shows a progress bar while it is open.

    ``n_epochs`` are those of the whole fit, for the remaining time; ``on_step`` is called with (epochs since the last
    call, loss).
    """

    def __init__(
        self,
        n_epochs: int,
        verbose: bool,
        callback: Callable[[Row], object] | None,
        on_step: Callable[[int, float], object] | None = None,
    ) -> None:
        self.rows: list[Row] = []
        self._callback, self._on_step = callback, on_step
        self._bar = tqdm(total=n_epochs, desc="DeepSep", bar_format=BAR_FORMAT, disable=not verbose)

    def phase(self, name: str) -> Callable[[int, float], None]:
        """Begin a phase, and return a function to call after each epoch."""
        self._bar.set_description(f"DeepSep, {name}")

        def on_epoch(epoch: int, loss: float) -> None:
            self._bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            self._advance(1, loss)

        return on_epoch

    def calibrating(self, networks: int) -> Callable[[Row], None]:
        """Begin the calibration, and return a callback for the rows of its fits."""
        self._bar.set_description("DeepSep, calibration")
        self._bar.set_postfix(refresh=False)

        def on_row(row: Row) -> None:
            if row.get("epochs"):
                self._advance(networks * row["epochs"], row["loss"] or 0.0)

        return on_row

    def _advance(self, epochs: int, loss: float) -> None:
        self._bar.update(epochs)
        if self._on_step is not None:
            self._on_step(epochs, loss)

    def add(self, **row: Any) -> None:
        """Add a row and pass it to the callback."""
        self.rows.append(row)
        if self._callback is not None:
            self._callback(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

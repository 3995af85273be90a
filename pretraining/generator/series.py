"""Series: columns are moments of a short series, whose shape, place or roughness depends on the class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pretraining.generator import clusters
from pretraining.generator.dice import Dice, standardise

MOST = 16
HARMONICS = 5


def series_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return one series per row, of as many moments as there are columns, and two to twelve classes."""
    n_classes = torch.where(dice.chance(0.5), 2, dice.integers(2, 12))
    classes = clusters.members(dice, rows, n_classes)
    time = torch.arange(columns, device=dice.device) / columns

    def of_class(values: Tensor) -> Tensor:  # (tables, MOST, ...) -> (tables, rows, ...)
        index = classes.view(*classes.shape, *[1] * (values.dim() - 2)).expand(-1, -1, *values.shape[2:])
        return values.gather(1, index)

    # Where in time a row stands: shifted a little or anywhere, and a little faster or slower.
    shift = dice.normal(rows, 1) * 0.1 * dice.uniform(1, 1) + dice.uniform(rows, 1) * dice.chance(0.25, 1, 1)
    moment = time * (1 + 0.1 * dice.uniform(1, 1) * dice.normal(rows, 1)) + shift

    # A wave of a few harmonics; classes have one of their own, or one shape at different frequencies.
    order = torch.arange(1, HARMONICS + 1, device=dice.device)
    weights = dice.normal(MOST, 2 * HARMONICS) / order.repeat(2) ** dice.uniform(1, 1, high=1.5)
    weights = torch.where(dice.chance(0.6, 1, 1), weights, weights[:, :1])
    pace = of_class(dice.log_uniform(0.5, 2.0, MOST, 1)) ** dice.chance(0.4, 1, 1)
    angle = 2 * math.pi * moment * pace
    own = of_class(weights)
    wave = torch.zeros_like(angle)
    for k in range(HARMONICS):
        wave = (
            wave + own[..., k, None] * ((k + 1) * angle).sin() + own[..., HARMONICS + k, None] * ((k + 1) * angle).cos()
        )

    # An event at a time of the class: a bump, or a step that stays.
    since = (moment - of_class(dice.uniform(MOST, 1))) / of_class(dice.log_uniform(0.02, 0.3, MOST, 1))
    sign = torch.where(dice.chance(0.5, MOST, 1), 1.0, -1.0)
    event = of_class(sign) * torch.where(dice.chance(0.6, 1, 1), (-since.square()).exp(), since.sigmoid())

    # Noise whose roughness may be what the classes differ in; it runs on in some tables, as a walk does.
    frequency = torch.arange(1, columns // 2 + 2, device=dice.device)
    fall = dice.uniform(1, 1, high=2.0) + dice.normal(MOST, 1) * dice.chance(0.5, 1, 1)
    noise = torch.fft.rfft(dice.normal(rows, columns)) * of_class(frequency ** -fall.clamp(-1, 3))
    rough = torch.fft.irfft(noise, n=columns)
    rough = rough / (rough.square().mean(2, keepdim=True).mean(1, keepdim=True).sqrt() + 1e-4)
    slope = of_class(dice.normal(MOST, 1)) * dice.chance(0.3, 1, 1) * time

    parts = dice.uniform(4, 1, 1) * dice.chance(0.6, 4, 1, 1)
    series = parts[:, 0] * wave + 3 * parts[:, 1] * event + 2 * parts[:, 2] * slope
    series = series * (0.4 * dice.uniform(1, 1) * dice.normal(rows, 1)).exp()
    series = series + (0.1 + parts[:, 3]) * rough
    # Each row by itself is brought to one scale, in some tables; in others each differs from the moment before.
    alone = series - series.mean(2, keepdim=True)
    alone = alone / (alone.square().mean(2, keepdim=True).sqrt() + 1e-2)
    series = torch.where(dice.chance(0.25, 1, 1), alone, series)
    if columns > 2:
        series = torch.where(dice.chance(0.15, 1, 1), series - series.roll(1, 2), series)
    return standardise(series), classes

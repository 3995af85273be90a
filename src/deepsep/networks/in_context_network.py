"""A network that classifies a whole table in one pass, from labelled and unlabelled rows in its context.

It is trained beforehand, on synthetic tables; a new table needs no training. Three stages:

- **Columns.** A cell is embedded together with the class of its row (or "unlabelled"). Cells then read a few
  inducing points that summarise their column, so that a cell knows what its column says about the classes.
- **Rows.** A few summary tokens collect the cells of a row into one vector.
- **In context.** Every row attends to the rows of the context. Rows that are only asked about attend, but nothing
  attends to them: no answer depends on what else is asked.

``forward`` runs context and asked rows together, for training. ``encode`` runs the context once and keeps what asked
rows read of it; ``answer`` then costs only the asked rows.

Shapes in comments: B tables, n rows (context first), c context rows, d columns, e width of a cell, E width of a row,
K classes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deepsep.errors import ModelFileError, VersionError
from deepsep.networks.products import arrange, attend, product

MAX_CLASSES = 32
UNLABELED = MAX_CLASSES
FORMAT_VERSION = 1

# Attention kernels on GPUs number their batch entries in 16 bits. A CPU should find what it works on in its cache.
_MOST_ROWS_AT_ONCE = {"cpu": 128}
_OTHERWISE = 65_535
_MASKED = -1e4


@dataclass(frozen=True)
class Sizes:
    """The sizes that make two networks interchangeable."""

    width: int = 64
    heads: int = 2
    inducing: int = 24
    column_blocks: int = 2
    row_blocks: int = 3
    summaries: int = 4
    context_blocks: int = 12
    context_heads: int = 8
    identity: int = 16


class KeysValues(NamedTuple):
    """Keys and values of the context of an attention layer."""

    keys: Tensor
    values: Tensor


class ColumnStatistics(NamedTuple):
    """Statistics of the columns in the context, by which the cells of all rows are standardised."""

    mean: Tensor  # (B, 1, d)
    scale: Tensor  # (B, 1, d)
    ordered: Tensor  # (B, d, c)


class Prediction(NamedTuple):
    """Logits of the rows, and the classes' shares among unlabelled rows with the weight of that estimate.

    The shares follow a Dirichlet distribution with parameters ``concentration * exp(log_shares)``.
    """

    logits: Tensor  # (B, n, K)
    log_shares: Tensor  # (B, K)
    concentration: Tensor  # (B,)


class Memory(NamedTuple):
    """All that asked rows read of a context."""

    statistics: ColumnStatistics
    columns: list[KeysValues]
    identities: Tensor  # (B, d, e)
    rows: list[KeysValues]
    valid: Tensor  # (B, K)
    length: Tensor
    prediction: Prediction


def column_statistics(context: Tensor) -> ColumnStatistics:
    """Return mean, scale and order of every column of ``context`` (B, c, d)."""
    mean = context.mean(1, keepdim=True)
    spread = (context - mean).square().sum(1, keepdim=True).div(max(1, context.shape[1] - 1)).sqrt()
    # A constant column must give zeros, not the noise of rounding.
    scale = spread + 1e-5 * mean.abs() + 1e-12
    return ColumnStatistics(mean, scale, context.transpose(1, 2).contiguous().sort(-1).values)


def cell_features(values: Tensor, statistics: ColumnStatistics) -> Tensor:
    """Return eight numbers per cell: the z-score, the rank within the context, and waves of the rank.

    A rank is the middle of a run of ties, divided by the number of rows: it means the same in a context of 100 rows
    and of 3,000.
    """
    score = ((values - statistics.mean) / statistics.scale).clamp(-4, 4)
    cells = values.transpose(1, 2).contiguous()
    below = torch.searchsorted(statistics.ordered, cells)
    at_most = torch.searchsorted(statistics.ordered, cells, right=True)
    rank = ((below + at_most).to(values.dtype) / statistics.ordered.shape[2] - 1).transpose(1, 2)
    waves = [wave(rank * (math.pi * 2**k)) for k in range(3) for wave in (torch.sin, torch.cos)]
    return torch.stack([score, rank, *waves], -1)


def draw_identities(
    tables: int, columns: int, sizes: Sizes, *, generator: torch.Generator, device: torch.device | str | None = None
) -> Tensor:
    """Return random vectors that tell the columns of a table apart; the same generator gives the same bits."""
    return torch.randn(tables, columns, sizes.identity, generator=generator, device=device or generator.device)


class Attention(nn.Module):
    """Attention whose sharpness may grow with the number of keys, which softmax would otherwise dilute."""

    # Training may put something faster for its shapes in its place.
    attend: Callable[[Tensor, Tensor, Tensor], Tensor] = staticmethod(attend)

    def __init__(self, width: int, heads: int, *, sharpens: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.sharpness = nn.Parameter(torch.zeros(heads)) if sharpens else None
        nn.init.zeros_(self.out.weight)

    def remember(self, context: Tensor) -> KeysValues:
        """Return keys and values of ``context`` (batch, m, width)."""
        batch, m, width = context.shape
        both = product(context, self.key_value.weight).view(batch, m, 2, self.heads, width // self.heads)
        keys, values = both.permute(2, 0, 3, 1, 4)
        return KeysValues(*arrange(keys, values))

    def forward(self, asked: Tensor, memory: KeysValues, length: Tensor | None) -> Tensor:
        """Return what ``asked`` (batch, n, width) reads; ``length`` is the log of the number of keys, centred."""
        batch, n, width = asked.shape
        queries = product(asked, self.query.weight).view(batch, n, self.heads, width // self.heads).transpose(1, 2)
        scale = (width // self.heads) ** -0.5
        if self.sharpness is not None and length is not None:
            scale = scale * (1 + self.sharpness[:, None, None] * length)
        read = self.attend((queries * scale).to(memory.keys.dtype), memory.keys, memory.values)
        return product(read, self.out.weight)


class Hidden(nn.Module):
    """The feed-forward half of a block; starts as zero, so that a new block changes nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the change of ``x``."""
        return product(product(x, self.up.weight, self.up.bias, gelu=True), self.down.weight, self.down.bias)


class Block(nn.Module):
    """A transformer block in which the first rows are the context of all."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.hidden_norm = nn.LayerNorm(width)
        self.hidden = Hidden(width)

    def forward(self, x: Tensor, length: Tensor, n_context: int, n_out: int) -> Tensor:
        """Return the first ``n_out`` rows of ``x`` after they have read the first ``n_context``."""
        normed = self.norm(x)
        memory = self.attention.remember(normed[:, :n_context])
        x = x[:, :n_out] + self.attention(normed[:, :n_out], memory, length)
        return x + self.hidden(self.hidden_norm(x))  # type: ignore[no-any-return]

    def remember(self, context: Tensor, length: Tensor) -> tuple[Tensor, KeysValues]:
        """Return the context after the block, and what :meth:`answer` reads of it."""
        memory = self.attention.remember(self.norm(context))
        return self.answer(context, memory, length), memory

    def answer(self, asked: Tensor, memory: KeysValues, length: Tensor) -> Tensor:
        """Return ``asked`` after it has read the memory."""
        asked = asked + self.attention(self.norm(asked), memory, length)
        return asked + self.hidden(self.hidden_norm(asked))  # type: ignore[no-any-return]


class ColumnBlock(nn.Module):
    """Cells of a column exchange what they know through inducing points, which only the context writes to."""

    def __init__(self, width: int, heads: int, inducing: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(inducing, width) * 0.5)
        self.cell_norm = nn.LayerNorm(width)
        self.write = Attention(width, heads)
        self.point_norm = nn.LayerNorm(width)
        self.point_hidden = Hidden(width)
        self.read_norm = nn.LayerNorm(width)
        self.memory_norm = nn.LayerNorm(width)
        # The number of points never changes, so there is no length to allow for.
        self.read = Attention(width, heads, sharpens=False)
        self.hidden_norm = nn.LayerNorm(width)
        self.hidden = Hidden(width)

    def forward(self, cells: Tensor, length: Tensor, n_context: int) -> Tensor:
        """Return ``cells`` (columns, n, e) after they have read the summary of the first ``n_context``."""
        return self.answer(cells, self.remember(cells[:, :n_context], length))

    def remember(self, context: Tensor, length: Tensor) -> KeysValues:
        """Return the inducing points after they have read the context, as keys and values."""
        points = self.points.to(context.dtype).expand(len(context), -1, -1)
        points = points + self.write(points, self.write.remember(self.cell_norm(context)), length)
        points = points + self.point_hidden(self.point_norm(points))
        return self.read.remember(self.memory_norm(points))

    def answer(self, cells: Tensor, memory: KeysValues) -> Tensor:
        """Return ``cells`` after they have read the inducing points."""
        cells = cells + self.read(self.read_norm(cells), memory, None).to(cells.dtype)
        return cells + self.hidden(self.hidden_norm(cells)).to(cells.dtype)  # type: ignore[no-any-return]


class SharesHead(nn.Module):
    """The classes' shares among unlabelled rows: the mean of the rows' probabilities, and a learned correction."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.facts = nn.Linear(4, width)
        self.block = Block(width, heads)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self, rows: Tensor, logits: Tensor, labels: Tensor, valid: Tensor, names: Tensor, length: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return log shares (B, K) and concentration (B,); ``rows`` and ``logits`` are those of the context."""
        unlabeled = (labels == UNLABELED).float()
        n_unlabeled = unlabeled.sum(1, keepdim=True)
        # Not a matrix product: under autocast that would round the shares to half precision.
        mean = (logits.softmax(-1) * unlabeled[..., None]).sum(1) / n_unlabeled.clamp(min=1)
        counts = F.one_hot(labels, MAX_CLASSES + 1)[..., :MAX_CLASSES].sum(1).float()
        among_labels = counts / counts.sum(1, keepdim=True).clamp(min=1)
        # Without unlabelled rows, the labels are all there is to go by.
        mean = torch.where(n_unlabeled > 0, mean, among_labels)
        start = (mean + 1e-4).log()
        facts = torch.stack(
            [
                start,
                (among_labels + 1e-3).log(),
                (counts + 1).log() / 4,
                ((n_unlabeled + 1).log() / 8).expand_as(counts),
            ],
            -1,
        )
        # One token per class: its name and what is known of it, which then reads the rows.
        tokens = names + self.facts(facts)
        tokens = self.block.answer(tokens, self.block.attention.remember(rows), length)
        correction, weight = self.out(self.norm(tokens)).float().unbind(-1)
        log_shares = (start + correction).masked_fill(~valid, _MASKED).log_softmax(-1)
        log_weight = math.log(40) + (weight * valid).sum(1) / valid.sum(1)
        return log_shares, log_weight.clamp(-1, 11).exp()


class InContextNetwork(nn.Module):
    """The network; see the module for its stages.

    Parameters
    ----------
    sizes : Sizes, optional
        Widths and depths.
    """

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Sizes()
        wide = sizes.width * sizes.summaries
        self.cell = nn.Linear(8, sizes.width)
        self.cell_label = nn.Embedding(MAX_CLASSES + 1, sizes.width)
        self.column_blocks = nn.ModuleList(
            ColumnBlock(sizes.width, sizes.heads, sizes.inducing) for _ in range(sizes.column_blocks)
        )
        self.identity = nn.Linear(sizes.identity, sizes.width, bias=False)
        self.component = nn.Linear(2, sizes.width, bias=False)
        self.summaries = nn.Parameter(torch.randn(sizes.summaries, sizes.width) * 0.5)
        self.row_blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.row_blocks))
        self.row_norm = nn.LayerNorm(wide)
        self.row_label = nn.Embedding(MAX_CLASSES + 1, wide)
        self.context_blocks = nn.ModuleList(Block(wide, sizes.context_heads) for _ in range(sizes.context_blocks))
        self.out_norm = nn.LayerNorm(wide)
        self.out = nn.Linear(wide, MAX_CLASSES)
        self.shares = SharesHead(wide, sizes.context_heads)
        nn.init.zeros_(self.component.weight)

    def forward(
        self, values: Tensor, labels: Tensor, n_classes: Tensor, identities: Tensor, spectrum: Tensor | None = None
    ) -> Prediction:
        """Run context and asked rows together.

        Parameters
        ----------
        values : Tensor of shape (B, n, d)
            Rows, those of the context first.
        labels : Tensor of shape (B, c)
            Classes of the context rows, ``UNLABELLED`` where not known.
        n_classes : Tensor of shape (B,)
            Number of classes: the first of the network's outputs.
        identities : Tensor of shape (B, d, sizes.identity)
            Random vectors, see :func:`draw_identities`.
        spectrum : Tensor of shape (B, d), optional
            Where the columns are principal components, the logs of their standard deviations, the largest being 0.
        """
        n, n_context = values.shape[1], labels.shape[1]
        length = _log_length(n_context, values.device)
        labels = F.pad(labels, (0, n - n_context), value=UNLABELED)
        cells = self._cells(values, column_statistics(values[:, :n_context]), labels)
        for block in self.column_blocks:
            cells = block(cells, length, n_context)
        rows = self._rows(cells, self._identities(identities, spectrum), labels)
        for block in self.context_blocks:
            rows = block(rows, length, n_context, n)
        return self._read(rows, labels[:, :n_context], _valid(n_classes), length)

    def encode(
        self, context: Tensor, labels: Tensor, n_classes: Tensor, identities: Tensor, spectrum: Tensor | None = None
    ) -> Memory:
        """Run the context alone, and return what asked rows read of it, with the prediction for its own rows."""
        length = _log_length(context.shape[1], context.device)
        statistics = column_statistics(context)
        cells = self._cells(context, statistics, labels)
        columns, kept = [], []
        for column_block in self._column_blocks():
            columns.append(column_block.remember(cells, length))
            cells = column_block.answer(cells, columns[-1])
        names = self._identities(identities, spectrum)
        rows = self._rows(cells, names, labels)
        for context_block in self._context_blocks():
            rows, memory = context_block.remember(rows, length)
            kept.append(memory)
        valid = _valid(n_classes)
        return Memory(statistics, columns, names, kept, valid, length, self._read(rows, labels, valid, length))

    def answer(self, memory: Memory, asked: Tensor) -> Tensor:
        """Return the logits of ``asked`` (B, n, d), each row for itself."""
        labels = torch.full(asked.shape[:2], UNLABELED, device=asked.device)
        cells = self._cells(asked, memory.statistics, labels)
        for column_block, summary in zip(self._column_blocks(), memory.columns, strict=True):
            cells = column_block.answer(cells, summary)
        rows = self._rows(cells, memory.identities, labels)
        for context_block, kept in zip(self._context_blocks(), memory.rows, strict=True):
            rows = context_block.answer(rows, kept, memory.length)
        return self._logits(self.out_norm(rows), memory.valid)

    def _column_blocks(self) -> list[ColumnBlock]:
        return list(self.column_blocks)  # type: ignore[arg-type]

    def _context_blocks(self) -> list[Block]:
        return list(self.context_blocks)  # type: ignore[arg-type]

    def _cells(self, values: Tensor, statistics: ColumnStatistics, labels: Tensor) -> Tensor:
        # (B, n, d) -> (B d, n, e): the column stage takes every column for itself.
        cells = self.cell(cell_features(values, statistics)).transpose(1, 2)
        cells = cells + self.cell_label(labels)[:, None].to(cells.dtype)
        return cells.flatten(0, 1)  # type: ignore[no-any-return]

    def _identities(self, identities: Tensor, spectrum: Tensor | None) -> Tensor:
        names: Tensor = self.identity(identities)
        if spectrum is not None:
            names = names + self.component(torch.stack([torch.ones_like(spectrum), spectrum], -1))
        return names

    def _rows(self, cells: Tensor, identities: Tensor, labels: Tensor) -> Tensor:
        # (B d, n, e) -> (B n, summaries + d, e) -> (B, n, E)
        tables, columns = identities.shape[:2]
        cells = cells.view(tables, columns, *cells.shape[1:]) + identities[:, :, None].to(cells.dtype)
        cells = cells.transpose(1, 2).flatten(0, 1)
        tokens = torch.cat([self.summaries.to(cells.dtype).expand(len(cells), -1, -1), cells], 1)
        length = _log_length(tokens.shape[1], cells.device, usual=32)
        parts = []
        for part in torch.split(tokens, _MOST_ROWS_AT_ONCE.get(tokens.device.type, _OTHERWISE)):
            for block in self.row_blocks:
                # Only the summaries are read in the end, so the last block need not compute the rest.
                n_out = self.sizes.summaries if block is self.row_blocks[-1] else part.shape[1]
                part = block(part, length, part.shape[1], n_out)
            parts.append(part)
        rows = torch.cat(parts) if len(parts) > 1 else parts[0]
        rows = self.row_norm(rows[:, : self.sizes.summaries].reshape(*labels.shape, -1))
        return rows + self.row_label(labels)  # type: ignore[no-any-return]

    def _read(self, rows: Tensor, labels: Tensor, valid: Tensor, length: Tensor) -> Prediction:
        rows = self.out_norm(rows)
        logits = self._logits(rows, valid)
        n_context = labels.shape[1]
        names = self.row_label.weight[:MAX_CLASSES]
        shares = self.shares(rows[:, :n_context], logits[:, :n_context], labels, valid, names, length)
        return Prediction(logits, *shares)

    def _logits(self, rows: Tensor, valid: Tensor) -> Tensor:
        return self.out(rows).float().masked_fill(~valid[:, None], _MASKED)  # type: ignore[no-any-return]


def _log_length(n_keys: int, device: torch.device, *, usual: int = 512) -> Tensor:
    # A tensor rather than a number, so that compiled blocks need not be compiled for each length; filled on the
    # device, so that nothing waits for a copy.
    return torch.full((), math.log(n_keys / usual), device=device)


def _valid(n_classes: Tensor) -> Tensor:
    return torch.arange(MAX_CLASSES, device=n_classes.device) < n_classes[:, None]


def save_network(
    path: str | os.PathLike[str],
    network: InContextNetwork,
    *,
    tables_seen: int,
    state: dict[str, Tensor] | None = None,
) -> None:
    """Write the weights in half precision; ``state`` takes the place of the network's own. Never leaves half a file."""
    tensors = {name: value.detach().to("cpu", torch.float16) for name, value in (state or network.state_dict()).items()}
    metadata = {
        "format_version": str(FORMAT_VERSION),
        "sizes": json.dumps(asdict(network.sizes)),
        "tables_seen": str(tables_seen),
    }
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    save_file({name: value.contiguous() for name, value in tensors.items()}, partial, metadata=metadata)
    os.replace(partial, target)


def load_network(path: str | os.PathLike[str]) -> tuple[InContextNetwork, int]:
    """Return the network (in single precision) saved at ``path``, and the number of tables it was trained on."""
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"no weights at {path}: the file does not exist")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ModelFileError(f"{path} is damaged or is not a file of weights ({error}); fetch it again") from error
    version = metadata.get("format_version")
    if version != str(FORMAT_VERSION):
        raise VersionError(
            f"{path} has format {version}, and this version of deepsep reads format {FORMAT_VERSION}; "
            "use the weights that came with it"
        )
    try:
        sizes = Sizes(**json.loads(metadata["sizes"]))
        tables_seen = int(metadata["tables_seen"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} does not say its sizes ({error}); fetch it again") from error
    network = InContextNetwork(sizes)
    expected = {name: value.shape for name, value in network.state_dict().items()}
    for name in expected.keys() | tensors.keys():
        if name not in tensors:
            raise ModelFileError(f"{path} lacks the weights {name!r}; fetch it again")
        if name not in expected:
            raise ModelFileError(f"{path} has weights {name!r}, which the network does not know; fetch it again")
        if tensors[name].shape != expected[name]:
            raise ModelFileError(
                f"{path}: {name!r} has shape {tuple(tensors[name].shape)}, expected {tuple(expected[name])}"
            )
    network.load_state_dict({name: value.float() for name, value in tensors.items()})
    return network.eval(), tables_seen

"""``deepsep check``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console, ExitCode
from deepsep.cli.options import TrainingOptions
from deepsep.cli.printed_lines import aligned, finding_lines, wrapped

if TYPE_CHECKING:
    from deepsep.model.training_table import Training


@command(without=("weight", "label_weight"))
def check(training: TrainingOptions, out: Console) -> None:
    """Check what would go wrong if a model were fitted to a table.

    Checks columns, missing values, labels, leaks, duplicates, and whether labelled rows resemble the others, and says
    how the labels were drawn, as far as it is known: on this depends what accuracy can be promised. Exits with 0 if a
    fit would work, and with 2 if not.

    Example: deepsep check customers.csv --label segment
    """
    from deepsep.errors import LabelError
    from deepsep.model.training_table import read_training
    from deepsep.table import check_table

    data = read_training(training.asked, note=out.note)
    named = data.ids if training.id or training.on else None
    frame = data.X.assign(**{data.label: data.y}, **({} if named is None else {str(named.name): named}))
    checked = check_table(frame, data.label, id=None if named is None else str(named.name), merged=data.merged)
    with suppress(LabelError):  # it is among the findings
        checked["labels"]["drawn"] = _drawn(data)
    out.result(_text(checked), checked)
    if not checked["fit_would_work"]:
        raise typer.Exit(ExitCode.MISUSE)


def _drawn(data: Training) -> dict[str, Any]:
    """Return how the labels were drawn, given or guessed: how many in each way, and a sentence."""
    from deepsep.core.label_origins import LABEL_ORIGINS, read_origins

    origins = read_origins(data.labels_drawn, data.labels)
    counts, n = dict(zip(LABEL_ORIGINS, origins.counts, strict=True)), sum(origins.counts)
    if not n:
        return {"given": False, **counts, "sentence": ""}
    words = [None] * len(data.y) if data.labels_drawn is None else data.labels_drawn
    known = [word for word, labeled in zip(words, data.labeled, strict=True) if labeled and word is not None]
    said = ", ".join(f"{known.count(word):,} {word}" for word in LABEL_ORIGINS if word in known)
    sentence = f"How the labels were drawn: {said}" if known else "How the labels were drawn is not said"
    if not origins.given:
        guess = next(word for word in LABEL_ORIGINS if counts[word] > known.count(word))
        like = {"random": "random ones", "quota": "quotas, as they are spread over the classes so evenly"}
        others = f"the other {n - len(known):,}" if known else "they"
        sentence += f"; {others} are taken for {like[guess]}: say it with --labels-drawn"
    if origins.basis is None:
        sentence += "; no accuracy can be stated without labels of rows drawn at random"
    return {"given": origins.given, **counts, "sentence": f"{sentence}."}


def _text(checked: dict[str, Any]) -> str:
    shown = 20  # classes and columns
    labels, columns = checked["labels"], checked["columns"]
    used = [column for column in columns if not column["left_out"]]
    kinds = ", ".join(
        f"{sum(column['type'] == kind for column in used)} {kind}"
        for kind in dict.fromkeys(column["type"] for column in used)
    )
    lines = [
        f"{checked['rows']:,} rows, {labels['labelled']:,} of them labelled.",
        f"{len(columns)} columns besides the label; a model would use {len(used)} ({kinds}).",
        "",
        f"Labels in {labels['column']!r}:",
    ]
    lines += aligned({name: f"{count:,}" for name, count in labels["classes"].items()})[:shown]
    if len(labels["classes"]) > shown:
        lines.append(f"  and {len(labels['classes']) - shown} more")
    if labels.get("drawn", {}).get("sentence"):
        lines += ["", wrapped(labels["drawn"]["sentence"])]
    gaps = sorted((column for column in used if column["missing"]), key=lambda column: -column["missing"])
    if gaps:
        some = ", ".join(f"{column['name']} {max(column['missing'], 0.01):.0%}" for column in gaps[:5])
        lines += ["", f"{len(gaps)} columns have missing values: {some}{' ...' if len(gaps) > 5 else ''}"]
    for finding in checked["findings"]:
        lines += ["", *finding_lines(finding)]
    verdict = "A fit would work." if checked["fit_would_work"] else "A fit would not work; see the errors above."
    return "\n".join([*lines, "", verdict])

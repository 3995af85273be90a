"""``deepsep demo``."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import option
from deepsep.cli.printed_lines import aligned
from deepsep.errors import DataError

RESULT_FILE = "demo.json"


@command()
def demo(
    output: Annotated[Path, option("--output, -o", "FOLDER", "Folder for the files.")] = Path("deepsep-demo"),
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
    *,
    out: Console,
) -> None:
    """Run a complete example on real data.

    From 100 foods that were sorted by hand to the aisles of 2,000, with a model, scores and a report. Takes a few
    minutes, needs no network, and keeps the files so that you can repeat every step by hand.
    """
    from deepsep.files.atomic import install
    from deepsep.files.manifest import read_folder

    began = time.perf_counter()
    target = _check_folder(output)
    with tempfile.TemporaryDirectory() as place:
        result, text = _run(out, Path(place), output)
        files = read_folder(Path(place))
    result["seconds"] = round(time.perf_counter() - began, 1)
    files[RESULT_FILE] = (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode()
    install(files, target, own={name.partition("/")[0] for name in files})
    report = target / "model" / "report.html"
    out.result(f"{text}\n\nThe report: {report}", {**result, "report": report})
    if open and not (out.quiet or out.as_json) and _has_browser():
        webbrowser.open(report.as_uri())


def _run(out: Console, folder: Path, output: Path) -> tuple[dict[str, Any], str]:
    """Run the example in a folder and return its figures, and the text to print at the end."""
    from deepsep import demo_example as example
    from deepsep.cli.watched_fit import fit_and_measure
    from deepsep.model.fitting import build
    from deepsep.model.model_folder import write_folder
    from deepsep.model.training_table import TrainingTable, read_training
    from deepsep.scoring import score_file

    story = example.write_files(folder)
    out.note(
        f"1. The table. An online shop sells {example.N_PRODUCTS:,} foods, and knows what is on their nutrition "
        f"labels:\n   {story.n_columns} numbers, from energy to potassium (USDA nutrient database, public domain).\n"
        f"2. The question. Somebody has sorted {example.N_LABELS} of them, drawn at random, into five aisles:"
    )
    out.note("\n".join(f"     {name}" for name in sorted(story.aisle.unique())))
    out.note("   Where do the others go? Their aisles are known to us, but hidden from the model.")
    data = read_training(
        TrainingTable(source=folder / example.FOODS_FILE, labels=[folder / example.SORTED_FILE], on=example.ID_COLUMN)
    )
    files = f"{example.FOODS_FILE} --labels {example.SORTED_FILE} --on {example.ID_COLUMN}"
    replay = f"deepsep fit {files} -o {example.MODEL_FOLDER}"
    out.note("3. The model.")
    fitted = fit_and_measure(
        out,
        build("committee", {}, 0, weighted=False),
        data,
        folder,
        method="committee",
        keep=[],
        report=True,
        command=replay,
    )
    write_folder(fitted.model, folder / example.MODEL_FOLDER, fitted.predictions, summary=fitted.summary)
    hidden = ~data.labeled
    truth = story.aisle.loc[data.ids].to_numpy()
    accuracy = {"committee": float((fitted.predictions.frame.iloc[:, 1].to_numpy() == truth[hidden]).mean())}
    out.note(f"4. The comparison. Other methods learn from the {example.N_LABELS} labels alone ...")
    with out.steps("Other methods") as on_step:
        accuracy |= example.score_supervised(data.X, data.y, truth, on_step=on_step)
    out.note(f"5. Scoring. {example.N_LATER} new foods arrive ...")
    scored = score_file(
        fitted.model,
        folder / example.NEWCOMERS_FILE,
        folder / example.SCORED_FILE,
        id=example.ID_COLUMN,
        progress=lambda rows, share: None,
    )
    result = {
        "rows": example.N_PRODUCTS,
        "labelled": example.N_LABELS,
        "hidden": int(hidden.sum()),
        "accuracy": accuracy,
        "expected": fitted.summary and fitted.summary["verdict"],
        "scored": scored["rows"],
        "folder": str(output),
    }
    return result, _text(result, output, replay)


def _text(result: dict[str, Any], output: Path, replay: str) -> str:
    """Return what the demo prints at the end."""
    accuracy = result["accuracy"]
    lines = [f"\nAccuracy on the {result['hidden']:,} foods whose aisle was hidden, from {result['labelled']} labels:"]
    ranked = sorted(accuracy.items(), key=lambda item: -item[1])
    lines += aligned({name: f"{share:6.1%}" for name, share in ranked})
    best = max(accuracy, key=lambda name: accuracy[name])
    if best != "committee":
        gap = 100 * (accuracy[best] - accuracy["committee"])
        who = best if best == "LightGBM" else f"the {best}"
        lines.append(f"Here {who} is better, by {gap:.1f} points. That happens often: always compare.")
    lines += [
        "",
        "What the report expects, from the 100 labels alone:",
        *(f"  {sentence}" for sentence in result["expected"]),
        "",
        "Repeat it by hand:",
        f"  cd {shlex.quote(str(output))}",
        "  deepsep check foods.parquet --labels sorted.csv --on food",
        f"  {replay}",
        "  deepsep score model newcomers.parquet --id food -o scored.parquet",
        "  deepsep explain model foods.parquet --labels sorted.csv --on food",
    ]
    return "\n".join(lines)


def _check_folder(output: Path) -> Path:
    """Return the folder, or raise unless it is new, empty, or holds an earlier demo."""
    if output.is_file():
        raise DataError(f"{output} is a file. Name another folder with -o.")
    if output.is_dir() and any(output.iterdir()) and not (output / RESULT_FILE).exists():
        raise DataError(f"{output} holds files that `deepsep demo` did not write. Name another folder with -o.")
    return output.resolve()


def _has_browser() -> bool:
    """Whether this is an interactive terminal on which a browser can open."""
    has_screen = not sys.platform.startswith("linux") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(has_screen)  # without a browser, `webbrowser.open` does nothing

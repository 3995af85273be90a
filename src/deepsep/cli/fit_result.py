"""Closing lines of ``deepsep fit``, and the same as values for --json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from deepsep.cli.console import Console
from deepsep.cli.printed_lines import aligned, decision_lines, finding_lines
from deepsep.cli.watched_fit import Fitted
from deepsep.model.model_folder import PREDICTIONS_NAME, REPORT_FILE, SUSPICIOUS_FILE
from deepsep.report.outcome import more_labels
from deepsep.report.provenance import rows_in_model
from deepsep.report.wording import with_span


def print_result(
    out: Console,
    fitted: Fitted,
    output: Path,
    written: list[str],
    *,
    method: str,
    earlier: str | None,
    costs: Path | None,
    workbook: Path | None,
    total_seconds: float,
) -> None:
    """Print the result of a fit.

    ``written`` are the names of the files next to the model; ``earlier`` is the model that was replaced, if any.
    """
    (predictions,) = (name for name in written if name.startswith(PREDICTIONS_NAME))
    summary, data, predicted = fitted.summary, fitted.model.training, fitted.predictions
    n, n_labeled, n_predicted = len(data.X), int(data.labeled.sum()), predicted.n_rows
    shares = {name: predicted.labels.get(name, 0) / max(n_predicted, 1) for name in fitted.model.classes_.tolist()}
    lines = [line for finding in fitted.model.findings for line in (*finding_lines(finding), "")]
    lines.append(f"Fitted {method} to {n:,} rows, {n_labeled:,} of them labelled, in {fitted.seconds:.1f} s.")
    if summary is not None:
        lines.append(f"With its evaluation, the report and the files, it took {total_seconds:.1f} s.")
        lines += ["", *summary["verdict"]]
        if summary["members"] is not None and summary["accuracy"] is not None:
            lines += ["", *_member_lines(summary)]
    else:
        more = more_labels(getattr(fitted.model[-1], "learning_curve_", None))
        lines += [] if more is None else [more["sentence"]]
    if n_predicted:
        lines += ["", f"Predicted for the {n_predicted:,} unlabelled rows{_by_whom(predicted.scored)}:"]
        lines += aligned({name: f"{share:6.1%}" for name, share in shares.items()})
        lines += decision_lines(predicted.decisions, n_predicted, costs)
    kept = rows_in_model(fitted.model)
    files = {
        f"{output}": "the model: deepsep.load opens it"
        + (f" (replaces {earlier})" if earlier else "")
        + (f"; it contains {kept:,} rows of this table, with their labels" if kept else ""),
        f"{output / predictions}": f"label, probabilities and confidence of {n_predicted:,} rows",
    }
    if SUSPICIOUS_FILE in written:
        files[f"{output / SUSPICIOUS_FILE}"] = "labels to check: predictions of held-out rows contradict them"
    if summary is not None:
        files[f"{output / REPORT_FILE}"] = "the report: open it in a browser"
    if workbook is not None:
        files[f"{workbook}"] = "the workbook: predictions, sizes and profiles of the segments, rows to label, for Excel"
    first = workbook or output / (predictions if summary is None else REPORT_FILE)
    lines += ["", *aligned(files, indent=""), "", f"Open first: {first}"]
    suffix = Path(predictions).suffix
    lines += [f"Next: deepsep score {shlex.quote(str(output))} MORE_ROWS{suffix} -o scored{suffix}"]
    out.result(
        "\n".join(lines),
        {
            "method": method,
            "rows": n,
            "labelled": n_labeled,
            "unlabelled": n_predicted,
            "unlabelled_used": n - n_labeled,
            "scored_by": None if predicted.scored is None else predicted.scored["scored_by"],
            "classes": fitted.model.classes_,
            "predicted_shares": shares,
            "decisions": predicted.decisions,
            "findings": fitted.model.findings,
            **{name: summary and summary[name] for name in ("outcome", "verdict", "members", "accuracy")},
            "seconds": round(fitted.seconds, 2),
            "total_seconds": round(total_seconds, 2),
            "model": output,
            "replaced": earlier,
            "rows_in_model": kept,
            "predictions": output / predictions,
            "report": None if summary is None else output / REPORT_FILE,
            "workbook": workbook,
            "open_first": first,
        },
    )


def _by_whom(scored: dict[str, Any] | None) -> str:
    """Return who predicted the rows of a large table, if it was not the model itself."""
    if scored is None or scored["scored_by"] != "student":
        return ""
    return f", by the student, which agrees with its committee in {scored['student']['agreement']:.1%} of rows"


def _member_lines(summary: dict[str, Any]) -> list[str]:
    """Return a table of the members: weight, accuracy with its interval, and log loss on held-out rows."""
    scores = {line["key"]: line for line in summary["accuracy"]["methods"]}
    weights = {line["key"]: f"{line['weight']:.2f}" for line in summary["members"]["lines"]}
    rows = [
        (
            scores[key]["name"],
            weights.get(key, ""),
            with_span(scores[key]["accuracy"]["value"], scores[key]["accuracy"]["interval"]),
            f"{scores[key]['log_loss']['value']:.2f}",
        )
        for key in ("model", *sorted(weights, key=lambda key: -float(weights[key])), "majority")
    ]
    first_word = "To expect" if summary["accuracy"]["expected"] else "On held-out rows"
    head = (first_word, "weight", "right", "log loss")
    first, *others = (max(len(cell) for cell in column) for column in zip(head, *rows, strict=True))
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
        for name, *cells in (head, *rows)
    ]

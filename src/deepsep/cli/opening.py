"""Open a model folder as what a command needs, or say which command takes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.errors import ParameterError

if TYPE_CHECKING:
    from deepsep.survey import SurveySegments


def open_classifier(folder: Path, command: str) -> Any:
    """Return the classifier in a folder; segments have commands of their own."""
    from deepsep.model.table_model import load
    from deepsep.survey import SurveySegments

    model = load(folder)
    if isinstance(model, SurveySegments):
        raise ParameterError(
            f"{folder} holds segments of a survey, and deepsep {command} takes a model of deepsep fit. To give new "
            f"respondents their segment: deepsep assign {folder} ANSWERS.csv -o assigned.parquet"
        )
    return model


def open_segments(folder: Path, command: str) -> SurveySegments:
    """Return the segments in the folder of a model, or in that of ``deepsep segments`` around it."""
    from deepsep.model.table_model import load
    from deepsep.survey import SurveySegments
    from deepsep.survey.segment_files import MODEL_FOLDER, read_summary

    model = load(folder / MODEL_FOLDER if folder.is_dir() and read_summary(folder) is not None else folder)
    if not isinstance(model, SurveySegments):
        raise ParameterError(
            f"{folder} holds a model of deepsep fit, and deepsep {command} takes the segments of a survey, that is the "
            f"folder of deepsep segments. To predict rows with this model: deepsep score {folder} TABLE.csv -o "
            "scored.parquet"
        )
    return model

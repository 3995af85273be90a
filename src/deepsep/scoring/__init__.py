"""Score a DataFrame, a file, a folder of files or external rows, and compare them with the training table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.scoring.decisions import Decision
    from deepsep.scoring.files import score_file
    from deepsep.scoring.frame import score_frame
    from deepsep.scoring.job import Resources
    from deepsep.scoring.leaving_out import reasons
    from deepsep.scoring.to_label import rows_to_label
    from deepsep.scoring.training_profile import compare_with_training, remember_training

__all__ = [
    "Decision",
    "Resources",
    "compare_with_training",
    "reasons",
    "remember_training",
    "rows_to_label",
    "score_file",
    "score_frame",
]

_HOME = {
    "Decision": "deepsep.scoring.decisions",
    "Resources": "deepsep.scoring.job",
    "compare_with_training": "deepsep.scoring.training_profile",
    "reasons": "deepsep.scoring.leaving_out",
    "remember_training": "deepsep.scoring.training_profile",
    "rows_to_label": "deepsep.scoring.to_label",
    "score_file": "deepsep.scoring.files",
    "score_frame": "deepsep.scoring.frame",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

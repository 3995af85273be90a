"""Find segments in survey answers: one-hot encoding, latent Dirichlet allocation, profiles, names."""

from deepsep.survey.answer_profiles import read_names, write_names
from deepsep.survey.questions import Question
from deepsep.survey.segment_files import Assigned, assign_segments, write_segments
from deepsep.survey.survey_segments import SurveySegments

__all__ = [
    "Assigned",
    "Question",
    "SurveySegments",
    "assign_segments",
    "read_names",
    "write_names",
    "write_segments",
]

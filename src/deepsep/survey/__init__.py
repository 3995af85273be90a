"""Answers to segments: one-hot answers, latent Dirichlet allocation, profiles and names."""

from deepsep.survey._names import read_names, write_names
from deepsep.survey._questions import Question
from deepsep.survey._segments import SurveySegments
from deepsep.survey._write import write_segments

__all__ = ["Question", "SurveySegments", "read_names", "write_names", "write_segments"]

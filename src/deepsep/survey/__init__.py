"""Find segments in survey answers: one-hot encoding, latent Dirichlet allocation, profiles, names, typing tools."""

from deepsep.survey.assigning import Assigned, assign_segments
from deepsep.survey.names import read_names, write_names
from deepsep.survey.questions import Question
from deepsep.survey.segment_files import write_segments
from deepsep.survey.survey_segments import SurveySegments
from deepsep.survey.typing_items import ask_items
from deepsep.survey.typing_sql import typing_sql
from deepsep.survey.typing_tool import TypingTool, make_typing_tool

__all__ = [
    "Assigned",
    "Question",
    "SurveySegments",
    "TypingTool",
    "ask_items",
    "assign_segments",
    "make_typing_tool",
    "read_names",
    "typing_sql",
    "write_names",
    "write_segments",
]

"""Short questionnaires that find the segment of a person: in Python, as a workbook, and as SQL."""

from deepsep.apps.typing.typing_sql import typing_sql
from deepsep.apps.typing.typing_tool import TypingTool, ask_items, make_typing_tool
from deepsep.apps.typing.typing_workbook import write_typing_workbook

__all__ = ["TypingTool", "ask_items", "make_typing_tool", "typing_sql", "write_typing_workbook"]

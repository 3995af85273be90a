"""A typing tool as a SQL query."""

from __future__ import annotations

from collections.abc import Iterable

from deepsep.apps.typing.typing_tool import POINTS_PER_LOGIT, Item, TypingTool


def typing_sql(tool: TypingTool, table: str = "answers") -> str:
    """Return a query that gives every row of a table its segment, with the points of a typing tool.

    The table has one column per question, with the answers as text. The query adds the columns of
    :meth:`TypingTool.assign`, with ``probability_1``, ``points_1`` and so on in the order of the segments. It uses
    ``case``, ``cast``, ``trim`` and ``exp`` in nested selects, identifiers in double quotes and text in single quotes,
    as PostgreSQL, DuckDB, Snowflake, Redshift, Oracle and SQLite have them.
    """
    k = range(1, len(tool.segment_names) + 1)
    points = [
        _sum([str(start), *(_case(item, given[:, j]) for item, given in zip(tool.items, tool.points, strict=True))])
        for j, start in enumerate(tool.start)
    ]
    answered = _sum(_case(item, [1] * len(item.answers)) for item in tool.items)
    best = "\n".join(
        f"    when {' and '.join(f'points_{i} >= points_{j}' for j in k if j != i) or '1 = 1'} then {text(name)}"
        for i, name in zip(k, tool.segment_names, strict=True)
    )
    odds = [" + ".join(f"exp((points_{j} - points_{i}) / {POINTS_PER_LOGIT}.0)" for j in k) for i in k]
    shares = ",\n".join(
        f"  case when answered > 0 then 1.0 / ({sum_}) end as probability_{i}" for i, sum_ in zip(k, odds, strict=True)
    )
    inner = ",\n".join(f"    {sum_} as points_{i}" for i, sum_ in zip(k, points, strict=True))
    asked = "\n".join(f"--   {_comment(item.name)}: {_comment(' | '.join(item.answers))}" for item in tool.items)
    names = "\n".join(f"--   {i}: {_comment(name)}" for i, name in zip(k, tool.segment_names, strict=True))
    agreement = tool.agreement
    return f"""-- A typing tool of deepsep: {len(tool.items)} questions for {len(tool.segment_names)} segments.
-- On held-out respondents it agrees with the segments of all questions in {agreement["agreement"]:.1%}
-- (90 % interval {agreement["low"]:.1%} to {agreement["high"]:.1%}).
-- Columns of the table and their answers, as text; an empty or other answer adds no points:
{asked}
-- Segments:
{names}
select
  typed.*,
  case
    when answered = 0 then null
{best}
  end as segment,
{shares}
from (
  select
    asked.*,
    {answered} as answered,
{inner}
  from {identifier(table)} asked
) typed
"""


def identifier(name: str) -> str:
    """Return a name of a table or column in double quotes."""
    return '"' + name.replace("\0", "").replace('"', '""') + '"'


def text(value: str) -> str:
    """Return text in single quotes."""
    return "'" + value.replace("\0", "").replace("'", "''") + "'"


def _case(item: Item, points: Iterable[int]) -> str:
    """Return the points of the answer in a column."""
    lines = []
    for answer, value in zip(item.answers, points, strict=True):
        lines.append(f"when {text(answer)} then {value}")
        if item.kind == "scale" and answer.lstrip("-").isdecimal():  # a column of floats
            lines.append(f"when {text(answer + '.0')} then {value}")
    return f"case trim(cast({identifier(item.name)} as varchar(4000))) {' '.join(lines)} else 0 end"


def _sum(terms: Iterable[str]) -> str:
    return "\n      + ".join(terms)


def _comment(words: str) -> str:
    return " ".join(words.split())

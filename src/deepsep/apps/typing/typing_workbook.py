"""A typing tool as an Excel workbook with live formulas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.chart import LineChart, Reference
from openpyxl.formatting.rule import FormulaRule
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.properties import PageSetupProperties

from deepsep.apps.typing.typing_tool import POINTS_PER_LOGIT, Item, TypingTool
from deepsep.table.excel_cells import PERCENT_FORMAT, fill, save_book

FORMULA_ROWS = 500  # respondents in the sheet of many
HELP_SHEET, ONE_SHEET, MANY_SHEET = "How to read", "One respondent", "Many respondents"
CURVE_SHEET, POINTS_SHEET = "Agreement", "Points"
INPUT_FILL, RESULT_FILL = PatternFill("solid", fgColor="FFF2CC"), PatternFill("solid", fgColor="E2EFDA")


def write_typing_workbook(tool: TypingTool, path: Path, *, about: str = "") -> None:
    """Write a typing tool as a workbook in which answers give the segment by formulas.

    The sheets: how to read it; one respondent, with a list of answers for each question; many respondents, whose
    answers are pasted; the agreement with the full model by number of questions; and the points of every answer. The
    formulas use SUMPRODUCT, EXACT, TRIM, EXP, SUM, MAX, INDEX, MATCH and IF, which Excel and LibreOffice have.
    ``about`` says on the first sheet where the tool comes from.
    """
    book = Workbook()
    book.properties.creator = "deepsep"
    book.calculation.fullCalcOnLoad = True
    book.active.title = HELP_SHEET
    sheets = {name: book.create_sheet(name) for name in (ONE_SHEET, MANY_SHEET, CURVE_SHEET, POINTS_SHEET)}
    places = _write_points(sheets[POINTS_SHEET], tool)
    _write_one(sheets[ONE_SHEET], tool, places)
    _write_many(sheets[MANY_SHEET], tool, places)
    _write_curve(sheets[CURVE_SHEET], tool)
    _write_help(book[HELP_SHEET], tool, about)
    for sheet in book:  # printed on pages of its width
        sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
        sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    save_book(book, path)


class _Answers:
    """The cells with the answers to a question and their points."""

    def __init__(self, item: Item, first: int) -> None:
        self.rows = f"${first}:$", f"${first + len(item.answers) - 1}"
        self.trimmed = all(answer == " ".join(answer.split()) for answer in item.answers)

    def column(self, letter: str) -> str:
        return f"{POINTS_SHEET}!${letter}{self.rows[0]}{letter}{self.rows[1]}"

    def given(self, cell: str) -> str:
        """Return the formula that finds the answer in a cell. EXACT respects case and knows no wildcards."""
        return f"EXACT({self.column('B')},{f'TRIM({cell})' if self.trimmed else cell})"

    def points(self, cell: str, segment: int) -> str:
        return f"SUMPRODUCT({self.given(cell)}*{self.column(_segment(segment))})"

    def counts(self, cell: str) -> str:
        return f"SUMPRODUCT({self.given(cell)}*1)"


def _segment(k: int) -> str:
    """Return the column of a segment in the sheets of the points and of one respondent."""
    return str(get_column_letter(3 + k))


def _write_points(sheet: Any, tool: TypingTool) -> list[_Answers]:
    _header(sheet, 1, ["Question", "Answer", *tool.segment_names], widths=(40, 28, 16))
    _row(sheet, 2, ["Before any answer", None, *tool.start.tolist()])
    places, row = [], 3
    for item, points in zip(tool.items, tool.points, strict=True):
        places.append(_Answers(item, row))
        for answer, line in zip(item.answers, points.tolist(), strict=True):
            _row(sheet, row, [item.name, answer, *line])
            row += 1
    sheet.freeze_panes = "C2"
    return places


def _write_one(sheet: Any, tool: TypingTool, places: Sequence[_Answers]) -> None:
    k, n = len(tool.segment_names), len(tool.items)
    first, last = _segment(0), _segment(k - 1)
    top = 5  # the row of the header
    check, start, sums = _segment(k), top + 2, top + 2 + n
    _header(sheet, top, ["Question", "Answer", *tool.segment_names, "Counts"], widths=(40, 28, 16))
    _row(sheet, top + 1, ["Before any answer"])
    for j in range(k):
        sheet[f"{_segment(j)}{top + 1}"] = f"={POINTS_SHEET}!{_segment(j)}2"
    for row, (item, place) in enumerate(zip(tool.items, places, strict=True), start=start):
        fill(sheet.cell(row, 1), item.name)
        cell = sheet.cell(row, 2)
        cell.fill, cell.number_format = INPUT_FILL, "@"
        for j in range(k):
            sheet[f"{_segment(j)}{row}"] = f"={place.points(f'$B{row}', j)}"
        sheet[f"{check}{row}"] = f"={place.counts(f'$B{row}')}"
        _list(sheet, place, f"B{row}")
    _row(sheet, sums, ["Points"], bold=True)
    _row(sheet, sums + 1, ["Probability"], bold=True)
    answered = f"SUM(${check}${start}:${check}${sums - 1})"
    total = f"${first}${sums}:${last}${sums}"
    for j in range(k):
        letter = _segment(j)
        sheet[f"{letter}{sums}"] = f"=SUM({letter}{top + 1}:{letter}{sums - 1})"
        sheet[f"{letter}{sums + 1}"] = f"={_probability(f'{letter}{sums}', total, answered)}"
        sheet[f"{letter}{sums + 1}"].number_format = PERCENT_FORMAT
    results = {
        "Segment": _best(f"${first}${top}:${last}${top}", total, answered),
        "Probability": f'IF({answered}=0,"",MAX({first}{sums + 1}:{last}{sums + 1}))',
        "Answers that count": answered,
    }
    for row, (name, formula) in enumerate(results.items(), start=1):
        _row(sheet, row, [name], bold=True)
        cell = sheet.cell(row, 2, f"={formula}")
        cell.fill, cell.alignment = RESULT_FILL, Alignment(horizontal="left")
    sheet["B2"].number_format = PERCENT_FORMAT
    strange = FormulaRule([f'AND($B{start}<>"",${check}{start}=0)'], fill=PatternFill("solid", bgColor="F8CBAD"))
    sheet.conditional_formatting.add(f"B{start}:B{sums - 1}", strange)
    sheet.freeze_panes = f"C{top + 1}"


def _write_many(sheet: Any, tool: TypingTool, places: Sequence[_Answers]) -> None:
    k, n = len(tool.segment_names), len(tool.items)
    names = tool.segment_names
    head = ["Respondent", *(item.name for item in tool.items), "Segment", "Probability", "Answers that count"]
    _header(
        sheet, 1, [*head, *(f"Probability: {name}" for name in names), *(f"Points: {name}" for name in names)], (16,)
    )
    segment, best, counts = (get_column_letter(n + 2 + i) for i in range(3))
    shares = [get_column_letter(n + 5 + j) for j in range(k)]
    points = [get_column_letter(n + 5 + k + j) for j in range(k)]
    inputs = [get_column_letter(i + 2) for i in range(n)]
    for row in range(2, FORMULA_ROWS + 2):
        given = [f"${letter}{row}" for letter in inputs]
        for cell in (sheet[place[1:]] for place in given):
            cell.number_format, cell.fill = "@", INPUT_FILL
        total = f"${points[0]}{row}:${points[-1]}{row}"
        sheet[f"{counts}{row}"] = f"={'+'.join(map(_Answers.counts, places, given))}"
        for j in range(k):
            terms = [
                f"{POINTS_SHEET}!${_segment(j)}$2",
                *(p.points(cell, j) for p, cell in zip(places, given, strict=True)),
            ]
            sheet[f"{points[j]}{row}"] = f"={'+'.join(terms)}"
            sheet[f"{shares[j]}{row}"] = f"={_probability(f'{points[j]}{row}', total, f'${counts}{row}')}"
            sheet[f"{shares[j]}{row}"].number_format = PERCENT_FORMAT
        in_points = f"{POINTS_SHEET}!${_segment(0)}$1:${_segment(k - 1)}$1"
        sheet[f"{segment}{row}"] = f"={_best(in_points, total, f'${counts}{row}')}"
        sheet[f"{best}{row}"] = f'=IF(${counts}{row}=0,"",MAX({shares[0]}{row}:{shares[-1]}{row}))'
        sheet[f"{best}{row}"].number_format = PERCENT_FORMAT
        sheet[f"{segment}{row}"].fill = RESULT_FILL
    for letter, place in zip(inputs, places, strict=True):
        _list(sheet, place, f"{letter}2:{letter}{FORMULA_ROWS + 1}")
    sheet.freeze_panes = "B2"


def _write_curve(sheet: Any, tool: TypingTool) -> None:
    _header(sheet, 1, ["Questions", "Agreement", "Lower end", "Upper end", "Question that is added"], widths=(12,))
    for row, (m, line) in enumerate(tool.curve.iterrows(), start=2):
        _row(sheet, row, [m, line["agreement"], line["low"], line["high"], line["question"]])
        for column in range(2, 5):
            sheet.cell(row, column).number_format = PERCENT_FORMAT
    last = len(tool.curve) + 1
    _row(sheet, last + 2, ["All", tool.agreement_of_all])
    sheet.cell(last + 2, 2).number_format = PERCENT_FORMAT
    sheet.column_dimensions["E"].width = 50
    chart = LineChart()
    chart.title, chart.height, chart.width = "Agreement with the segments of all questions", 9, 18
    chart.add_data(Reference(sheet, min_col=2, max_col=4, min_row=1, max_row=last), titles_from_data=True)
    chart.set_categories(Reference(sheet, min_col=1, min_row=2, max_row=last))
    chart.x_axis.title, chart.y_axis.title = "Questions", "Agreement"
    chart.y_axis.scaling.min, chart.y_axis.scaling.max, chart.y_axis.number_format = 0, 1, "0%"
    chart.x_axis.delete = chart.y_axis.delete = False
    for series in chart.series:
        series.smooth = False
    for series in chart.series[1:]:
        series.graphicalProperties.line.dashStyle = "dash"
    sheet.add_chart(chart, "G2")
    sheet.freeze_panes = "A2"


def _write_help(sheet: Any, tool: TypingTool, about: str) -> None:
    n, agreement = len(tool.items), tool.agreement
    lines = [
        f"A typing tool: {n} questions that recover {len(tool.segment_names)} segments",
        "",
        "On respondents who were held out, the tool gives the segment of the full model, which knows all questions, in "
        f"{agreement['agreement']:.1%} of the cases (90 % interval {agreement['low']:.1%} to {agreement['high']:.1%}). "
        f"A tool with all questions would agree in {tool.agreement_of_all:.1%}. It was made from "
        f"{tool.respondents:,} respondents; for the measurement, questions and points came from other respondents.",
        "",
        f"{ONE_SHEET}: choose an answer to each question, in the yellow cells. The segment and its probability are "
        "above.",
        f"{MANY_SHEET}: paste the answers of up to {FORMULA_ROWS} respondents into the yellow cells, one row each. For "
        "more, copy the formulas of the last row further down.",
        f"{CURVE_SHEET}: the agreement with fewer or more questions.",
        f"{POINTS_SHEET}: the points that every answer adds for every segment.",
        "",
        "The points of the answers are added, for each segment. The segment is the one with the most points; on a tie, "
        f"the first. Its probability is exp(points / {POINTS_PER_LOGIT}), divided by the sum of the same over all "
        "segments.",
        "An answer counts if it is written as in the list, with the same capitals. Empty and other cells add nothing, "
        "and other cells are marked in red for one respondent; without any answer that counts there is no segment.",
        *(["", about] if about else []),
    ]
    for row, line in enumerate(lines, start=1):
        fill(sheet.cell(row, 1), line)
        sheet.cell(row, 1).alignment = Alignment(wrap_text=True, vertical="top")
    sheet["A1"].font = Font(name="Calibri", size=14, bold=True)
    sheet.column_dimensions["A"].width = 100


def _probability(points: str, total: str, answered: str) -> str:
    scaled = f"EXP(({{}}-MAX({total}))/{POINTS_PER_LOGIT})"
    return f'IF({answered}=0,"",{scaled.format(points)}/SUMPRODUCT({scaled.format(total)}))'


def _best(names: str, total: str, answered: str) -> str:
    return f'IF({answered}=0,"",INDEX({names},MATCH(MAX({total}),{total},0)))'


def _list(sheet: Any, place: _Answers, cells: str) -> None:
    """Let the answers in some cells be chosen from a list."""
    choice = DataValidation("list", formula1=f"={place.column('B')}", allow_blank=True, errorStyle="warning")
    choice.error, choice.showErrorMessage = "This is not one of the answers, and will not count.", True
    choice.add(cells)
    sheet.add_data_validation(choice)


def _header(sheet: Any, row: int, names: Sequence[str], widths: Sequence[int]) -> None:
    _row(sheet, row, names, bold=True)
    sheet.row_dimensions[row].height = 48  # three lines
    for column in range(1, len(names) + 1):
        sheet.cell(row, column).alignment = Alignment(wrap_text=True, vertical="top")
        sheet.column_dimensions[get_column_letter(column)].width = widths[min(column, len(widths)) - 1]


def _row(sheet: Any, row: int, values: Sequence[Any], *, bold: bool = False) -> None:
    for column, value in enumerate(values, start=1):
        fill(sheet.cell(row, column), value)
        if bold:
            sheet.cell(row, column).font = Font(name="Calibri", size=11, bold=True)

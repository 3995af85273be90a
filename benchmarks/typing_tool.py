"""How many questions recover the segments of a questionnaire, and whether workbook, SQL and Python agree.

    python benchmarks/typing_tool.py curve FOLDER     # agreement with the full segments by number of questions
    python benchmarks/typing_tool.py rules FOLDER     # the same for other ways to choose the questions
    python benchmarks/typing_tool.py equal FOLDER     # answers of workbook (LibreOffice), SQL (SQLite) and Python
    python benchmarks/typing_tool.py summary

NHANES ships with deepsep. FOLDER has the others: `big5_segments.parquet` (20 items on a scale of five),
`cces2016_ideology.parquet` (12 questions on faith, race and origin) and `kaggle2021_segments.parquet` (questions that
take several answers). Five segments each, by `SurveySegments(random_state=0)`. `rules` and `curve` choose the questions
and make the points without the respondents on whom they are measured.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import math
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from openpyxl import load_workbook
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from deepsep import SurveySegments
from deepsep.apps.typing import ask_items, make_typing_tool, typing_sql, write_typing_workbook
from deepsep.apps.typing.typing_tool import encode_items, items_of
from deepsep.datasets import load_nhanes
from deepsep.table.excel_cells import fill

RESULTS = Path(__file__).parent / "results"
RULES = (4, 8, 12)  # numbers of questions
DRAWS = 5  # random choices
PASTED = 500  # respondents in the workbook
warnings.simplefilter("ignore")


# -- questionnaires ------------------------------------------------------------------------------------------


def big5(folder):
    table = pd.read_parquet(folder / "big5_segments.parquet")
    table = table[[name for name in table if re.fullmatch(r"f_[EN]\d+", name)]]
    return table.where(table > 0).rename(columns=lambda name: name[2:])  # 0 means no answer


def cces(folder):
    names = (
        "female collegeed racef famincr bornagain religimp churchatd prayerfreq angryracism whiteadv fearraces racerare"
    )
    return pd.read_parquet(folder / "cces2016_ideology.parquet")[names.split()]


def kaggle(folder):
    """Ticked boxes become the answers in one cell, as a questionnaire would have them."""
    table = pd.read_parquet(folder / "kaggle2021_segments.parquet")
    parts = {name: re.fullmatch(r"f_(Q\d+(?:_[AB])?)_(?:Part_)?(\d+|OTHER)", name) for name in table}
    questions = {}
    for name, part in parts.items():
        if part:
            questions.setdefault(part[1], []).append((name, part[2]))
    answers = {}
    for question, boxes in questions.items():
        ticked = table[[name for name, _ in boxes]].to_numpy() > 0
        words = np.array([f"option {word}" for _, word in boxes], dtype=object)
        answers[question] = [";".join(words[row]) or None for row in ticked]
    return pd.DataFrame(answers)


QUESTIONNAIRES = {"NHANES": lambda folder: load_nhanes().answers, "Big Five": big5, "CCES": cces, "Kaggle": kaggle}


def segments(name, folder):
    answers = QUESTIONNAIRES[name](folder).reset_index(drop=True)
    separator = ";" if name == "Kaggle" else None
    return answers, SurveySegments(n_segments=5, separator=separator, random_state=0).fit(answers)


# -- parts ---------------------------------------------------------------------------------------------------


def curve(folder):
    lines = []
    for name in QUESTIONNAIRES:
        _, model = segments(name, folder)
        began = time.perf_counter()
        tool = make_typing_tool(model)
        seconds = time.perf_counter() - began
        about = {
            "questionnaire": name,
            "respondents": tool.respondents,
            "items": len(items_of(model.questions_)),
            "all": f"{100 * tool.agreement_of_all:.1f}",
            "suggested": tool.suggested,
            "seconds": f"{seconds:.0f}",
        }
        for m, line in tool.curve.iterrows():
            figures = {key: f"{100 * line[key]:.1f}" for key in ("agreement", "low", "high")}
            lines.append({**about, "questions": m, **figures, "added": line["question"]})
        print(name, f"{seconds:.0f} s", flush=True)
    pd.DataFrame(lines).to_csv(RESULTS / "typing.csv", index=False)


def rules(folder):
    """Single logistic regressions without rounding, on questions by mutual information one by one, or at random."""
    lines = []
    for name in QUESTIONNAIRES:
        _, model = segments(name, folder)
        items = items_of(model.questions_)
        X = encode_items(model.answers_of_respondents(), model.questions_).toarray()
        keep = model.labels_ >= 0
        X, y = X[keep], model.labels_[keep]
        ends = np.cumsum([len(item.answers) for item in items])
        columns = [np.arange(end - len(item.answers), end) for item, end in zip(items, ends, strict=True)]
        right = {}
        for f, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)):
            codes = np.column_stack([X[train][:, at] @ np.arange(1, len(at) + 1) for at in columns])
            told = mutual_info_classif(codes, y[train], discrete_features=True)
            orders = {"one by one": [np.argsort(-told)]}
            orders["at random"] = [np.random.default_rng([f, i]).permutation(len(items)) for i in range(DRAWS)]
            for rule, tried in orders.items():
                for order in tried:
                    for m in RULES:
                        at = np.concatenate([columns[i] for i in order[:m]])
                        fit = LogisticRegression(max_iter=300).fit(X[train][:, at], y[train])
                        hit = fit.predict(X[test][:, at]) == y[test]
                        right.setdefault((rule, m), []).append(hit.mean())
        for (rule, m), shares in right.items():
            lines.append(
                {"questionnaire": name, "rule": rule, "questions": m, "agreement": f"{100 * np.mean(shares):.1f}"}
            )
        print(name, flush=True)
    pd.DataFrame(lines).to_csv(RESULTS / "typing_rules.csv", index=False)


def equal(folder):
    lines = []
    for name in QUESTIONNAIRES:
        answers, model = segments(name, folder)
        tool = make_typing_tool(model, 8)
        asked = ask_items(answers, tool.items, model.questions_)
        python = tool.assign(asked)
        sql, book = of_database(tool, asked), of_libreoffice(tool, asked[:PASTED])
        lines.append(
            {
                "questionnaire": name,
                "sql_rows": len(sql),
                "sql_other_segments": differences(sql["segment"], python["segment"]),
                "sql_other_digits": digits(sql.filter(like="probability_"), python),
                "workbook_rows": len(book),
                "workbook_other_segments": differences(book["segment"], python["segment"][:PASTED]),
                "workbook_other_digits": digits(book.filter(like="probability_"), python[:PASTED]),
            }
        )
        print(lines[-1], flush=True)
    pd.DataFrame(lines).to_csv(RESULTS / "typing_equal.csv", index=False)


def differences(one, other):
    return int((one.fillna("").to_numpy() != other.fillna("").to_numpy()).sum())


def digits(one, python):
    """How many probabilities differ in the digits that the workbook shows."""
    other = python[[name for name in python if name.startswith("probability_")]]
    shown = [np.vectorize(lambda p: f"{p:.1%}")(np.asarray(each, float)) for each in (one, other)]
    return int((shown[0] != shown[1]).sum())


def of_database(tool, asked):
    with sqlite3.connect(":memory:") as database:
        database.create_function("exp", 1, math.exp)
        asked.to_sql("answers", database, index=False)
        return pd.read_sql(typing_sql(tool), database)


def of_libreoffice(tool, asked):
    n, k = len(tool.items), len(tool.segment_names)
    with tempfile.TemporaryDirectory() as place:
        file, out = Path(place, "typing.xlsx"), Path(place, "out")
        write_typing_workbook(tool, file)
        book = load_workbook(file)
        for i, row in enumerate(asked.itertuples(index=False), start=2):
            for j, value in enumerate(row, start=2):
                fill(book["Many respondents"].cell(i, j), value)
        book.save(file)
        office = shutil.which("soffice") or "libreoffice"
        profile = f"-env:UserInstallation={Path(place, 'profile').as_uri()}"
        command = [office, profile, "--headless", "--convert-to", "xlsx", "--outdir", out, file]
        subprocess.run(command, check=True, capture_output=True)
        sheet = load_workbook(out / file.name, data_only=True)["Many respondents"]
        cells = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=2, max_row=len(asked) + 1)]
    table = pd.DataFrame({"segment": [row[n + 1] or None for row in cells]})
    for j in range(k):
        table[f"probability_{j + 1}"] = [
            row[n + 4 + j] if row[n + 4 + j] not in ("", None) else np.nan for row in cells
        ]
    return table


def summary():
    frame = pd.read_csv(RESULTS / "typing.csv")
    print(frame.pivot(index="questions", columns="questionnaire", values="agreement").to_string())
    print(pd.read_csv(RESULTS / "typing_rules.csv").to_string())
    print(pd.read_csv(RESULTS / "typing_equal.csv").to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["curve", "rules", "equal", "summary"])
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    summary() if given.part == "summary" else globals()[given.part](given.folder)

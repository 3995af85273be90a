"""The file of answers: whole after each of them, whatever happens, and never short of an earlier label."""

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsep.apps.label.answer_file import Answer, Answers
from deepsep.errors import DataError
from deepsep.table import add_labels, join_labels, read_table

posix = pytest.mark.skipif(os.name == "nt", reason="needs fork and POSIX signals")


def read(file: Path) -> dict[str, Answer]:
    return Answers(file, "id", "segment").given


def test_answers_come_back_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "labels.csv"
    answers = Answers(file, "id", "segment")
    given = {
        "007": Answer("gold", "random"),
        "7": Answer(None, "chosen"),
        'a "b", c\nd': Answer("NA", "chosen"),
        "é": Answer("1", "random"),
    }
    for id, answer in given.items():
        answers.give(id, answer)
    assert list(read(file).items()) == list(given.items())
    answers.give("7", Answer("blue", "chosen"))  # a later answer is the last one
    answers.give("é", None)
    assert list(read(file)) == ["007", 'a "b", c\nd', "7"]
    for id in list(answers.given):
        answers.give(id, None)
    assert read(file) == {}
    assert [path.name for path in file.parent.iterdir()] == ["labels.csv"]


TEXT = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=8).map(str.strip).filter(bool)


@settings(max_examples=30)
@given(
    given=st.dictionaries(
        TEXT
        | st.sampled_from(
            ["NA", "nan", "None", "1e5", "1.0", "01", "true", "2025-01-01", "#x", "'", '"', ";", "a,b;c\td"]
        ),
        st.tuples(
            TEXT | st.sampled_from(["NA", "nan", "null", "1", "2", "01"]), st.sampled_from(["random", "chosen", None])
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_identifier_and_class_comes_back(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, tuple[str, Any]]
) -> None:
    file = tmp_path_factory.mktemp("any") / "labels.csv"
    answers = Answers(file, "id", "segment")
    for id, answer in given.items():
        answers.give(id, Answer(*answer))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(file) == given


@pytest.mark.parametrize("labels", [["gold", None, None], [None, None, None]])
def test_the_file_goes_to_a_fit(tmp_path: Path, labels: list[str | None]) -> None:
    table = pd.DataFrame({"id": ["01", "02", "03"], "segment": pd.Series(labels, dtype=object)})
    file = tmp_path / "labels.csv"
    answers = Answers(file, "id", "segment")
    answers.give("02", Answer("NA", "random"))
    answers.give("03", Answer(None, "random"))
    known = read_table(file, label="segment", id="id")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that the table does not have
        frame, summary = add_labels(table, known, on="id", label="segment")
    assert frame["segment"].fillna("").tolist() == [labels[0] or "", "NA", ""]
    assert summary["new"] == 1
    joined, _ = join_labels(table[["id"]], known, on="id", label="segment")
    assert joined["segment"].fillna("").tolist() == ["", "NA", ""]


def test_an_earlier_file_is_continued_as_people_save_it(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("id;segment\nköln;gold\nelsewhere;blue\nopen;\n", encoding="cp1252")
    file.chmod(0o640)
    with pytest.warns(UserWarning, match="UTF-8"):
        answers = Answers(file, "id", "segment")
    answers.give("open", Answer("gold", "random"))
    assert read(file) == {
        "köln": Answer("gold", None),
        "elsewhere": Answer("blue", None),
        "open": Answer("gold", "random"),
    }
    if os.name != "nt":
        assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,segment,labels_drawn\n1,gold,hard\n", "column 'labels_drawn': row 1 has 'hard'"),
        ("id,segment,model_guess\n1,gold,gold\n", "is another file: it has 'model_guess'"),
        ("id,segments\n1,gold\n", "did you mean 'segments'"),
        ("id,segment\n1,gold\n1,blue\n", "two answers for id '1'"),
        ("id,segment\n,gold\n1,blue\n", "a label has no 'id'"),
    ],
)
def test_another_file_is_refused_and_stays(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        Answers(file, "id", "segment")
    assert file.read_text() == text


def test_names_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must end in \.csv"):
        Answers(tmp_path / "labels.xlsx", "id", "segment")
    with pytest.raises(DataError, match=r"'answer' of .* two meanings"):
        Answers(tmp_path / "labels.csv", "id", "answer")


def test_what_cannot_be_written_was_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "labels.csv"
    answers = Answers(file, "id", "segment")
    answers.give("1", Answer("gold", "random"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            answers.give("2", Answer("gold", "random"))
    assert answers.given == read(file) == {"1": Answer("gold", "random")}
    assert list(tmp_path.iterdir()) == [file]
    answers.give("2", Answer("gold", "random"))
    assert list(read(file)) == ["1", "2"]


def test_what_another_program_wrote_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    one, other = Answers(file, "id", "segment"), Answers(file, "id", "segment")
    one.give("1", Answer("gold", "random"))
    with pytest.raises(DataError, match="changed by another program"):
        other.give("2", Answer("blue", "random"))
    assert list(read(file)) == ["1"]
    one.give("3", Answer("gold", "random"))


STEPS = ("open", "write", "fsync", "stat", "chmod", "replace", "close")  # of the system, as os names them


def die_at(step: int, file: Path) -> None:
    """Give a second answer, and be killed at a call of the system."""
    answers, calls = Answers(file, "id", "segment"), 0

    def counted(function):  # type: ignore[no-untyped-def]
        def call(*given, **settings):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **settings)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    answers.give("2", Answer("blue", "random"))


@pytest.mark.infra
@posix
def test_killed_at_any_call_of_the_system(tmp_path: Path) -> None:
    file, outcomes = tmp_path / "labels.csv", []
    before = {"1": Answer("gold", "random")}
    after = before | {"2": Answer("blue", "random")}
    for step in range(1, 100):
        file.unlink(missing_ok=True)
        Answers(file, "id", "segment").give("1", before["1"])
        child = os.fork()
        if not child:
            try:
                die_at(step, file)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        outcomes.append(read(file))
        assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]  # reading removes what was left
        if not os.WIFSIGNALED(status):
            break
    assert step > 6
    assert outcomes[0] == before
    assert outcomes[-1] == after
    assert [outcome for outcome in outcomes if outcome not in (before, after)] == []
    assert outcomes == sorted(outcomes, key=len)

"""A labelling session: which row comes next, undo, skip and search, and the refits behind it."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_page import new_session, small_table

from deepsep.apps.label.answer_file import Answers
from deepsep.apps.label.refit import MAX_FAILURES, Background, Job, Refit, refit
from deepsep.errors import DataError, ParameterError
from deepsep.scoring import rows_to_label

PATIENCE = 600  # seconds: nothing waits so long but on a machine that is far too busy


class AtOnce:
    """Refits that are done when they start, and remember what they were given."""

    running, error = False, ""

    def __init__(self, choose: Any = None) -> None:
        self.jobs: list[Job] = []
        self.choose = choose or (lambda job: np.flatnonzero(job.free)[: job.n].tolist())
        self._result: Refit | None = None

    def start(self, job: Job) -> bool:
        self.jobs.append(job)
        self._result = Refit(self.choose(job), (0.8, 0.7, 0.9), ["spent"])
        return True

    def take(self) -> Refit | None:
        result, self._result = self._result, None
        return result


def label_all(session: Any, truth: pd.Series, n: int) -> list[int]:
    """Answer n rows as they come, and return them."""
    rows = []
    for _ in range(n):
        rows.append(session.state()["card"]["row"])
        session.answer(rows[-1], truth[rows[-1]])
    return rows


def test_rows_come_at_random_and_each_once(tmp_path: Path) -> None:
    X, ids, truth = small_table()
    session = new_session(tmp_path / "a.csv", X, ids)
    rows = label_all(session, truth, len(X))
    assert sorted(rows) == list(range(len(X)))
    assert rows != sorted(rows)
    assert session.state()["card"] is None
    same, other = (new_session(tmp_path / f"{seed}.csv", X, ids, seed=seed) for seed in (0, 1))
    assert label_all(same, truth, 20) == rows[:20]
    assert label_all(other, truth, 20) != rows[:20]


def test_labels_of_the_table_count_and_are_not_asked_for(tmp_path: Path) -> None:
    X, ids, truth = small_table()
    y = truth.where(truth.index < 40)
    session = new_session(tmp_path / "a.csv", X, ids, y, classes=())
    state = session.state()
    assert state["labelled"] == 40
    assert {each["name"]: each["count"] for each in state["classes"]} == dict(y.value_counts())
    assert sorted(label_all(session, truth, 20)) == list(range(40, 60))
    with pytest.raises(ParameterError, match="the table has the label"):
        session.answer(0, "gold")


def test_a_class_that_is_a_number_is_one_class(tmp_path: Path) -> None:
    X, ids, _ = small_table(4)
    session = new_session(tmp_path / "a.csv", X, ids, pd.Series([1, None, 2.0, -1], dtype="Int64"), classes=["1"])
    assert [(each["name"], each["count"]) for each in session.state()["classes"]] == [("1", 1), ("2", 1)]


def test_three_of_four_rows_are_chosen_by_the_model_and_the_others_measure_it(tmp_path: Path) -> None:
    X, ids, truth = small_table(200)
    refits = AtOnce()
    session = new_session(tmp_path / "a.csv", X, ids, refits=refits)
    label_all(session, truth, 20)
    assert len(refits.jobs) == 1
    first = [drawn for drawn, label in zip(refits.jobs[0].labels_drawn, refits.jobs[0].labels, strict=True) if label]
    assert first == ["random"] * 20
    wanted = refits.choose(refits.jobs[0])
    assert [row for row in label_all(session, truth, 8) if row in wanted] == wanted[:6]
    label_all(session, truth, 2)
    job = refits.jobs[1]
    labeled, drawn = np.array([label is not None for label in job.labels]), np.array(job.labels_drawn)
    assert labeled.sum() == 30
    assert (labeled & (drawn == "chosen")).sum() == 7  # 20 and then every fourth are drawn at random
    assert (labeled & (drawn == "random")).sum() == 23
    assert not (labeled & job.free).any()
    assert session.progress()["curve"][-1] == {"labels": 30, "value": 0.8, "low": 0.7, "high": 0.9}
    assert session.state()["card"]["cells"][0]["name"] == "spent"  # what the model finds important comes first
    again = new_session(tmp_path / "a.csv", X, ids, refits=AtOnce()).refits.jobs[0].labels_drawn
    assert again == job.labels_drawn  # a restart knows which rows were drawn at random


def test_a_refit_is_told_how_the_labels_of_the_table_were_drawn(tmp_path: Path) -> None:
    X, ids, truth = small_table(60)
    y, refits = truth.where(truth.index < 40), AtOnce()
    drawn = np.array(["quota"] * 30 + [None] * 30, object)
    new_session(tmp_path / "a.csv", X, ids, y, refits=refits, labels_drawn=drawn)
    assert refits.jobs[0].labels_drawn == drawn.tolist()


def test_of_a_large_table_some_rows_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepsep.apps.label.session.MAX_CONSIDERED_ROWS", 50)
    X, ids, truth = small_table(300)
    refits = AtOnce(lambda job: [int(np.flatnonzero(job.free)[-1])])
    session = new_session(tmp_path / "a.csv", X, ids, refits=refits)
    label_all(session, truth, 20)
    assert len(refits.jobs[0].X) == 70
    chosen = session.answer(session.state()["card"]["row"], None)["card"]["row"]
    assert X.iloc[chosen].tolist() == refits.jobs[0].X.iloc[refits.choose(refits.jobs[0])[0]].tolist()


def test_not_sure_is_not_asked_again_and_skipped_rows_come_last(tmp_path: Path) -> None:
    X, ids, truth = small_table(10)
    session = new_session(tmp_path / "a.csv", X, ids)
    unsure = session.state()["card"]["row"]
    skipped = session.answer(unsure, None)["card"]["row"]
    session.skip(skipped)
    rows = label_all(session, truth, 9)
    assert rows[-1] == skipped
    assert session.answers.given[ids[skipped]].drawn == "random"
    assert unsure not in rows
    again = new_session(tmp_path / "a.csv", X, ids)
    assert again.state()["unsure"] == 1
    assert again.state()["card"] is None


def test_a_chosen_row_that_was_skipped_comes_back_as_a_chosen_one(tmp_path: Path) -> None:
    X, ids, truth = small_table(24)
    session = new_session(tmp_path / "a.csv", X, ids, refits=AtOnce())
    label_all(session, truth, 21)  # the row after the 20th is drawn, the next one is chosen by the model
    chosen = session.state()["card"]["row"]
    found = session.show(next(row for row in range(24) if row != chosen and ids[row] not in session.answers.given))
    session.skip(found["card"]["row"])  # a row that somebody searched for is no random one either
    session.skip(chosen)
    session.undo()
    session.skip(chosen)
    rows = label_all(session, truth, 3)[1:]
    assert sorted(rows) == sorted([chosen, found["card"]["row"]])
    assert [session.answers.given[ids[row]].drawn for row in rows] == ["chosen", "chosen"]


@settings(max_examples=30)
@given(steps=st.lists(st.sampled_from(["gold", "blue", None, "skip", "undo", "show", "restart"]), max_size=25))
def test_every_undo_returns_to_the_state_before(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    X, ids, _ = small_table(6)
    file = tmp_path_factory.mktemp("undo") / "labels.csv"
    session = new_session(file, X, ids)
    before: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        card, was = session.state()["card"], dict(session.answers.given)
        if step == "restart":
            session, before = new_session(file, X, ids), [*[None] * len(was)]
        elif step == "show":
            assert session.show(number % 6)["card"]["row"] == number % 6
        elif step == "undo":
            if not session.state()["undo"]:
                assert not before
                with pytest.raises(ParameterError, match="nothing to undo"):
                    session.undo()
                continue
            session.undo()
            expected = before.pop()
            assert expected is None or session.answers.given == expected
            assert expected is not None or len(session.answers.given) == len(was) - 1
        elif card is not None:
            session.skip(card["row"]) if step == "skip" else session.answer(card["row"], step)
            before.append(was)
            if step != "skip":
                assert session.answers.given[card["id"]].label == step
        assert Answers(file, "customer", "segment").given == session.answers.given


def test_an_answer_can_be_changed_by_a_search(tmp_path: Path) -> None:
    X, ids, _ = small_table()
    X["note"] = ["A long STORY about (a) tiger" if i == 7 else None for i in range(len(X))]
    session = new_session(tmp_path / "a.csv", X, ids)
    (hit,) = session.search("story tig")
    assert (hit["row"], hit["id"], hit["answer"]) == (7, "c0007", None)
    assert "note: A long STORY" in hit["where"]
    assert [each["row"] for each in session.search("C0012")] == [12]
    assert len(session.search("c00")) == 20
    assert session.search("(a) lion") == session.search("  ") == []
    session.show(7)
    session.answer(7, "gold")
    assert session.search("tiger")[0]["answer"] == "gold"
    session.answer(session.show(7)["card"]["row"], "blue")
    assert session.answers.given["c0007"] == ("blue", "chosen")
    session.undo()
    assert session.answers.given["c0007"] == ("gold", "chosen")


def test_classes_are_checked(tmp_path: Path) -> None:
    X, ids, _ = small_table(4)
    session = new_session(tmp_path / "a.csv", X, ids, classes=())
    with pytest.raises(ParameterError, match="no class 'gold'"):
        session.answer(0, "gold")
    session.add_class(" gold ")
    session.answer(0, "gold")
    for bad in ("", " ", "-1", "a\nb", "x" * 101):
        with pytest.raises(ParameterError, match="cannot be the name"):
            session.add_class(bad)
    with pytest.raises(ParameterError, match="already"):
        session.add_class("gold")
    with pytest.raises(ParameterError, match="no row 4"):
        session.answer(4, "gold")


@pytest.mark.parametrize(
    ("ids", "message"), [([1, 2, 2], "repeats an identifier in 1 rows.*row 3"), ([1, None, 2], "empty")]
)
def test_identifiers_tell_rows_apart(tmp_path: Path, ids: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        new_session(tmp_path / "a.csv", pd.DataFrame({"x": [1, 2, 3]}), pd.Series(ids, name="id", dtype="Int64"))


def test_identifiers_of_any_type_are_found_again(tmp_path: Path) -> None:
    for number, values in enumerate(([" a", "b "], [1.0, 2.0], [10**17 + 1, 10**17 + 2], ["007", "8"], [0.5, 1.5])):
        X, ids = pd.DataFrame({"x": [1, 2]}), pd.Series(values, name="customer")
        new_session(tmp_path / f"{number}.csv", X, ids).answer(1, "blue")
        again = new_session(tmp_path / f"{number}.csv", X, ids)
        assert again.state()["labelled"] == 1
        assert again.state()["card"]["row"] == 0
        assert again.undo()["card"]["row"] == 1


# -- refits ------------------------------------------------------------------------------------------------------


def some_job(n: int = 120, n_labels: int = 40) -> Job:
    X, _, truth = small_table(n)
    labels = [truth[i] if i < n_labels else None for i in range(n)]
    drawn = ["random" if i < 30 else "chosen" for i in range(n)]
    return Job(X, labels, drawn, np.arange(n) >= n_labels + 5, 6, "segment", 0)


def test_a_refit_chooses_free_rows_as_next_does() -> None:
    job = some_job()
    result = refit(job)
    assert len(set(result.rows)) == 6
    assert job.free[result.rows].all()
    assert result.columns == ["spent", "noise"]
    assert result.accuracy is not None
    value, low, high = result.accuracy
    assert 0 <= low <= value <= high <= 1
    from deepsep import Committee, for_table
    from deepsep.apps.label.refit import REFIT_MEMBERS

    committee = Committee(members=REFIT_MEMBERS, effort="fast", student=False, n_jobs=1, random_state=0)
    model = for_table(committee).fit(job.X, np.array(job.labels, object), committee__labels_drawn=job.labels_drawn)
    wanted = rows_to_label(model, job.X, 6, label="segment", known=np.flatnonzero(~job.free), random_every=None)
    assert wanted["row"].tolist() == result.rows
    expected = model[-1].expected_accuracy_
    assert result.accuracy == (expected.value, expected.low, expected.high)


def test_an_accuracy_needs_rows_drawn_at_random() -> None:
    job = some_job()
    assert refit(job._replace(labels_drawn=["chosen"] * len(job.X))).accuracy is None
    result = refit(job._replace(free=np.zeros(len(job.X), bool)))
    assert result.rows == []


def wait_for(background: Background) -> Refit | None:
    until = time.monotonic() + PATIENCE
    while background.running:
        assert time.monotonic() < until
        result = background.take()
        if result is not None:
            return result
        time.sleep(0.02)
    return None


@pytest.mark.slow
def test_a_refit_in_the_background_gives_the_same_and_survives_failures() -> None:
    job, background = some_job(60, 20), Background()
    wanted = refit(job)
    try:
        assert background.start(job)
        assert not background.start(job)  # one at a time
        assert wait_for(background) == wanted
        assert background.start(job._replace(labels=["gold", *[None] * 59]))  # one class
        assert wait_for(background) is None
        assert background.error
        if os.name != "nt":
            assert background.start(job)
            os.kill(background.process, signal.SIGKILL)  # as for want of memory
            assert wait_for(background) is None
            assert "ended" in background.error
        assert background.start(job)
        assert wait_for(background) == wanted
        assert background.error == ""
        for _ in range(MAX_FAILURES):
            assert background.start(job._replace(labels=[None] * 60))
            assert wait_for(background) is None
        assert not background.start(job)
    finally:
        background.stop()

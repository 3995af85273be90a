"""How labels were drawn: a word for all, columns of tables and of files, and what later commands make of it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep.apps.label.answer_file import Answer, Answers
from deepsep.errors import DataError, ParameterError
from deepsep.table import add_labels, join_labels, read_table
from deepsep.table.join import word_or_column

MEMBERS = ("--set", "members=['logistic-regression']", "--effort", "fast")
QUICK = (*MEMBERS, "--set", "student=False", "--set", "learning_curve=False", "--no-report", "--drop", "weight")


def fit(people: Path, *more: object, to: str = "m") -> Path:
    folder = people.parent / to
    options = ("--id", "customer", "--label", "segment", *QUICK, *more)
    result = run("fit", people, *options, "-o", folder)
    assert result.exit_code == 0, result.output
    return folder


def drawn_in(folder: Path) -> dict[str, object]:
    """Return the origins in labels_used.csv, by identifier."""
    labels = read_table(folder / "labels_used.csv", label="segment", id="customer")
    assert list(labels) == ["customer", "segment", "labels_drawn"]
    words = labels["labels_drawn"].astype(object)
    return dict(zip(labels["customer"], words.where(words.notna(), None), strict=True))


def check(*arguments: object) -> dict:
    result = run("check", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["labels"]["drawn"]


# -- words and columns ---------------------------------------------------------------------------------------------


def test_a_word_is_for_all_labels(people: Path) -> None:
    folder = fit(people, "--labels-drawn", "Quota")
    assert set(drawn_in(folder).values()) == {"quota"}
    origins = deepsep.load(folder)[-1].label_origins_
    assert (origins.counts, origins.given, origins.basis) == ((0, 30, 0), True, "quota")


def test_without_a_word_it_stays_a_guess(people: Path) -> None:
    folder = fit(people)
    assert set(drawn_in(folder).values()) == {None}
    assert not deepsep.load(folder)[-1].label_origins_.given
    again = fit(people, "--labels", folder / "labels_used.csv", to="again")
    assert not deepsep.load(again)[-1].label_origins_.given


@pytest.mark.parametrize("name", ["how", "labels_drawn"])
def test_a_column_of_the_table(people: Path, name: str) -> None:
    frame = pd.read_csv(people)
    frame[name] = np.where(np.arange(200) < 20, "random", np.where(np.arange(200) < 29, "chosen", ""))
    frame.loc[150, name] = "to do"  # of a row without a label
    frame.to_csv(people, index=False)
    folder = fit(people, *(["--labels-drawn", name] if name == "how" else []))
    model = deepsep.load(folder)
    assert name not in model[0].feature_names_in_
    assert list(drawn_in(folder).values()) == ["random"] * 20 + ["chosen"] * 9 + [None]
    assert model[-1].label_origins_.counts == (21, 0, 9)
    frame.loc[7, name] = "hard"
    frame.to_csv(people, index=False)
    result = run("check", people, "--label", "segment", "--labels-drawn", name)
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert f"people.csv: column {name!r}: row 8 has 'hard', which is not an origin of labels. Write 'random'" in said


def test_of_a_large_table_the_rows_that_are_read_keep_their_origins(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["how"] = np.where(np.arange(200) % 3 == 0, "random", "chosen")
    frame = frame.sample(frac=1, random_state=0)
    frame.to_csv(people, index=False)
    folder = fit(people, "--labels-drawn", "how", "--unlabelled", 50)
    labeled = frame[frame["segment"].notna()]
    assert drawn_in(folder) == dict(zip(labeled["customer"], labeled["how"], strict=True))
    assert len(deepsep.load(folder)[-1].transduction_) == 80


@pytest.mark.parametrize(
    ("given", "message"),
    [("randm", "did you mean 'random'?"), ("pln", "did you mean 'plan'?"), ("xyzzy", "nor a column of ")],
)
def test_a_word_that_is_neither_names_both_readings(people: Path, given: str, message: str) -> None:
    result = run("check", people, "--label", "segment", "--labels-drawn", given)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2
    assert f"--labels-drawn {given}: this is neither an origin of all labels, which is 'random' (rows drawn" in said
    assert f"nor a column of {people}" in said
    assert message in said
    with pytest.raises(ParameterError, match=f"labels_drawn='{given}': .* nor a column of people"):
        word_or_column(given, ["age", "plan"], "people")


def test_one_column_has_one_meaning(people: Path) -> None:
    result = run("check", people, "--label", "segment", "--labels-drawn", "segment")
    assert "--label and --labels-drawn are both 'segment'" in result.stderr
    result = run("check", people, "--label", "labels_drawn")
    assert "--label labels_drawn: a column of this name says how the labels were drawn" in result.stderr


# -- other tables --------------------------------------------------------------------------------------------------


def test_every_file_of_labels_keeps_its_own_origins(people: Path) -> None:
    frame = pd.read_csv(people)
    one, two, three = (people.parent / f"{n}.csv" for n in (1, 2, 3))
    ids = frame["customer"]
    one.write_text(f"customer,segment,labels_drawn\n{ids[40]},gold,random\n{ids[41]},blue,\n")
    two.write_text(f"customer,segment,how\n{ids[42]},gold,quota\n{ids[0]},{frame['segment'][0]},chosen\n")
    three.write_text(f"customer,segment,labels_drawn\n{ids[43]},gold,random\n{ids[44]},grey,chosen\n")
    files = [part for file in (one, two, three) for part in ("--labels", file)]
    drawn = drawn_in(fit(people, *files, "--labels-drawn", "how"))
    assert [drawn[ids[i]] for i in (40, 41, 42, 0, 43, 44)] == ["random", None, "quota", "chosen", "random", "chosen"]
    assert [drawn[ids[i]] for i in range(1, 30)] == [None] * 29
    drawn = drawn_in(fit(people, "--labels", one, "--labels", three, "--labels-drawn", "quota"))
    assert [drawn[ids[i]] for i in (0, 40, 41, 43, 44)] == ["quota", "random", "quota", "random", "chosen"]


def test_labels_of_another_table_alone(people: Path) -> None:
    frame = pd.read_csv(people)
    labels = frame.loc[frame["segment"].notna(), ["customer", "segment"]].assign(how="random")
    labels.to_csv(people.parent / "labels.csv", index=False)
    bare = people.with_name("bare.csv")
    frame.drop(columns="segment").to_csv(bare, index=False)
    options = ("--labels", people.parent / "labels.csv", "--on", "customer")
    assert check(bare, *options, "--labels-drawn", "how")["random"] == 30
    assert check(bare, *options, "--labels-drawn", "chosen")["chosen"] == 30
    labels.rename(columns={"how": "labels_drawn", "segment": "kind"}).to_csv(people.parent / "labels.csv", index=False)
    assert check(bare, *options)["given"]  # the only other column is that of the labels


def test_joined_and_added_labels_carry_their_origins() -> None:
    people = pd.DataFrame({"user": [1, 2, 3, 4]})
    first = pd.DataFrame({"user": [1, 2], "segment": ["young", "old"], "labels_drawn": ["random", None]})
    frame, _ = join_labels(people, first, on="user")
    assert frame["labels_drawn"].tolist() == ["random", None, None, None]
    second = pd.DataFrame({"user": [1, 2, 3], "segment": ["old", "old", "old"], "labels_drawn": "chosen"})
    for prefer, wanted in (("old", ["random", "chosen", "chosen", None]), ("new", ["chosen"] * 3 + [None])):
        added, _ = add_labels(frame, second, on="user", label="segment", prefer=prefer)
        assert added["labels_drawn"].tolist() == wanted
    plain = second.drop(columns="labels_drawn")  # of a label that is replaced, the origin is not known any more
    added, _ = add_labels(frame, plain, on="user", label="segment", prefer="new")
    assert added["labels_drawn"].tolist() == [None] * 4
    assert "labels_drawn" not in join_labels(people, plain, on="user")[0]
    with pytest.raises(DataError, match="labels: column 'labels_drawn': row 2 has 'hard'"):
        join_labels(people, first.assign(labels_drawn=["random", "hard"]), on="user")


# -- next, and rounds of labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_rounds_of_labels_keep_their_origins(people: Path, kind: str) -> None:
    folder, file = fit(people, "--labels-drawn", "random"), people.parent / f"to_label.{kind}"
    first = deepsep.load(folder)[-1]
    result = run("next", folder, people, "-n", 20, "-o", file)
    assert result.exit_code == 0, result.output
    assert "2 of the rows are drawn at random, one in ten" in result.stdout
    assert f"--labels {folder / 'labels_used.csv'} --labels {file}" in result.stdout  # it has the word that was given
    offered = read_table(file, label="segment", id="customer").assign(segment="gold")
    assert offered["labels_drawn"].tolist() == (["chosen"] * 9 + ["random"]) * 2
    write = offered.to_csv if kind == "csv" else offered.to_excel
    write(file, index=False)
    again = fit(people, "--labels", folder / "labels_used.csv", "--labels", file, to="again")
    wanted = drawn_in(folder) | dict(zip(offered["customer"], offered["labels_drawn"], strict=True))
    assert drawn_in(again) == wanted
    model = deepsep.load(again)[-1]
    assert (model.label_origins_.counts, model.label_origins_.given) == ((32, 0, 18), True)
    # The stated accuracy rests on the rows drawn at random, those of the first round and two new ones; all are trained
    # on, and predicted out of fold.
    held_out, weight = model.out_of_fold_, model.held_out_weight_
    ids = pd.read_csv(people)["customer"].to_numpy()
    assert {ids[row] for row in held_out.rows[weight > 0]} == {id for id, word in wanted.items() if word == "random"}
    assert set(held_out.rows) == set(np.flatnonzero(model.label_origins_.codes >= 0))
    assert set(first.out_of_fold_.rows) <= set(held_out.rows[weight > 0])


def test_few_rows_have_no_random_one(people: Path) -> None:
    folder = fit(people)
    result = run("next", folder, people, "-n", 9, "-o", people.parent / "r.csv")
    assert "drawn at random" not in result.stdout
    assert "labels_used" not in result.stdout  # nothing in it is known that the table does not have
    content = json.loads(run("next", folder, people, "-n", 10, "-o", people.parent / "r.csv", "--json").stdout)
    assert content["labels_drawn"] == ["chosen"] * 9 + ["random"]


def test_chosen_labels_alone_promise_nothing(people: Path) -> None:
    folder = fit(people, "--labels-drawn", "chosen")
    assert deepsep.load(folder)[-1].expected_accuracy_ is None


# -- check ---------------------------------------------------------------------------------------------------------


def test_check_says_what_was_given_or_guessed(people: Path) -> None:
    def sentence(*more: object) -> str:
        text = " ".join(run("check", people, "--label", "segment", *more).stdout.split())
        return text[text.index("How the labels were drawn") :].split(".")[0]

    assert sentence() == (
        "How the labels were drawn is not said; they are taken for random ones: say it with --labels-drawn"
    )
    assert sentence("--labels-drawn", "random") == "How the labels were drawn: 30 random"
    chosen = "How the labels were drawn: 30 chosen; no accuracy can be stated without labels of rows drawn at random"
    assert sentence("--labels-drawn", "chosen") == chosen
    frame = pd.read_csv(people)
    frame["how"] = np.where(np.arange(200) < 12, "chosen", "")
    even = [name for name in ("gold", "blue", "grey") for _ in range(6)]
    frame.loc[12:29, "segment"] = even
    frame.to_csv(people, index=False)
    assert sentence("--labels-drawn", "how") == (
        "How the labels were drawn: 12 chosen; the other 18 are taken for quotas, as they are spread over the classes "
        "so evenly: say it with --labels-drawn"
    )
    assert check(people, "--label", "segment", "--labels-drawn", "how") | {"sentence": ""} == {
        "given": False,
        "random": 0,
        "quota": 18,
        "chosen": 12,
        "sentence": "",
    }


# -- the labelling page --------------------------------------------------------------------------------------------


def test_answers_of_the_page_go_to_a_fit_with_their_origins(people: Path) -> None:
    answers = Answers(people.parent / "labels.csv", "customer", "segment")
    given = {"c040": Answer("gold", "random"), "c041": Answer("blue", "chosen"), "c042": Answer(None, "random")}
    for id, answer in given.items():
        answers.give(id, answer)
    drawn = drawn_in(fit(people, "--labels", answers.path))
    assert [drawn.get(id, "no label") for id in ("c000", "c040", "c041", "c042")] == [
        None,
        "random",
        "chosen",
        "no label",
    ]


def test_labels_that_are_not_there_were_not_drawn(people: Path) -> None:
    result = run("label", people, "--label", "new", "--labels-drawn", "random", "-o", people.parent / "labels.csv")
    assert result.exit_code == 2
    assert "--labels-drawn is about labels that TABLE or --labels have" in " ".join(result.stderr.split())


# -- the report ----------------------------------------------------------------------------------------------------


def test_the_report_of_any_method_follows_the_word(people: Path) -> None:
    options = ("--id", "customer", "--label", "segment", "--drop", "weight", "--method", "logistic-regression")
    for word, stated in (("chosen", False), ("random", True)):
        assert run("fit", people, *options, "--labels-drawn", word, "-o", people.parent / word).exit_code == 0
        summary = json.loads((people.parent / word / "report.json").read_text(encoding="utf-8"))
        assert (summary["accuracy"] is not None) == stated
        assert ("No accuracy is stated" in " ".join(summary["verdict"])) == (not stated)
    assert summary["accuracy"]["condition"] is None  # it was said, and not guessed

"""Sentences that explain the sheets of a workbook."""

from __future__ import annotations

from typing import Any

Lines = list[tuple[str, Any, str | None]]


def guide(*, weighted: bool, predictions: bool, notes: list[str]) -> Lines:
    """Return an explanation of the workbook, as lines of a page."""
    lines: Lines = [("How to read this workbook", None, None)]
    texts = {
        "Summary": [
            "The verdict rests on labelled rows that were held out: the model predicted them without having seen their "
            "labels. It holds for rows like the labelled ones.",
        ],
        "Segment sizes": [
            "Share of labels: the segment's share among the labelled rows, with Wilson's 90 % interval.",
            "Share of predictions: how often the model predicts the segment. It favours segments that are easy to "
            "predict, and is not an estimate of their size.",
            "Estimated share of all rows: labelled rows are counted; for the others, it is the mean probability of the "
            "segment, plus its mean error on held-out rows. With a good model its 90 % interval is narrower than that "
            "of the labels. Both intervals assume that the labelled rows were drawn at random, or were weighted: if "
            "they fill quotas, pass the known shares as priors.",
        ],
        "Profiles": [
            "Each line is a value of a column, or a statistic of it, among all rows and among those of each segment. "
            "A row belongs to the segment of its label, or to the one that the model predicts.",
            "Index: 100 times the segment's value divided by that of all rows. 100 is average, 150 is half as much "
            "again. It is green from 120 and red up to 80. Indexes of rare values (see Total) and of small segments "
            "vary widely by chance.",
            "Mean, from total: the difference of the means, in standard deviations of the column.",
            "Most of these rows were predicted, from these very columns. So the profiles show the segments as the "
            "model sees them: a column that it relies on separates predicted segments more sharply than true ones, "
            "and where it is wrong, rows are in the wrong segment. The sheet Tests does not have this problem.",
        ],
        "Tests": [
            "Whether segments differ in a column is tested on the labelled rows alone, by their labels: predicted "
            "segments always differ in the columns that they were predicted from.",
            "Categories are tested by Pearson's chi-squared test; levels with fewer than five labelled rows are tested "
            "together, and gaps are a level. Numbers, dates and lengths of texts are tested by the Kruskal-Wallis "
            "test of ranks.",
            "The p-values are corrected for the number of columns by Holm's method: if no column made a difference, "
            "the chance of any “yes” would be at most 5 %. “Not shown” does not mean that there is no "
            "difference; with few labels only large ones show.",
            "Strength is Cramér's V for categories, and epsilon squared for the others: 0 is no difference, 1 is a "
            "complete one. “All rows” is the strength in the profiles, and has the same problem as these.",
        ],
        "Rows to label next": [
            "Rows whose labels should help the model most: uncertain ones that differ from each other. Fill in the "
            "yellow column from the list, look at the columns before the guess, save, and pass this workbook to "
            "deepsep fit as labels.",
            "One row in ten is drawn at random, to measure the accuracy. The column labels_drawn says which; leave "
            "it as it is.",
        ],
        "Labels to check": [
            "Labels that predictions of held-out rows contradict, the most doubtful first. A line is a reason to look "
            "at the row again, not proof.",
        ],
    }
    if predictions:
        texts["Predictions"] = [
            "The predicted label of every row without one, the probability of each segment, and the confidence, which "
            "is the highest of them. In a copy of your own workbook they are next to its table, under shaded names; "
            "rows with a label have none. Fit from your own file, not from the copy: predictions are no columns to "
            "learn from."
        ]
    if weighted:
        texts["Weights"] = [
            "Shares, means, medians and tests count rows by their weights. Intervals and tests use the effective "
            "number of rows (Kish), which is smaller the more the weights differ. Columns named “rows” or “labels” "
            "count rows."
        ]
    texts["Limits"] = notes or ["All rows and columns are counted."]
    for title, sentences in texts.items():
        lines += [("", None, None), (title, None, None), *(("", sentence, None) for sentence in sentences)]
    return lines

"""The report in a browser: nothing is fetched, nothing complains, nothing overflows, and the map answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

from deepsep import TSVM, Committee
from deepsep.report import render, render_comparison, summarize
from deepsep.study import compare

pytestmark = [
    pytest.mark.infra,
    pytest.mark.skipif(browser.find() is None, reason="no Chromium is installed"),
]

NAMES = ["<script>alert(1)</script>", "early risers & late sleepers, who answer every question at length"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 1, (80, 3)), rng.normal(1, 1, (80, 3))])
    y = np.repeat(np.array(NAMES, object), 80)
    y[rng.permutation(160)[30:]] = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
        ids = [f"person {i}" for i in range(160)]
        compared = compare(X, y, methods=["tsvm", "logistic-regression"], folds=2, repeats=1)
        asked = {"ids": ids, "command": "deepsep fit people.csv", "comparison": compared, "folds": 2}
        summary = summarize(TSVM().fit(X, y), X, y, **asked)
        members = ["tsvm", "random-forest", "knn"]
        together = Committee(members=members, effort="fast", twins=True, n_jobs=1, random_state=0).fit(X, y)
        of_committee = summarize(together, X, y, ids=ids)
    place = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(render(summary), encoding="utf-8")
    place.with_name("committee.html").write_text(render(of_committee), encoding="utf-8")
    place.with_name("comparison.html").write_text(render_comparison(compared), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.page() as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_quiet_and_asks_for_nothing(page: browser.Page, report: Path, scheme: str) -> None:
    page.open(report, scheme=scheme)
    assert page.requests() == [report.as_uri()]
    assert page.complaints() == []
    # Ink and paper are far apart in either scheme.
    ink, paper = (
        sum(
            int(part)
            for part in page.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")[4:-1].split(",")
        )
        for where, what in (("body", "color"), ("section", "backgroundColor"))
    )
    assert (ink < paper - 400) if scheme == "light" else (paper < ink - 400)


@pytest.mark.parametrize("width", [360, 768, 1400])
@pytest.mark.parametrize("name", ["report.html", "committee.html"])
def test_page_fits_its_width(page: browser.Page, report: Path, name: str, width: int) -> None:
    page.open(report.with_name(name), width=width)
    assert page.complaints() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        "[...document.querySelectorAll('svg.figure text')].filter(text => !text.closest('.scroll')).map(text =>"
        " [text.textContent, text.getBoundingClientRect(), text.closest('section').getBoundingClientRect()])"
        ".filter(([, own, box]) => own.left < box.left || own.right > box.right).map(([words]) => words)"
    )
    assert outside == []


@pytest.mark.parametrize("width", [360, 1400])
def test_page_of_a_comparison_is_quiet_and_fits(page: browser.Page, report: Path, width: int) -> None:
    place = report.with_name("comparison.html")
    page.open(place, width=width)
    assert page.requests() == [place.as_uri()]
    assert page.complaints() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width > 1000:  # no column of the table is cut off
        box = "document.querySelector('.scroll')"
        assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")


def test_least_certain_rows_are_readable_on_a_phone(page: browser.Page, report: Path) -> None:
    page.open(report, width=390)
    table = "document.querySelector('.stack')"
    assert page.evaluate(f"{table}.scrollWidth <= {table}.parentElement.clientWidth")
    narrowest = page.evaluate(f"Math.min(...[...{table}.querySelectorAll('td:not(.n)')].map(cell => cell.clientWidth))")
    assert narrowest > 200  # a class name has most of the line
    assert page.evaluate(f"getComputedStyle({table}.querySelector('tr')).display") == "grid"


def where(page: browser.Page, selector: str) -> dict[str, Any]:
    box = f"document.querySelector({selector!r})"
    page.evaluate(f"{box}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    rectangle: dict[str, Any] = page.evaluate(f"{box}.getBoundingClientRect().toJSON()")
    return rectangle


def test_map_shows_a_row_on_hover(page: browser.Page, report: Path) -> None:
    page.open(report)
    assert page.evaluate("document.getElementById('map-tip').hidden")
    spot = where(page, ".row.known")
    page.point_at(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    tip = page.evaluate("document.getElementById('map-tip').innerText")
    assert not page.evaluate("document.getElementById('map-tip').hidden")
    assert tip.startswith("Row person ")
    assert "% sure" in tip
    assert any(f"labelled {name}" in tip for name in NAMES)
    outside = where(page, "h1")
    page.point_at(outside["x"], outside["y"])
    assert page.evaluate("document.getElementById('map-tip').hidden")
    assert page.complaints() == []


def test_map_shows_one_class_alone(page: browser.Page, report: Path) -> None:
    page.open(report)
    page.evaluate("document.querySelector('#map-legend button').click()")
    seen = page.evaluate(
        "[...document.querySelectorAll('.row:not(.dim)')].map(row => row.dataset.label ?? row.dataset.k)"
    )
    assert set(seen) == {"0"}
    page.evaluate("document.querySelector('#map-legend button').click()")
    assert page.evaluate("document.querySelectorAll('.row.dim').length") == 0


def test_page_prints(page: browser.Page, report: Path) -> None:
    page.open(report, scheme="dark")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert len(page.call("Page.printToPDF", printBackground=True)["data"]) > 10_000

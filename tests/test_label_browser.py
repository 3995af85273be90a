"""The labelling page in a browser: keys, folds, screen readers' names, narrow screens, and attacks from other pages."""

import csv
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import browser
import pandas as pd
import pytest
from label_page import new_session, serving, small_table

from deepsep.apps.label.refit import Background
from deepsep.apps.label.server import Server
from deepsep.apps.label.session import Session

pytestmark = [
    pytest.mark.infra,
    pytest.mark.skipif(browser.find() is None, reason="no Chromium is installed"),
]

HTML = "<img src=x onerror=alert(1)><script>alert(2)</script>"
STORY = "A long story about a tiger. " * 40
REBOUND = "rebound.example"  # a name that resolves to this machine


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.page(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1") as opened:
        yield opened


@pytest.fixture
def session(tmp_path: Path) -> Session:
    X, ids, _ = small_table()
    X = X.assign(note=STORY, html=HTML, **{f"other column {i}": i / 3 for i in range(20)})
    ids[5] = HTML
    return new_session(tmp_path / "labels.csv", X, ids, classes=["gold", HTML])


@pytest.fixture
def server(session: Session) -> Iterator[Server]:
    with serving(session) as running:
        yield running


def lines(file: Path) -> dict[str, str]:
    with open(file, encoding="utf-8-sig", newline="") as text:
        return {line["customer"]: line["segment"] for line in csv.DictReader(text)}


def opened(page: browser.Page, server: Server, **how: object) -> str:
    """Open the page, and return the identifier of its first card."""
    page.open(server.address, **how)
    page.wait_until("document.title.includes('labels')")
    return page.evaluate("card.id")


def press(page: browser.Page, key: str) -> str:
    """Press a key, wait for the server, and return the identifier of the card."""
    page.press(key)
    page.wait_until("!busy")
    return page.evaluate("card && card.id")


def test_keys_do_everything(page: browser.Page, server: Server, session: Session) -> None:
    first = opened(page, server)
    second = press(page, "1")
    third = press(page, "n")
    fourth = press(page, "s")
    assert len({first, second, third, fourth}) == 4
    assert lines(session.answers.path) == {first: "gold", second: ""}
    assert f"Skipped {third}. Next: customer {fourth}." in page.evaluate("by('status').textContent")
    assert press(page, "u") == third
    assert press(page, "u") == second
    assert lines(session.answers.path) == {first: "gold"}
    assert press(page, "3") == second  # there is no third class
    page.press("+")
    assert page.evaluate("by('more').open && document.activeElement.id") == "class-name"
    page.write("blue")
    page.press("Enter")
    page.wait_until("classes.includes('blue')")
    press(page, "3")
    assert lines(session.answers.path) == {first: "gold", second: "blue"}
    page.press("/")
    page.write("c0012")
    page.press("Enter")
    page.wait_until("!by('results').hidden")
    assert page.evaluate("document.activeElement.id") == "results-title"
    page.evaluate("document.querySelector('#found button').click()")
    page.wait_until("card.id === 'c0012'")
    press(page, "1")
    assert lines(session.answers.path) == {first: "gold", second: "blue", "c0012": "gold"}
    assert page.complaints() == []
    home = server.address
    assert {address for address in page.requests() if not address.startswith("data:")} <= {
        home,
        *(
            home + name
            for name in ("page.css", "page.js", "state", "progress", "answer", "skip", "undo", "class", "show")
        ),
        f"{home}search?words=c0012",
    }


def test_it_begins_without_any_class(page: browser.Page, tmp_path: Path) -> None:
    X, ids, _ = small_table(3)
    with serving(new_session(tmp_path / "labels.csv", X, ids, classes=())) as server:
        first = opened(page, server)
        assert page.evaluate("by('question').textContent") == "Type the first class"
        for name in ("gold", "blue"):
            page.evaluate("by('class-name').focus()")
            page.write(name)
            page.press("Enter")
            page.wait_until(f"classes.includes('{name}') && !by('class-name').value")
        second = press(page, "2")
        press(page, "1")
        assert press(page, "n") is None
        assert page.evaluate("by('card-title').textContent") == "All rows are answered."
        assert press(page, "1") is None
        assert press(page, "u") not in (first, second)
        assert list(lines(tmp_path / "labels.csv").items()) == [(first, "blue"), (second, "gold")]


def test_keys_can_be_turned_off_and_do_not_act_while_typing(
    page: browser.Page, server: Server, session: Session
) -> None:
    first = opened(page, server)
    page.evaluate("by('words').focus()")
    page.press("1")
    page.evaluate("by('words').blur(); by('keys').click()")
    page.press("1")
    page.evaluate("by('keys').blur(); by('keys').click()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="1", text="1", modifiers=2)  # Ctrl
    page.call("Input.dispatchKeyEvent", type="keyDown", key="1", text="1", autoRepeat=True)
    assert press(page, "x") == first
    assert session.answers.given == {}
    assert press(page, "1") != first


def test_cells_and_names_are_text(page: browser.Page, server: Server, session: Session) -> None:
    opened(page, server)
    page.evaluate("act('show', {row: 5})")
    page.wait_until("card.row === 5")
    press(page, "2")
    assert lines(session.answers.path) == {HTML: HTML}
    page.press("/")
    page.write("onerror")
    page.press("Enter")
    page.wait_until("!by('results').hidden")
    assert (
        page.evaluate("document.querySelectorAll('main img, main script, #results img, #results script').length") == 0
    )
    assert page.evaluate("document.body.textContent").count("alert(2)") > 3
    assert page.complaints() == []


def test_long_texts_and_many_columns_are_folded(page: browser.Page, server: Server) -> None:
    opened(page, server)
    note = "[...document.querySelectorAll('#cells > div')].find(line => line.firstChild.textContent === 'note')"
    assert page.evaluate(f"{note}.querySelector('.fold').textContent.length") == len(STORY)
    folded = page.evaluate(f"{note}.offsetHeight")
    button = f"{note}.querySelector('button')"
    assert page.evaluate(f"{button}.getAttribute('aria-expanded')") == "false"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{button}.getAttribute('aria-expanded')") == "true"
    assert page.evaluate(f"{note}.offsetHeight") > 2 * folded
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{note}.offsetHeight") == folded
    assert page.evaluate("document.querySelectorAll('#cells > div').length") == 12
    assert page.evaluate("by('others').textContent").startswith("12 more columns")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 768, 1400])
def test_it_fits_its_width_and_can_be_read(page: browser.Page, server: Server, width: int, scheme: str) -> None:
    opened(page, server, width=width, height=740, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        "[...document.querySelectorAll('#answers button')].map(each => each.getBoundingClientRect())"
        ".filter(box => box.height < 40 || box.width < 40 || box.right > innerWidth).length"
    )
    assert small == 0
    if width <= 360:  # the answers stay in sight
        assert page.evaluate("by('answers').getBoundingClientRect().bottom <= innerHeight")
    assert page.evaluate(CONTRAST) >= 4.5


CONTRAST = """(() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    const light = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
            const share = part / 255;
            return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = (element) => {
        const own = getComputedStyle(element).backgroundColor;
        return own !== "rgba(0, 0, 0, 0)" ? own : element.parentElement ? paper(element.parentElement) : own;
    };
    const texts = [...document.querySelectorAll("body *")].filter((element) =>
        element.checkVisibility() && !element.disabled && !element.closest("svg")
        && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
    return Math.min(...texts.map((element) => {
        const pair = [light(getComputedStyle(element).color), light(paper(element))].sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    }));
})()"""


def test_a_screen_reader_has_a_name_for_everything(page: browser.Page, server: Server) -> None:
    opened(page, server)
    page.evaluate("by('more').open = true")
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    nodes = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
    for role in ("button", "textbox", "searchbox", "checkbox", "heading", "region", "complementary", "group"):
        named = [name for each, name in nodes if each == role]
        assert all(named), (role, named)
    roles = {role for role, _ in nodes}
    assert {"main", "search", "status", "button", "searchbox", "textbox", "checkbox"} <= roles
    assert ("button", "gold 0 labels") in nodes
    assert ("heading", "Which segment?") in nodes
    page.evaluate("document.querySelector('#classes button').focus(); document.activeElement.click()")
    page.wait_until("!busy && by('status').textContent.startsWith('Saved')")
    assert page.evaluate("document.activeElement.textContent").endswith("gold1")  # the focus stays


def test_a_dead_server_is_said_and_nothing_seems_saved(page: browser.Page, session: Session) -> None:
    with serving(session) as server:
        opened(page, server)
        press(page, "1")
        said = page.evaluate("by('status').textContent")
    page.press("1")
    page.wait_until("!by('error').hidden")
    assert "does not answer" in page.evaluate("by('error').textContent")
    assert page.evaluate("by('status').textContent") == said
    assert len(session.answers.given) == 1


ATTACK = """<!doctype html><title>trying</title><script>
const home = "%s", tried = [];
const note = (what) => (promise) =>
    promise.then((value) => tried.push([what, value]), () => tried.push([what, "refused"]));
const body = JSON.stringify({ row: 3, label: "gold" });
Promise.all([
    note("read")(fetch(home + "state").then((answer) => answer.text())),
    note("blind read")(fetch(home + "state", { mode: "no-cors" }).then((answer) => answer.type)),
    note("write")(fetch(home + "answer", { method: "POST", body, headers: { "Content-Type": "application/json" } })),
    note("blind write")(fetch(home + "answer", { method: "POST", body, mode: "no-cors" }).then(({ type }) => type)),
    note("script")(new Promise((good, bad) => document.head.append(Object.assign(
        document.createElement("script"), { src: home + "page.js", onload: () => good("loaded"), onerror: bad })))),
    new Promise((done) => document.documentElement.append(Object.assign(
        document.createElement("iframe"), { src: home, onload: done, name: "frame" }))),
]).then(() => { document.title = "tried"; });
</script><form method=post enctype=text/plain target=frame>
<input name='{"row": 3, "label": "gold", "x": "' value='"}'></form>"""


def test_other_pages_get_nothing_even_with_the_address(
    page: browser.Page, server: Server, session: Session, tmp_path: Path
) -> None:
    opened(page, server)
    (tmp_path / "attack.html").write_text(ATTACK % server.address)

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=tmp_path)  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as other:
        threading.Thread(target=other.serve_forever).start()
        try:
            for host in ("127.0.0.1", REBOUND):  # the same site on another port, and another site
                page.open(f"http://{host}:{other.server_port}/attack.html")
                page.wait_until("document.title === 'tried'")
                tried = dict(page.evaluate("tried"))
                assert tried["read"] == tried["write"] == tried["script"] == "refused"
                assert set(tried.values()) <= {"refused", "opaque"}
                page.evaluate("document.forms[0].action = home + 'answer'; document.forms[0].submit()")
                page.wait_until("(() => { try { frames[0].document; return false } catch { return true } })()")
                assert session.answers.given == {}
        finally:
            other.shutdown()


def test_a_file_that_leads_to_the_address_opens_it(page: browser.Page, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0;url={server.address}">')
    page.open(file)
    page.wait_until("document.title.includes('labels')")
    assert page.evaluate("location.href") == server.address


def test_a_rebound_name_gets_nothing(page: browser.Page, server: Server) -> None:
    page.open(server.address.replace("127.0.0.1", REBOUND))
    assert "Labelling" not in page.evaluate("document.documentElement.outerHTML")
    assert page.evaluate("document.body.textContent.includes('403') || !document.body.textContent.trim()")


@pytest.mark.slow
def test_the_estimate_grows_on_the_screen(page: browser.Page, tmp_path: Path) -> None:
    X, ids, truth = small_table(400)
    with serving(new_session(tmp_path / "labels.csv", X, ids, refits=Background())) as server:
        opened(page, server)
        by_id = dict(zip(ids, truth, strict=True))
        for fits in (1, 2):
            while page.evaluate("by('refit').textContent.startsWith('Next fit')"):
                press(page, "1" if by_id[page.evaluate("card.id")] == "gold" else "2")
            page.wait_until(f"document.querySelector('svg .line')?.getAttribute('points').split(' ').length === {fits}")
        assert page.evaluate("by('accuracy').textContent").startswith("About ")
        assert page.evaluate("by('curve').getAttribute('aria-label')").count("labels ") == 2
        assert page.complaints() == []


@pytest.mark.slow
def test_two_thousand_answers_in_a_row(page: browser.Page, tmp_path: Path) -> None:
    X, ids, truth = small_table(2_500)
    by_id, file = dict(zip(ids, truth, strict=True)), tmp_path / "labels.csv"
    session = new_session(file, X, ids, refits=Background())
    given: dict[str, str] = {}
    with serving(session) as server:
        current = opened(page, server)
        for number in range(2_000):
            label = None if number % 50 == 49 else by_id[current]
            given[current] = label or ""
            page.press({"gold": "1", "blue": "2", None: "n"}[label])
            current = page.wait_until(f"!busy && card.id !== {current!r} && card.id")
            page.events[:] = [event for event in page.events if "exception" in str(event.get("method"))]
        assert page.evaluate("by('counts').textContent").startswith("1,960 of 2,500 rows labelled, 40 not sure.")
        assert page.evaluate("by('error').hidden")
        assert page.complaints() == []
        assert len(session.curve) > 3
    assert lines(file) == given
    assert len(pd.read_csv(file)) == 2_000
    again = new_session(file, X, ids)
    assert again.state()["labelled"] == 1_960

"""The server of the labelling page: who gets nothing, and what a kill costs."""

import contextlib
import csv
import http.client
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from command_line import run
from label_page import ask, new_session, serving, small_table

from deepsep.apps.label.server import Server
from deepsep.apps.label.session import Session

PATIENCE = 600  # seconds: nothing waits so long but on a machine that is far too busy
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    X, ids, _ = small_table()
    return new_session(tmp_path / "labels.csv", X, ids)


@pytest.fixture
def server(session: Session) -> Iterator[Server]:
    with serving(session) as running:
        yield running


ANSWER = {"row": 3, "label": "gold"}


def test_the_page_is_served_to_whoever_has_the_address(server: Server, session: Session) -> None:
    home = f"/{server.token}"
    for name, word in (("/", b"<!doctype html>"), ("/page.css", b":root"), ("/page.js", b"use strict")):
        status, content = ask(server, home + name)
        assert status == 200
        assert word in content
    assert ask(server, f"{home}/state")[1]["card"]["row"] == session.state()["card"]["row"]
    status, state = ask(server, f"{home}/answer", ANSWER)
    assert (status, state["labelled"]) == (200, 1)
    assert ask(server, f"{home}/search?words=c0003")[1]["rows"][0]["answer"] == "gold"
    assert ask(server, f"{home}/nothing")[0] == 404


def test_without_the_token_there_is_nothing(server: Server, session: Session) -> None:
    token = server.token
    wrong = ["", "x", token[:-1], f"{token}x", token.swapcase(), "%00", "..", "é".encode().hex()]
    paths = [f"/{each}/{name}" for each in wrong for name in ("", "state", "answer", "page.js", f"{token}/state")]
    for path in [*paths, "/", f"/?token={token}", f"//{token}/state", f"/./{token}/state"]:
        assert ask(server, path, Cookie=f"token={token}", Authorization=f"Bearer {token}") == (403, b""), path
        assert ask(server, path, ANSWER) == (403, b""), path
    assert session.answers.given == {}


def test_a_foreign_host_gets_nothing(server: Server, session: Session) -> None:
    home, port = f"/{server.token}", server.port
    names = [
        "localhost",
        "evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "[::1]",
        "0.0.0.0",
        "127.1",
        "2130706433",
    ]
    hosts = [*(f"{name}:{port}" for name in names), "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}.", ""]
    for host in hosts:
        origin = f"http://{host}"
        assert ask(server, f"{home}/", Host=host)[0] in (400, 403), host
        assert ask(server, f"{home}/state", Host=host)[0] in (400, 403), host
        assert ask(server, f"{home}/answer", ANSWER, Host=host, Origin=origin)[0] in (400, 403), host
    own = f"127.0.0.1:{port}"
    assert ask(server, f"{home}/state", Host="evil.example", host=own)[0] in (400, 403)  # two of them
    assert ask(server, f"{home}/state", Host="evil.example", X_Forwarded_Host=own)[0] == 403
    assert session.answers.given == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://localhost:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Content_Type": None},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ],
    ids=str,
)
def test_a_write_from_elsewhere_is_refused_even_with_the_token(
    server: Server, session: Session, headers: dict[str, str | None]
) -> None:
    filled = {name: value and value.format(port=server.port) for name, value in headers.items()}
    for path, body in (("answer", ANSWER), ("skip", {"row": 3}), ("undo", {}), ("class", {"name": "evil"})):
        assert ask(server, f"/{server.token}/{path}", body, **filled) == (403, b"")
    assert session.answers.given == {}
    assert session.classes == ["gold", "blue"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_can_open_it_but_not_read_it(server: Server, site: str) -> None:
    home = f"/{server.token}"
    for name in ("state", "progress", "search?words=c", "page.js"):
        for destination in ("empty", "script", "image", "document"):
            assert ask(server, f"{home}/{name}", Sec_Fetch_Site=site, Sec_Fetch_Dest=destination) == (403, b"")
    assert ask(server, f"{home}/", Sec_Fetch_Site=site, Sec_Fetch_Dest="document")[0] == 200  # a link
    for destination in ("iframe", "embed", "object", "empty"):
        assert ask(server, f"{home}/", Sec_Fetch_Site=site, Sec_Fetch_Dest=destination) == (403, b"")


def raw(server: Server, text: str) -> str:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode())
        return connection.recv(1 << 16).decode("latin-1")


def test_other_methods_and_protocols_get_nothing(server: Server) -> None:
    head = f"Host: 127.0.0.1:{server.port}\nConnection: close\n"
    for method in ("OPTIONS", "HEAD", "PUT", "DELETE", "TRACE"):
        answer = raw(server, f"{method} /{server.token}/state HTTP/1.1\n{head}Origin: http://evil.example\n\n")
        assert answer.startswith("HTTP/1.1 403")
        assert "access-control" not in answer.lower()
        assert answer.endswith("\r\n\r\n")
    upgrade = "Upgrade: websocket\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Version: 13\n"
    head = head.replace("close", "Upgrade")
    assert " 101 " not in raw(server, f"GET /{server.token}/state HTTP/1.1\n{head}{upgrade}\n")
    assert raw(server, f"GET /{server.token}/state HTTP/1.0\n\n").startswith("HTTP/1.1 403")  # no host at all


def test_only_this_machine_can_connect(server: Server) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; tells which address the machine has outside
        outside = probe.getsockname()[0]
    for address in {outside, "127.0.0.2"} - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"refused|unreachable|not valid"):
            socket.create_connection((address, server.port), timeout=5)


def test_headers_forbid_other_sources_frames_and_caches(server: Server) -> None:
    answer = raw(server, f"GET /{server.token}/ HTTP/1.1\nHost: 127.0.0.1:{server.port}\nConnection: close\n\n").lower()
    for line in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
    ):
        assert line in answer
    assert "unsafe" not in answer
    assert "set-cookie" not in answer
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"row": 1}', b'{"row": "1", "label": "gold"}', b'{"row": true, "label": "gold"}',
     b'{"row": 1.5, "label": "gold"}', b'{"row": 1, "label": 3}', b'{"row": 1, "label": "gold", "x": 1}',
     b'{"row": -1, "label": "gold"}', b'{"row": 60, "label": "gold"}', b'{"row": 1, "label": "silver"}',
     b'{"row": 1, "label": "' + b"x" * 20_000 + b'"}', b"\xff\xfe", b"[" * 9_000],
    ids=lambda body: body[:40],
)  # fmt: skip
def test_what_is_not_understood_changes_nothing(server: Server, session: Session, body: bytes) -> None:
    status, content = ask(server, f"/{server.token}/answer", body, raw=True)
    assert status == 400
    assert content["error"]
    assert session.answers.given == {}
    assert ask(server, f"/{server.token}/answer", ANSWER)[0] == 200


def test_what_cannot_be_saved_is_said(server: Server, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("deepsep.apps.label.answer_file.replace_file", full)
        status, content = ask(server, f"/{server.token}/answer", ANSWER)
    assert status == 500
    assert "No space left on device. The answer was not saved." in content["error"]
    assert ask(server, f"/{server.token}/state")[1]["labelled"] == 0


def test_tokens_differ(session: Session) -> None:
    one, other = Server(session), Server(session)
    assert one.token != other.token
    assert min(len(one.token), len(other.token)) >= 43  # 256 bits


# -- the command -------------------------------------------------------------------------------------------------


class Running:
    """A process of ``deepsep label``."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "deepsep", "label", *map(str, arguments), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.notes = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/(\S+)/", self.notes)):
            line = self.process.stderr.readline()
            assert line, f"it ended: {self.notes}"
            self.notes += line
        self.port, self.token = int(found[1]), found[2]

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        return ask(SimpleNamespace(port=self.port), f"/{self.token}/{path}", body)  # type: ignore[arg-type]

    def end(self, how: int) -> tuple[int, str]:
        self.process.send_signal(how)
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


def children(parent: int) -> list[str]:
    """Return the processes that a process has started, where /proc lists them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(stat.parent.name)
    return found


def lines(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    with open(file, encoding="utf-8-sig", newline="") as text:
        return {line["customer"]: line["segment"] for line in csv.DictReader(text)}


@pytest.mark.infra
@posix
def test_a_killed_server_loses_at_most_the_last_answer(tmp_path: Path) -> None:
    table, file = tmp_path / "table.csv", tmp_path / "labels.csv"
    X, ids, _ = small_table(5_000)
    X.assign(customer=ids).to_csv(table, index=False)
    arguments = (table, "--label", "segment", "--id", "customer", "-o", file, "--no-refit", "--classes", "gold,blue")
    saved: dict[str, str] = {}
    for enough, delay in ((6, 0.001), (13, 0.004)):
        running = Running(*arguments)
        _, state = running.ask("state")
        assert state["labelled"] + state["unsure"] == len(saved)
        tried: dict[str, str] = {}
        killer = threading.Timer(delay, running.process.kill)  # which falls into some later answer
        try:
            for answers in itertools.count():
                if answers == enough:
                    killer.start()
                label = ("gold", "blue", None)[len(saved) % 3]
                tried = {state["card"]["id"]: label or ""}
                status, state = running.ask("answer", {"row": state["card"]["row"], "label": label})
                assert status == 200
                saved |= tried
        except (OSError, EOFError, http.client.HTTPException):  # it is dead
            pass
        killer.join()
        running.end(signal.SIGKILL)
        assert lines(file) in (saved, saved | tried)
        saved = lines(file)


@pytest.mark.infra
@posix
def test_ctrl_c_names_the_file_and_the_next_command_which_works(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(people.parent)
    running = Running("people.csv", "--label", "segment", "--id", "customer", "-o", "labels.csv", "--drop", "weight")
    for label in ("gold", "blue", None):
        _, state = running.ask("state")
        running.ask("answer", {"row": state["card"]["row"], "label": label})
    code, said = running.end(signal.SIGINT)
    assert code == 0
    assert "2 labels and 1 times “not sure” are in labels.csv." in said
    command = re.search(r"Next: deepsep (.*)", said)[1]
    result = run(*command.split(), "--method", "tsvm", "--no-report")
    assert result.exit_code == 0, result.output
    assert "Labels in labels.csv: 2 new, 0 known and the same. 32 of 200 rows have one now." in result.stderr


@pytest.mark.infra
@posix
@pytest.mark.slow
def test_it_starts_from_nothing_with_row_numbers(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(people.parent)
    frame = pd.read_csv(people).drop(columns=["segment", "customer", "weight"])
    frame.to_csv("bare.csv", index=False)
    running = Running("bare.csv", "--label", "kind", "--classes", "young, old", "-o", "labels.csv")
    _, state = running.ask("state")
    assert [each["name"] for each in state["classes"]] == ["young", "old"]
    for _ in range(20):
        row = state["card"]["row"]
        _, state = running.ask("answer", {"row": row, "label": "young" if frame["age"][row] < 45 else "old"})
    until = time.monotonic() + PATIENCE
    while not state["curve"]:
        assert time.monotonic() < until, state
        time.sleep(0.1)
        _, state = running.ask("progress")
    assert state["refit_error"] == ""
    workers = children(running.process.pid)
    assert workers or not Path("/proc/self/stat").exists()
    code, said = running.end(signal.SIGINT)
    assert code == 0
    assert "--labels labels.csv -o model" in said
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until  # the process of the refits ends as well
        time.sleep(0.1)
    command = re.search(r"Next: deepsep (.*)", said)[1]
    assert run(*command.split(), "--method", "tsvm", "--no-report").exit_code == 0
    assert "is the table" in run("label", "bare.csv", "--label", "kind", "-o", "bare.csv").stderr


def test_bad_options(people: Path, server: Server) -> None:
    file = people.with_name("labels.csv")
    table = pd.read_csv(people)
    table.assign(row=1).to_csv(people.with_name("rows.csv"), index=False)
    table.assign(customer="one").to_csv(people.with_name("same.csv"), index=False)
    for arguments, message in (
        ((people, "-o", file), "which column will hold the labels?"),
        ((people, "--label", "segment", "-o", "labels.txt"), "must end in .csv"),
        ((people, "--label", "segment", "--labels", file, "-o", file), "Leave out --labels"),
        ((people, "--label", "segment", "--id", "custmer", "-o", file), "did you mean 'customer'"),
        ((people, "--label", "kind", "--drop", "wight", "-o", file), "did you mean 'weight'"),
        ((people.with_name("rows.csv"), "--label", "segment", "-o", file), "has a column 'row'"),
        ((people.with_name("same.csv"), "--label", "segment", "--id", "customer", "-o", file), "leave out --id"),
        ((people, "--label", "segment", "--classes", "-1", "-o", file), "cannot be the name of a class"),
        ((people, "--label", "segment", "-o", file, "--port", server.port), f"port {server.port} is taken"),
    ):
        result = run("label", *arguments)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
    assert not file.exists()


def test_a_missing_library_is_named_with_its_cure(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("label", people, "--label", "segment", "-o", people.with_name("labels.csv"))
    assert result.exit_code == 1
    assert "pip install 'deepsep[label]'" in result.stderr


def test_what_is_wrong_with_the_labels_is_said_first(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.read_csv(people).replace({"segment": {"gold": "Gold", "blue": "unknown"}}).to_csv(people, index=False)
    frame = pd.read_csv(people, keep_default_na=False)
    frame.loc[frame.index[frame["segment"] == "Gold"][0], "segment"] = "gold"
    frame.to_csv(people, index=False)
    monkeypatch.setattr("deepsep.apps.label.server.Server.run", lambda self: None)
    options = ("label", people, "--label", "segment", "--no-browser", "-o", people.with_name("labels.csv"))
    text = " ".join(run(*options).stderr.split())
    assert "warning: the labels 'Gold', 'gold' differ only in case, blanks or accents" in text
    assert text.count("'unknown' has a name that usually means 'no label'") == 1
    assert "treated as a class like any other" not in text  # it is said once
    text = " ".join(run(*options, "--merge-spellings", "--no-label", "unknown").stderr.split())
    assert "are one class: 'Gold' for 'gold'" in text
    assert "unknown" not in text


def test_the_browser_is_opened_by_a_private_file(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def look(address: str) -> None:
        file = Path(address.removeprefix("file://"))
        opened.append((file.read_text(), file.parent.stat().st_mode & 0o777))

    monkeypatch.setattr("webbrowser.open", look)
    monkeypatch.setattr("deepsep.apps.label.server.Server.run", lambda self: None)
    result = run("label", people, "--label", "segment", "--id", "customer", "-o", people.with_name("labels.csv"))
    assert result.exit_code == 0, result.output
    assert "No row was answered." in result.stdout
    ((text, mode),) = opened
    assert re.search(r"http://127\.0\.0\.1:\d+/\S{43}/", result.stderr)[0] in text
    if os.name != "nt":
        assert mode == 0o700

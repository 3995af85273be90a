"""A small client of headless Chromium: the DevTools protocol over two pipes, with nothing to install beside it."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds to wait for an answer


def find() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """A page of a browser that notes what it asks for and what goes wrong."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer, self._last, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser was silent for {PATIENCE} seconds")
            self._buffer += os.read(self._from, 1 << 20)
        one, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(one)

    def open(self, place: Path | str, *, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def wait_until(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            if time.monotonic() > until:
                raise TimeoutError(f"after {PATIENCE} seconds: not {expression}")
            time.sleep(0.005)
        return value

    def press(self, key: str) -> None:
        """Press a key, by the name that a page sees."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def write(self, text: str) -> None:
        """Write text to the element that has the focus."""
        self.call("Input.insertText", text=text)

    def point_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

    def complaints(self) -> list[str]:
        """Return errors and warnings in the console, and exceptions."""
        problems = []
        for event in self.events:
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    problems.append(event["params"]["exceptionDetails"]["text"])
                case "Log.entryAdded":
                    problems.append(event["params"]["entry"]["text"])
                case "Runtime.consoleAPICalled":
                    problems.append(str(event["params"]["args"]))
        return problems


@contextlib.contextmanager
def page(*options: str) -> Iterator[Page]:
    """Start the browser with an empty profile; end it and remove the profile afterwards."""
    there_read, there_write = os.pipe()
    back_read, back_write = os.pipe()

    def connect() -> None:  # the browser reads from 3 and writes to 4
        there, back = os.dup(there_read), os.dup(back_write)
        os.dup2(there, 3)
        os.dup2(back, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                str(find()),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                *options,
            ],
            close_fds=False,
            preexec_fn=connect,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there_read)
        os.close(back_write)
        try:
            yield Page(there_write, back_read)
        finally:
            process.kill()
            process.wait()
            os.close(there_write)
            os.close(back_read)

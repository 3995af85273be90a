"""Take the pictures of the labelling page that the pages show, in headless Chromium.

    python tools/label_pictures.py

Labels foods as a careful person would, and writes docs/images/label.png and label-phone.png.
"""

import base64
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import browser
from label_page import new_session, serving

from deepsep.apps.label.refit import Background
from deepsep.datasets import load_foods

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FOODS, ANSWERS = 2_000, 126


def take(page: browser.Page, address: str, target: Path, width: int, height: int, scheme: str, sharpness: int) -> None:
    page.open(address, width=width, height=height, scheme=scheme)
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=sharpness,
        mobile=width < 500,
    )
    page.wait_until("document.title.includes('labels')")
    place = page.evaluate("classes").index(truth[page.evaluate("card.id")])
    page.press(str(place + 1))
    page.wait_until("by('status').textContent")
    picture = page.call("Page.captureScreenshot", format="png")
    target.write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    foods = load_foods()
    data = foods.data.sample(FOODS, random_state=0)
    truth, X = foods.aisle[data.index], data.reset_index(drop=True)
    with TemporaryDirectory() as folder, browser.page() as page:
        ids = pd.Series(data.index, name="food")
        session = new_session(Path(folder, "labels.csv"), X, ids, classes=sorted(truth.unique()), refits=Background())
        session.answers.label = "aisle"
        with serving(session) as server:
            for number in range(ANSWERS):
                while session.progress()["refitting"]:
                    time.sleep(0.05)
                row = session.state()["card"]["row"]
                session.answer(row, None if number % 40 == 30 else truth.iloc[row])
            while session.progress()["refitting"]:
                time.sleep(0.05)
            take(page, server.address, IMAGES / "label.png", 1120, 960, "light", 1)
            take(page, server.address, IMAGES / "label-phone.png", 390, 844, "dark", 1)
            print(page.evaluate("by('accuracy').textContent"))

"""Take the pictures of a report that the pages show, in headless Chromium.

    python tools/report_pictures.py deepsep-demo/model/report.html model/report.html

The first report is that of `make demo`, the second that of the tutorial's `deepsep fit`. Writes docs/images/report.png,
the top of the first, and report-accuracy.png and report-map.png, two sections of the second.
"""

import base64
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, MARGIN = 1000, 10


def take(page: browser.Page, section: str, target: Path, *, until: str = "", from_top: bool = False) -> None:
    """Write a picture of the section with this heading.

    It may end with the element `until` of the section, and begin at the top of the page.
    """
    left, top, right, bottom = page.evaluate(
        f"""(() => {{
            const part = document.getElementById("{section}").closest("section"), box = part.getBoundingClientRect();
            const end = part.querySelector("{until or "h2"}").getBoundingClientRect();
            return [box.left, box.top + scrollY, box.right, ({str(bool(until)).lower()} ? end : box).bottom + scrollY];
        }})()"""
    )
    top = 0 if from_top else top - MARGIN
    clip = {
        "x": left - MARGIN,
        "y": top,
        "width": right - left + 2 * MARGIN,
        "height": bottom + MARGIN - top,
        "scale": 1,
    }
    picture = page.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    target.write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    demo, tutorial = (Path(name).resolve() for name in sys.argv[1:3])
    with browser.page() as page:
        page.open(demo, width=WIDTH)
        take(page, "verdict", IMAGES / "report.png", from_top=True)
        page.open(tutorial, width=WIDTH)
        take(page, "accuracy", IMAGES / "report-accuracy.png", until=".grid")
        take(page, "map", IMAGES / "report-map.png")

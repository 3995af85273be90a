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


def take(page: browser.Page, section: str, target: Path, *, from_top: bool = False) -> None:
    """Write a picture of the section with this heading, or of all from the top of the page to its end."""
    box = page.evaluate(
        f"(() => {{const b = document.getElementById('{section}').closest('section').getBoundingClientRect();"
        " return [b.x, b.y + scrollY, b.width, b.height]})()"
    )
    x, y, width, height = (box[0] - MARGIN, box[1] - MARGIN, box[2] + 2 * MARGIN, box[3] + 2 * MARGIN)
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    if from_top:
        clip |= {"y": 0, "height": y + height}
    picture = page.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    target.write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    demo, tutorial = (Path(name).resolve() for name in sys.argv[1:3])
    with browser.page() as page:
        page.open(demo, width=WIDTH)
        take(page, "verdict", IMAGES / "report.png", from_top=True)
        page.open(tutorial, width=WIDTH)
        take(page, "accuracy", IMAGES / "report-accuracy.png")
        take(page, "map", IMAGES / "report-map.png")

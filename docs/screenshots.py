"""The pictures of the page in the guide: ``python docs/screenshots.py`` makes them anew.

A service is started on this machine, a made-up table is dropped, fitted and asked; Chromium takes
the pictures, as in the tests.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.app.browser import Browser  # noqa: E402  # needs the path set above
from tests.serve.service import Service  # noqa: E402
from tests.serve.test_page import drop  # noqa: E402


def houses(n: int = 120) -> str:
    """Return a CSV of prices that bend with the size and jump with the town."""
    rng = np.random.default_rng(0)
    size, year = rng.uniform(30.0, 160.0, n), rng.integers(1950, 2024, n)
    town = rng.choice(["Ulm", "Bonn", "Kiel"], n)
    price = 2.2 * size + 40.0 * (town == "Ulm") + 0.9 * np.maximum(year - 1990, 0)
    price = price + 60.0 * np.sin(size / 25.0) + 9.0 * rng.normal(size=n)
    rows = zip(size, town, year, price, strict=True)
    return "size,town,year,price\n" + "".join(f"{a:.1f},{b},{c},{d:.1f}\n" for a, b, c, d in rows)


def shot(browser: Browser, name: str, width: int, height: int, dark: bool = False) -> None:
    """Write a picture of the page."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.send("Emulation.setEmulatedMedia", features=[scheme])
    time.sleep(0.5)
    taken = browser.send("Page.captureScreenshot", format="png")["data"]
    (HERE / "images" / f"page-{name}.png").write_bytes(base64.b64decode(taken))


def main() -> None:
    """Take them."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "models")
        with Browser(Path(folder)) as browser:
            browser.open(f"http://127.0.0.1:{service.port}/")
            token = json.dumps(service.token)
            browser.evaluate(f"document.querySelector('#token').value = {token}")
            browser.evaluate("document.querySelector('main form').requestSubmit(); true")
            browser.until("!!document.querySelector('[data-drop]')")
            drop(browser, "houses.csv", houses())
            browser.until("!!document.querySelector('#target')")
            fields = {"target": "price", "name": "houses", "budget": "20"}
            for field, value in fields.items():
                browser.evaluate(f"document.querySelector('#{field}').value = '{value}'")
            shot(browser, "table", 900, 1250)
            browser.evaluate("document.querySelector('main form').requestSubmit(); true")
            browser.until("location.pathname === '/page/models/houses'")
            answer = "document.querySelector('[data-answer]')?.textContent"
            browser.until(f"{answer}?.startsWith('price')")
            shot(browser, "what-if", 900, 960)
            shot(browser, "narrow", 400, 820, dark=True)
        service.stop()


if __name__ == "__main__":
    main()

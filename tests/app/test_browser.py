"""The report in a real browser: pictures, no errors, no requests, readable on every screen."""

from __future__ import annotations

import numpy as np
import pytest
from tests.app.browser import Browser, found

import mercer

pytestmark = pytest.mark.skipif(
    found() is None, reason="no Chromium on PATH (chromium, chromium-browser, google-chrome)"
)

# Lowest contrast of any text with what is behind it, by the formula of WCAG 2.2.
CONTRAST = """
(() => {
  const light = c => { const v = c.map(x => { x /= 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const parts = s => s.match(/[\\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  let worst = [21, ""];
  for (const e of document.querySelectorAll("main *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.tagName + ": " + e.textContent.slice(0, 40)];
  }
  return worst;
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Reports of a quantity and of three classes, opened in one browser each."""
    folder = tmp_path_factory.mktemp("browser")
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=60), np.array(["a", "b<i>", "c"])[np.arange(60) % 3]
    table = {"x": x, "<script>alert(1)</script>": group}
    quantity = mercer.fit(
        table | {"y": x + 0.1 * rng.normal(size=60)}, "y", candidates=["Gaussian process"]
    )
    label = np.array(["low", "middle", "high & <b>"])[np.digitize(x, [-0.5, 0.5])]
    classes = mercer.fit(table | {"y": label}, "y", candidates=["kernel logistic"])
    pages = {}
    for name, model in {"quantity": quantity, "classes": classes}.items():
        model.report(folder / f"{name}.html")
        pages[name] = folder / f"{name}.html"
    return pages


@pytest.mark.parametrize("name", ["quantity", "classes"])
def test_the_report_opens(page, name, tmp_path):
    with Browser(tmp_path) as browser:
        address = page[name].as_uri()
        browser.open(address)
        images = browser.evaluate(
            "[...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth, i.alt])"
        )
        assert len(images) >= 6
        assert all(done and width > 100 and drawn > 100 for done, width, drawn, _ in images)
        assert all(len(alt) > 20 for *_, alt in images)
        assert browser.troubles() == []
        assert browser.requests() == [address]
        assert browser.evaluate("document.querySelectorAll('script').length") == 0
        for colours in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": colours}
            browser.send("Emulation.setEmulatedMedia", features=[feature])
            ratio, where = browser.evaluate(CONTRAST)
            assert ratio >= 4.5, (colours, where)
        for width in (320, 768, 1280):
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.send("Emulation.setDeviceMetricsOverride", **size)
            over = browser.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"the page is {over} pixels wider than a screen of {width}"


def test_what_a_bad_page_does_is_noticed(tmp_path):
    """The two lists above are empty because nothing happens, not because nothing is seen."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><img alt='' src='data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\"/>'>"
        "<script>console.error('broken'); fetch('http://127.0.0.1:9/x').catch(() => 0)</script>",
        encoding="utf-8",
    )
    with Browser(tmp_path) as browser:
        browser.open(bad.as_uri())
        assert browser.troubles()
        assert "http://127.0.0.1:9/x" in browser.requests()

"""The page in a real browser: a table is dropped, fitted, asked; nothing foreign is loaded."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.app.browser import Browser, found
from tests.serve.service import PATIENCE, Service

HOSTILE = "<script>document.title='hit'</script>"
ESCAPES = "\x1b[31mred"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("page") / "models")
    yield running
    running.stop()


def table() -> str:
    """A CSV with a hostile name of a column and of a category."""
    rng = np.random.default_rng(0)
    size, town = rng.uniform(10.0, 50.0, 60), rng.choice(["Ulm", "Bonn", HOSTILE], 60)
    price = 3.0 * size + 20.0 * (town == "Ulm") + rng.normal(size=60)
    lines = [f"size,{HOSTILE},price,id"]
    rows = zip(size, town, price, strict=True)
    lines += [f"{a:.3f},{b},{c:.3f},{i}" for i, (a, b, c) in enumerate(rows)]
    return "\n".join(lines) + "\n"


def ask(service, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    found = {name.lower(): value for name, value in answer.getheaders()}
    text = answer.read().decode()
    connection.close()
    return answer.status, found, text


def signed_in(service, token=None):
    here = f"http://127.0.0.1:{service.port}"
    form = urlencode({"token": service.token if token is None else token})
    kind = "application/x-www-form-urlencoded"
    return ask(service, "POST", "/signin", form, content_type=kind, origin=here)


def test_a_browser_signs_in_by_the_token_and_acts_from_the_page_alone(service):
    html = "text/html"
    status, headers, _ = ask(service, "GET", "/", accept=html)
    assert (status, headers["location"]) == (303, "/signin")
    assert ask(service, "GET", "/models")[0] == 401
    assert signed_in(service, "wrong")[0] == 401
    status, headers, _ = signed_in(service)
    assert (status, headers["location"]) == (303, "/")
    flags = headers["set-cookie"]
    assert all(flag in flags for flag in ("HttpOnly", "SameSite=Strict", "Path=/"))
    cookie = flags.partition(";")[0]
    status, headers, text = ask(service, "GET", "/", accept=html, cookie=cookie)
    assert status == 200
    assert "Start with a table" in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # a cookie reads; what changes something must come from the page
    assert ask(service, "GET", "/models", cookie=cookie)[0] == 200
    given = {"cookie": cookie, "accept": "application/json"}
    here, there = f"http://127.0.0.1:{service.port}", "http://elsewhere.example"
    for origin in ({}, {"origin": there}, {"origin": "null"}):
        assert ask(service, "POST", "/page/tables", "a,b\n1,2\n", **given, **origin)[0] == 401
    status, _, text = ask(service, "POST", "/page/tables", "a,b\n1,2\n", **given, origin=here)
    assert status == 201
    assert json.loads(text)["url"].startswith("/page/tables/")
    # and ends when the person signs out
    ask(service, "POST", "/signout", "", **given, origin=here)
    assert ask(service, "GET", "/models", cookie=cookie)[0] == 401


def test_what_cannot_be_read_or_fitted_is_said_on_the_page(service):
    cookie = signed_in(service)[1]["set-cookie"].partition(";")[0]
    here = f"http://127.0.0.1:{service.port}"
    given = {"cookie": cookie, "origin": here}
    for body in (b"", b"\xff\xfe\x00\xd8", b"a,b\n1\n", b"PK\x03\x04 not a workbook", b"PAR1x"):
        status, _, text = ask(service, "POST", "/page/tables", body, **given)
        assert status in (400, 413, 422), (body, status, text)
        assert json.loads(text)["error"]["message"]
    _, _, text = ask(service, "POST", "/page/tables", table(), **given)
    where = json.loads(text)["url"]
    kind = {"content_type": "application/x-www-form-urlencoded", "accept": "text/html"}
    for form, words in (
        ({"target": "price", "name": "../x"}, "a model is named by"),
        ({"target": "nothing", "name": "x"}, "choose the column to predict"),
        ({"target": "price", "name": "x", "budget": "1e9"}, "between 1 and 3600"),
        ({"target": "price", "name": "x", "kind-0": "ignored", "kind-1": "ignored"}, "no column"),
        ({"target": "price", "name": "x", "kind-1": "numeric"}, "not a number"),
        ({"target": "price", "name": "x", "kind-1": "pickle"}, "is no kind of column"),
    ):
        status, _, text = ask(service, "POST", where, urlencode(form), **given, **kind)
        assert status == 422, form
        assert words in text, (form, text)
    for path in ("/page/static/..%2froutes.py", "/page/static/x", "/page/models/none"):
        status, _, text = ask(service, "GET", path, cookie=cookie, accept="text/html")
        assert status == 404, path
    assert ask(service, "GET", "/page/jobs/x", cookie=cookie, accept="text/html")[0] == 404


# ---------------------------------------------------------------------- in a browser
def drop(browser, name, text):
    """Drop a file as a person does."""
    browser.evaluate(
        f"""(() => {{ const held = new DataTransfer();
        held.items.add(new File([{json.dumps(text)}], {json.dumps(name)}, {{type: "text/csv"}}));
        const area = document.querySelector("[data-drop]");
        area.dispatchEvent(new DragEvent("drop", {{dataTransfer: held, bubbles: true,
          cancelable: true}})); return true; }})()"""
    )


@pytest.mark.skipif(found() is None, reason="no Chromium on PATH")
def test_from_a_file_to_predictions_in_a_browser(service, tmp_path):
    here = f"http://127.0.0.1:{service.port}"
    with Browser(tmp_path) as browser:
        browser.open(here + "/")
        assert browser.evaluate("location.pathname") == "/signin"
        browser.evaluate(f"document.querySelector('#token').value = {json.dumps(service.token)}")
        browser.evaluate("document.querySelector('main form').requestSubmit(); true")
        browser.until("!!document.querySelector('[data-drop]')")
        drop(browser, f"houses {HOSTILE}.csv", table())
        browser.until("!!document.querySelector('#target')")
        kinds = "[...document.querySelectorAll('select[id^=kind-]')].map(s => s.value)"
        assert browser.evaluate(kinds) == ["numeric", "categorical", "numeric", "ignored"]
        browser.evaluate(
            "document.querySelector('#target').value = 'price';"
            "document.querySelector('#name').value = 'houses';"
            "document.querySelector('#budget').value = '6';"
            "document.querySelector('main form').requestSubmit(); true"
        )
        job = browser.until("location.pathname.startsWith('/page/jobs/') && location.pathname")
        browser.until("location.pathname === '/page/models/houses'")
        # what if: the distribution moves along with the slider
        answer = "document.querySelector('[data-answer]')?.textContent"
        browser.until(f"{answer}?.startsWith('price')")
        before = browser.evaluate(answer)
        shape = "document.querySelector('[data-density] polyline').getAttribute('points')"
        drawn = browser.evaluate(shape)
        browser.evaluate(
            "(() => { const s = document.querySelector('input[type=range]'); s.value = s.max;"
            "s.dispatchEvent(new Event('input', {bubbles: true})); return true; })()"
        )
        browser.until(f"{answer} !== {json.dumps(before)}")
        browser.until(f"{shape} !== {json.dumps(drawn)}")
        value = f"Number({answer}.match(/price: ([-\\d.]+)/)[1])"
        assert browser.evaluate(value) > 110.0  # three times the largest size
        # new rows: predictions with their intervals, and which to label next
        rows = f"size,{HOSTILE}\n20,Ulm\n40,Bonn\n"
        browser.evaluate(
            f"document.querySelector('#paste').value = {json.dumps(rows)};"
            "document.querySelector('[data-do=rows]').click(); true"
        )
        browser.until("document.querySelectorAll('[data-table] tbody tr').length === 2")
        cells = browser.evaluate(
            "[...document.querySelectorAll('[data-table] tbody tr')]"
            ".map(r => Number(r.cells[0].textContent))"
        )
        assert np.allclose(cells, [80.0, 120.0], atol=4.0)
        browser.until("!document.querySelector('[data-download]').hidden")
        assert browser.evaluate("document.querySelectorAll('h2').length") >= 6
        # hostile names are text, nothing foreign was asked for, nothing was complained of
        assert browser.evaluate("document.title") == "houses - mercer"
        assert HOSTILE in browser.evaluate("document.querySelector('.sliders').innerText")
        assert all(address.startswith((here, "blob:")) for address in browser.requests())
        assert not browser.troubles()
        # the page of the fit, which a quick one leaves before it is read, has what was said
        browser.open(here + job)
        said = browser.evaluate("document.querySelector('[data-announced]').textContent")
        assert "time budget of 6 s" in said
        assert ", 60 rows, " in said
        browser.open(here + "/page/models/houses")
        browser.until(f"{answer}?.startsWith('price')")
        # narrow, and dark: nothing sticks out
        for scheme in ("light", "dark"):
            browser.send("Emulation.setDeviceMetricsOverride", width=400, height=800,
                         deviceScaleFactor=1, mobile=False)  # fmt: skip
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.send("Emulation.setEmulatedMedia", features=media)
            wide = "document.documentElement.scrollWidth <= window.innerWidth"
            assert browser.evaluate(wide), scheme
        unnamed = (
            "[...document.querySelectorAll('input, select, textarea')]"
            ".filter(e => !e.labels.length).length"
        )
        assert browser.evaluate(unnamed) == 0


@pytest.mark.skipif(found() is None, reason="no Chromium on PATH")
def test_a_stream_is_watched_while_it_learns(service, tmp_path):
    here = f"http://127.0.0.1:{service.port}"
    rng = np.random.default_rng(1)

    def batch():
        X = rng.normal(size=(20, 2))
        labels = np.where(X[:, 0] > 0, "up", ESCAPES)
        return {"columns": {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "y": labels.tolist()}}

    with service.client() as client, Browser(tmp_path) as browser:
        about = {"learner": "logistic", "target": "y"}
        made = client.send("PUT", "/models/signals", about)
        assert made.status == 201, made.body
        for i in range(3):
            assert client.learn("signals", batch(), f"first-{i}").status == 200
        browser.open(here + "/signin")
        browser.evaluate(f"document.querySelector('#token').value = {json.dumps(service.token)}")
        browser.evaluate("document.querySelector('main form').requestSubmit(); true")
        browser.until("!!document.querySelector('[data-drop]')")
        browser.open(here + "/page/models/signals")
        words = "document.querySelector('[data-words]').textContent"
        browser.until(f"{words}.includes('60 rows learned')")
        browser.until("!!document.querySelector('[data-picture] polyline')")
        assert client.learn("signals", batch(), "fourth").status == 200
        browser.until(f"{words}.startsWith('80 rows learned')")
        browser.until("document.querySelector('[data-answer]').textContent.includes('probability')")
        assert ESCAPES[1:] in browser.evaluate(
            "document.querySelector('[data-density]').textContent"
        )
        assert not browser.troubles()

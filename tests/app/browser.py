"""A Chromium that is driven over the pipe of its DevTools protocol, with the standard library."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT = 180.0  # seconds for one answer: a loaded machine starts a browser slowly
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def found() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser: ``send`` a command, ``evaluate`` an expression, read the events."""

    def __init__(self, folder):
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()
        self.log = open(folder / "browser.log", "wb")  # noqa: SIM115  # closed with the browser
        # the protocol's pipe is fixed at the descriptors 3 and 4; a shell puts them there
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, found(), *OPTIONS, f"--user-data-dir={folder}/profile"],
            pass_fds=(to_read, to_write),
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self.count, self.rest, self.events, self.session = 0, b"", [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # the group that was begun above
        self.process.wait()
        for end in (self.reader, self.writer):
            os.close(end)
        self.log.close()

    def send(self, method, **params):
        """Send a command and return its result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        number = self.count
        return self.wait(lambda m: m.get("id") == number)["result"]

    def wait(self, wanted):
        """Return the first message that is wanted; the others are kept as events."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            while b"\0" in self.rest:
                line, self.rest = self.rest.split(b"\0", 1)
                message = json.loads(line)
                self.events.append(message)
                if wanted(message):
                    assert "error" not in message, message
                    return message
            ready, _, _ = select.select([self.reader], [], [], 1.0)
            if ready:
                data = os.read(self.reader, 1 << 20)
                assert data, "the browser has ended"
                self.rest += data
        raise TimeoutError("the browser does not answer")

    def open(self, address):
        """Load a page completely; events of pages before, late as they may be, are not its own."""
        loader = self.send("Page.navigate", url=address)["loaderId"]

        def loaded(message):
            about = message.get("params", {})
            return about.get("name") == "load" and about.get("loaderId") == loader

        if not any(loaded(event) for event in self.events):
            self.wait(loaded)
        self.evaluate("Promise.all([...document.images].map(i => i.decode()))")

    def evaluate(self, expression):
        """Return the value of an expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression, seconds=LIMIT):
        """Return the value of an expression once it is true, in the page or in one that follows."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):  # between two pages nobody answers
                if value := self.evaluate(expression):
                    return value
            time.sleep(0.2)
        raise AssertionError(f"{expression}: {self.evaluate('document.body.innerText')}")

    def troubles(self):
        """Return what the console and the log of the page hold."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [e for e in self.events if e.get("method") in kinds]

    def requests(self):
        """Return the addresses that were asked for, those inside the page left out."""
        asked = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        addresses = [e["params"]["request"]["url"] for e in asked]
        return [a for a in addresses if not a.startswith(("data:", "about:"))]

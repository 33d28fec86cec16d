"""
A client of the service
=======================

``mercer serve`` in another terminal, then ``python service_client.py``: batches are learned exactly
once, since one that is not answered is sent again with the same key. No other package is needed.
"""

import json
import time
from pathlib import Path
from urllib.request import Request, urlopen

URL, TOKEN = "http://127.0.0.1:8787/models/rain", Path("models/token").read_text().strip()
HEAD = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


def send(method: str, path: str, body: dict, key: str = "none") -> dict:
    data, head = json.dumps(body).encode(), HEAD | {"Idempotency-Key": key}
    while True:
        try:
            return json.load(urlopen(Request(URL + path, data, head, method=method), timeout=30))
        except OSError as error:  # no answer: if it was learned, the key will say so
            if getattr(error, "code", 503) not in (429, 503, 507):  # refused: the answer says why
                raise SystemExit(error.read().decode()) from None
            time.sleep(float(getattr(error, "headers", {}).get("Retry-After", 1)))


send("PUT", "", {"learner": "logistic", "target": "rain"})
for day in range(3):
    rows = [{"hour": h, "cloud": (h * 7 + day) % 10, "rain": h > 12} for h in range(24)]
    print(send("POST", "/learn", {"rows": rows}, key=f"day-{day}"))
print(send("POST", "/predict", {"rows": [{"hour": 18, "cloud": 9}]}))

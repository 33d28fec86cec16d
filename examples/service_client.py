"""
A client of the service
=======================

``mercer serve`` in another terminal, then ``python service_client.py``: batches are learned exactly
once, since one that is not answered is sent again with the same key. No other package is needed.
"""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

URL, TOKEN = "http://127.0.0.1:8787/models/rain", Path("models/token").read_text().strip()


def send(method: str, path: str, body: dict, key: str = "none", tries: int = 10) -> dict:
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    head["Idempotency-Key"] = key
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), head, method=method)
    for _ in range(tries):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503, 507):  # refused: the answer says why
                raise SystemExit(error.read().decode()) from None
            time.sleep(float(error.headers["Retry-After"]))
        except OSError:  # no answer: if it was learned, the key will say so
            time.sleep(1.0)
    raise SystemExit("the service does not answer")


if __name__ == "__main__":
    send("PUT", "", {"learner": "logistic", "target": "rain"})
    for day in range(3):
        rows = [{"hour": h, "cloud": (h * 7 + day) % 10, "rain": h > 12} for h in range(24)]
        print(send("POST", "/learn", {"rows": rows}, key=f"day-{day}"))
    print(send("POST", "/predict", {"rows": [{"hour": 18, "cloud": 9}]}))

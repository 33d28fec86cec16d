"""A learner that is killed while it writes its checkpoint goes on from the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer import OnlineLogisticClassifier
from tests.estimators.test_online import everything, table

# Learn a second batch and save over the checkpoint, with the process killed at a moment of the
# write: before the bytes are all there, or when they are but the file has no name yet.
KILLED = """
import os, signal, sys
import numpy as np
import mercer
from mercer.persist import container

path, data, moment = sys.argv[1:]
arrays = np.load(data)
model = mercer.load(path).partial_fit(arrays["X"], arrays["codes"])


def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


if moment == "half":
    container.digest_of = killed
else:
    os.replace = killed
mercer.save(model, path)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["half", "unnamed"])
def test_a_kill_while_writing_leaves_the_checkpoint(moment, tmp_path):
    X, y = table(240)
    codes = (y == "c1").astype(int)
    model = OnlineLogisticClassifier(budget=60).partial_fit(X[:120], codes[:120])
    path = tmp_path / "stream.mercer"
    mercer.save(model, path)
    before = path.read_bytes()
    np.savez(tmp_path / "next.npz", X=X[120:], codes=codes[120:])
    given = [str(path), str(tmp_path / "next.npz"), moment]
    done = subprocess.run([sys.executable, "-c", KILLED, *given], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert len(list(tmp_path.glob(".mercer-*.part"))) == 1  # it did die in the middle
    assert path.read_bytes() == before
    again = mercer.load(path).partial_fit(X[120:], codes[120:])
    model.partial_fit(X[120:], codes[120:])
    np.testing.assert_array_equal(everything(again, X), everything(model, X))
    assert again.report_ == model.report_
    mercer.save(again, path)  # and it can be written again
    np.testing.assert_array_equal(everything(mercer.load(path), X), everything(model, X))

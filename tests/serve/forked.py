"""Servers that start at once: a process with everything imported forks one for each line it reads.

``python forked.py FOLDER EVERY`` keeps the models in FOLDER and makes a checkpoint after so many
batches. Each child says its number and its address, and its parent when it has gone.
"""

from __future__ import annotations

import os
import sys

import mercer
import mercer.serve.http.guard
import mercer.serve.http.openapi
import mercer.serve.jobs.bench
from mercer.serve import command
from mercer.serve.models import keeper

OPTIONS = {"host": "127.0.0.1", "port": 0, "token_file": None, "max_body": 16.0, "history": 3}
LIMITS = {"max_rows": 10_000, "max_columns": 100, "max_models": 10}


def main(folder: str, every: str) -> None:
    mercer.OnlineLogisticClassifier().partial_fit([[0.0], [1.0]], ["a", "b"])  # warm
    keeper.EVERY = int(every)
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout.write(f"{os.getpid()}\n")
            sys.stdout.flush()
            command.run(models=folder, **OPTIONS, **LIMITS)
            os._exit(0)
        os.waitpid(child, 0)
        sys.stdout.write("gone\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

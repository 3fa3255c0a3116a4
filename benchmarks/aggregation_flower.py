"""Flower's `aggregate` on arrays in memory: a program of its own, for an interpreter that has Flower.

`python aggregation_flower.py '{"paths": […], "weights": […]}'` prints Flower's version, and then the seconds of one
aggregation for each line of its input. A line that names a file compares the result with that file instead: it prints
the largest difference.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time

import numpy as np
from flwr.server.strategy.aggregate import aggregate


def main() -> None:
    task = json.loads(sys.argv[1])
    results = [
        ([np.fromfile(path, "<f4")], weight) for path, weight in zip(task["paths"], task["weights"], strict=True)
    ]
    print(importlib.metadata.version("flwr"), flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        (merged,) = aggregate(results)
        seconds = time.perf_counter() - begun
        if path := line.strip():
            print(float(np.abs(merged - np.fromfile(path, "<f4")).max()), flush=True)
        else:
            print(seconds, flush=True)


if __name__ == "__main__":
    main()

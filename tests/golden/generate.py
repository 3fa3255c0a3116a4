"""Write the golden files of this folder: `python tests/golden/generate.py`.

Reference code only. Nothing here imports the modules under test: seeds come from `hashlib` and `struct`, merges from
plain Python floats one element at a time, JSON text from Node. The files are shared with the JavaScript tests.
"""

import hashlib
import json
import random
import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def save(name, value):
    (HERE / name).write_text(json.dumps(value, indent=1) + "\n")


def u64(number):
    return struct.pack("<Q", number)


def first64(*parts):
    return struct.unpack("<Q", hashlib.sha256(b"".join(parts)).digest()[:8])[0]


def shuffled(seed, n, count):
    order, c = list(range(count)), 0
    for i in reversed(range(1, count)):
        x = 2**64
        while x >= 2**64 - 2**64 % (i + 1):
            x = first64(u64(seed), b"shuffle", u64(n), u64(c))
            c += 1
        order[i], order[x % (i + 1)] = order[x % (i + 1)], order[i]
    return order


def split(start, count, parts):
    """One unit at a time to the parts in turn, so that it shares no formula with the module under test."""
    sizes = [0] * parts
    for unit in range(count):
        sizes[unit % parts] += 1
    return [[start + sum(sizes[:k]), sizes[k]] for k in range(parts)]


def split_vector(seed, start, count, parts):
    ranges = split(start, count, parts)
    seeds = [seed] + [first64(u64(seed), u64(first)) for first, _ in ranges[1:]]
    return {
        "assignmentSeed": str(seed),
        "unitStart": start,
        "unitCount": count,
        "split": parts,
        "ranges": [{"unitStart": a, "unitCount": n, "seed": str(s)} for (a, n), s in zip(ranges, seeds, strict=True)],
    }


def seeds():
    job_seeds = [0, 1, 42, 2**53 + 1, 2**63, 2**64 - 1]
    dataset = [(1, 0, 0), (1, 1, 0), (2, 0, 0), (7, 39, 0), (7, 39, 64), (10**6, 9999, 2**31)]
    return {
        "jobs": [
            {
                "jobSeed": str(s),
                "initialWeights": str(first64(u64(s), b"weights")),
                "evaluation": str(first64(u64(s), b"evaluation")),
                "experience": [
                    {"unitStart": start, "seed": str(first64(u64(s), u64(start)))} for start in (0, 32, 4096, 2**53)
                ],
                "dataset": [
                    {
                        "round": r,
                        "chunkIndex": c,
                        "recordStart": b,
                        "seed": str(first64(u64(s), u64(r), u64(c), u64(b))),
                    }
                    for r, c, b in dataset
                ],
                "shuffles": [
                    {"n": n, "count": count, "order": shuffled(s, n, count)}
                    for n, count in ((1, 0), (1, 1), (1, 2), (1, 7), (2, 7), (3, 40))
                ],
            }
            for s in job_seeds
        ],
        "splits": [
            split_vector(*case)
            for case in ((5, 0, 32, 1), (5, 32, 32, 4), (2**64 - 1, 100, 10, 3), (7, 0, 5, 5), (7, 2**40, 7, 2))
        ],
        "refusedTexts": [
            "",
            " 42 ",
            "4_2",
            "\u0664\u0662",
            "0x10",
            "-1",
            "1e3",
            "007",
            "18446744073709551616",
            "42\n",
            "+1",
        ],
    }


JSON_VALUES = [
    None, True, False, 0, -0.0, 1.0, -1, 0.1, 1e-7, 1e-6, 0.00001, 123456.789, 1e16, 1e20, 1e21, -1.5e22, 5e-324,
    1.7976931348623157e308, 2**53, 123e-20, 100.0, 12345678901234567890000.0, 4.35, 0.000001234,
    "", "plain", 'quote " and \\ and / slash', "\b\f\n\r\t\x00\x1f\x7f",
    "\u00c9pisodes \u2028 \U0001f600 \ud800 \udc00x",
    [], {}, [[]], [{}], {"a": [], "b": {}, "c": [[]], "d": [{}]}, [1, [2, [3, "x"]]],
    {"b": 1, "10": 2, "9": 3, "a": 4, "01": 5, "-1": 6, "4294967294": 7, "4294967295": 8, "1.5": 9, "0": 10, "": 11},
    {"lr": 1e-7, "decay": 0.00001, "big": 1e16, "huge": 1e21, "neg": -0.0, "one": 1.0, "third": 0.1},
    {"nested": {"deep": [True, None, {"2": 1, "1": 2}]}, "list": [1e-7, "t\tab"]},
]  # fmt: skip

STRINGIFY = """
const sources = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(sources.map((source) => {
  const value = JSON.parse(source);
  return { source, compact: JSON.stringify(value), indented: JSON.stringify(value, null, 2) };
})));
"""


def json_texts():
    """Values are kept as JSON text in `source`, so that no reader between here and the test touches their numbers."""
    sources = json.dumps([json.dumps(value) for value in JSON_VALUES])
    run = subprocess.run(["node", "-e", STRINGIFY], input=sources, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


if __name__ == "__main__":
    random.seed(0)
    save("seeds.json", seeds())
    save("json.json", json_texts())

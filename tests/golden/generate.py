"""Write the golden files of this folder: `python tests/golden/generate.py`.

Reference code only. Nothing here imports the modules under test: seeds come from `hashlib` and `struct`, merges from
plain Python floats one element at a time, JSON text from Node. The files are shared with the JavaScript tests.
"""

import hashlib
import json
import math
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


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def hex32(floats):
    return struct.pack(f"<{len(floats)}f", *floats).hex()


def mean(updates, i):
    total, weights = 0.0, 0.0
    for position, (weight, floats) in enumerate(updates):
        total = weight * floats[i] if position == 0 else total + weight * floats[i]
        weights += weight
    return f32(total / weights)


def power(base, exponent):
    result = base
    for _ in range(exponent - 1):
        result = result * base
    return result


def fedavg(o, start, average, state, t):
    return average, []


def fedavgm(o, start, average, state, t):
    v = o["momentum"] * state[0] + (average - start)
    return start + o["serverLearningRate"] * v, [v]


def fedadam(o, start, average, state, t):
    delta = average - start
    m = o["beta1"] * state[0] + (1 - o["beta1"]) * delta
    v = o["beta2"] * state[1] + (1 - o["beta2"]) * (delta * delta)
    p1, p2 = power(o["beta1"], t), power(o["beta2"], t)
    return start + (o["serverLearningRate"] * (m / (1 - p1))) / (math.sqrt(v / (1 - p2)) + o["epsilon"]), [m, v]


VECTORS = {fedavg: 0, fedavgm: 1, fedadam: 2}


def merge_round(method, options, ranges, start, state, t, updates):
    weights = []
    following = [[] for _ in state]
    for i in range(len(start)):
        average = mean(updates, i)
        weight, values = method(options, start[i], average, [vector[i] for vector in state], t)
        if any(offset <= 4 * i < offset + size for offset, size in ranges):
            weight, values = average, [0.0 for _ in state]
        weights.append(f32(weight))
        for vector, value in zip(following, values, strict=True):
            vector.append(f32(value))
    return weights, following


def merge_vector(method, options, ranges, count, rounds, draw):
    """Each round's updates move away from its start by steps of very unlike sizes."""
    weights = [f32(draw.gauss(0, 1) * 10 ** draw.randint(-3, 3)) for _ in range(count)]
    weights[:4] = [0.0, -0.0, f32(1e-42), f32(-3.5)]
    state = [[0.0] * count for _ in range(VECTORS[method])]
    vector = {
        "method": method.__name__,
        "options": options,
        "averageOnly": ranges,
        "start": hex32(weights),
        "rounds": [],
    }
    for t in range(1, rounds + 1):
        updates = [
            (draw.choice((1, 3, 128, 9973, 2**31 + 1)), [f32(w + draw.gauss(0, 0.1 + abs(w))) for w in weights])
            for _ in range(draw.randint(1, 5))
        ]
        weights, state = merge_round(method, options, ranges, weights, state, t, updates)
        vector["rounds"].append(
            {
                "step": t,
                "updates": [{"weight": weight, "weights": hex32(floats)} for weight, floats in updates],
                "weights": hex32(weights),
                "weightsSha256": hashlib.sha256(bytes.fromhex(hex32(weights))).hexdigest(),
                "state": "".join(hex32(values) for values in state),
            }
        )
    return vector


def aggregation():
    draw = random.Random(20)
    ranges = [(8, 12), (40, 4), (44, 20)]
    momentum = {"serverLearningRate": 1.0, "momentum": 0.9}
    adam = {"serverLearningRate": 0.01, "beta1": 0.9, "beta2": 0.99, "epsilon": 0.001}
    return [
        merge_vector(fedavg, {}, [], 37, 2, draw),
        merge_vector(fedavg, {}, ranges, 37, 1, draw),
        merge_vector(fedavgm, momentum, [], 37, 4, draw),
        merge_vector(fedavgm, {"serverLearningRate": 0.3, "momentum": 0.7}, ranges, 37, 3, draw),
        merge_vector(fedadam, adam, [], 37, 5, draw),
        merge_vector(fedadam, {**adam, "serverLearningRate": 0.1, "epsilon": 1e-8}, ranges, 37, 3, draw),
    ]


if __name__ == "__main__":
    save("seeds.json", seeds())
    save("json.json", json_texts())
    save("aggregation.json", aggregation())

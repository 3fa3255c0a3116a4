"""Write the golden files of this folder: `python tests/golden/generate.py`.

Reference code only. Nothing here imports the modules under test: seeds come from `hashlib` and `struct`, merges from
plain Python floats one element at a time, JSON text from Node. The files are shared with the JavaScript tests.
"""

import hashlib
import json
import math
import random
import statistics
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


def stringify(values):
    """Values are kept as JSON text in `source`, so that no reader between here and the test touches their numbers."""
    sources = json.dumps([json.dumps(value) for value in values])
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


def merged_metrics(parts):
    means = {}
    for name in sorted({name for part in parts for name in part["metrics"]}):
        total, weights = 0.0, 0.0
        for part in parts:
            if part["uniqueExamples"] and name in part["metrics"]:
                total += part["uniqueExamples"] * part["metrics"][name]
                weights += part["uniqueExamples"]
        if weights and math.isfinite(total):
            means[name] = total / weights
    return means


def ranges_vector(name, start, parts):
    """`parts` are (uniqueExamples, weights, metrics, optimizerSteps or None) in range order."""
    described = [
        {
            "weights": hex32(floats),
            "uniqueExamples": unique,
            "examplesProcessed": unique + position,
            "metrics": metrics,
            "optimizerSteps": steps,
        }
        for position, (unique, floats, metrics, steps) in enumerate(parts)
    ]
    counted = [(unique, floats) for unique, floats, _, _ in parts if unique]
    steps = [steps for _, _, _, steps in parts if steps is not None]
    weights = hex32([mean(counted, i) for i in range(len(start))] if counted else start)
    return {
        "name": name,
        "start": hex32(start),
        "parts": described,
        "merged": {
            "weights": weights,
            "sha256": hashlib.sha256(bytes.fromhex(weights)).hexdigest(),
            "uniqueExamples": sum(part["uniqueExamples"] for part in described),
            "examplesProcessed": sum(part["examplesProcessed"] for part in described),
            "metrics": merged_metrics(described),
            "optimizerSteps": sum(steps) if steps else None,
        },
    }


def ranges():
    """How the ranges of a divided assignment become one update."""
    draw = random.Random(21)
    smallest, largest = 2.0**-149, f32(3.4028234e38)
    start = [-0.0, 0.0, smallest, -smallest, 2.0**-126, largest, -largest, f32(0.1)]
    signs = [-0.0, -0.0, 0.0, 3 * smallest, -(2.0**-126), largest, largest, f32(-0.1)]

    def moved(floats):
        return [f32(value + draw.gauss(0, 0.1 + min(abs(value), 1e30))) for value in floats]

    wide = [f32(draw.gauss(0, 1) * 10 ** draw.randint(-6, 6)) for _ in range(61)]
    many = [
        (draw.choice((0, 1, 7, 4096, 2**31 + 1)), moved(wide), {"loss": draw.gauss(0, 1), "r": draw.random()}, k)
        for k in range(9)
    ]
    return [
        ranges_vector(
            "two ranges, metrics that only one of them has",
            [9.0, 9.0],
            [(32, [1.0, 0.0], {"loss": 1.0, "return": 5.0}, 2), (8, [0.0, 1.0], {"loss": 2.0}, 3)],
        ),
        ranges_vector("signs of zero, denormals and the largest", start, [(1, start, {}, None), (3, signs, {}, None)]),
        ranges_vector("the same weights stay to the bit", start, [(7, start, {}, None), (2**52 + 1, start, {}, None)]),
        ranges_vector(
            "a range without a finished unit does not count, in weights and metrics",
            start,
            [(0, moved(start), {"loss": 1e300}, 5), (3, signs, {"loss": -0.0}, None), (0, start, {"only": 1.0}, None)],
        ),
        ranges_vector("nothing finished: the start stays", start, [(0, signs, {"loss": 1.0}, 1), (0, start, {}, 4)]),
        ranges_vector("a metric whose sum overflows is absent", [0.5], [(3, [0.25], {"a": 1e308, "b": 0.1}, 0)] * 2),
        ranges_vector("nine ranges of very unlike sizes", wide, many),
    ]


WEIGHTS = bytes.fromhex("0000803f000000c00000003f00000000")
STATE = bytes.fromhex("0000203f0000003f00000000000000be")
NAN = bytes.fromhex("0000c07f")
MINUS_INFINITY = bytes.fromhex("000080ff")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def metadata(**changes):
    """A version 1 file's metadata; a change to None takes the field out."""
    base = {
        "version": 1,
        "jobId": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "module": {"artifactId": "module", "fileName": "model.wasm", "bytes": 123351, "sha256": "ab" * 32},
        "modelInfo": {"id": "toy", "version": "1.0.0", "name": "\u00c9pisodes \U0001f600", "abiVersion": 1},
        "settings": {"epochs": 3, "localEpochs": 1, "batchSize": 32, "learningRate": 1e-7},
        "round": 3,
        "checkpoint": weights_record(WEIGHTS),
        "metrics": {"values": {"loss": 0.5, "10": 1e21, "9": 39930628055038790.0}, "examplesProcessed": 512},
        "incomplete": False,
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


def weights_record(weights, **changes):
    return {
        "artifactId": "checkpoint-3",
        "kind": "checkpoint",
        "fileName": "checkpoint-3.bin",
        "format": "float32-le",
        "bytes": len(weights),
        "sha256": sha256(weights),
        "round": 3,
    } | changes


def state_record(method, state, **changes):
    return {"method": method, "step": 2, "bytes": len(state), "sha256": sha256(state)} | changes


PROGRESS = {
    "chunkOrder": ["c", "a", "b"],
    "trainedChunkIds": ["c"],
    "remainingChunkIds": ["a@0+64", "b"],
    "remainingWorkItems": {
        "a@0+64": {"partitionId": "a@0+64", "sourceChunkId": "a", "recordStart": 0, "recordCount": 64}
    },
}


def version2(method, state, **changes):
    return metadata(version=2, aggregationState=state_record(method, state, **changes))


def good_checkpoints():
    return {
        "version 1": (metadata(), WEIGHTS, b""),
        "with dataset progress": (metadata(**PROGRESS), WEIGHTS, b""),
        "both lists empty, no metrics": (
            metadata(
                trainedChunkIds=[], remainingChunkIds=[], round=0, checkpoint=weights_record(WEIGHTS, round=0),
                metrics={"values": {}, "examplesProcessed": 0},
            ),
            WEIGHTS, b"",
        ),
        "experience": (
            metadata(
                experience={"jobSeed": str(2**64 - 1), "nextUnit": 2**52},
                auxiliaryWeights={"reward": "cd" * 32, "2": "ef" * 32, "1": "01" * 32},
            ),
            WEIGHTS, b"",
        ),
        "fedavgm": (version2("fedavgm", STATE), WEIGHTS, STATE),
        "fedadam": (version2("fedadam", STATE + STATE), WEIGHTS, STATE + STATE),
    }  # fmt: skip


def bad_weights(weights, **changes):
    return metadata(checkpoint=weights_record(weights, **changes)), weights, b""


def bad_state(method, state, **changes):
    return version2(method, state, **changes), WEIGHTS, state


def bad_checkpoints():
    """(metadata, weights, state) and what the refusal must name."""
    item = PROGRESS["remainingWorkItems"]["a@0+64"]
    lists = {"trainedChunkIds": ["a"], "remainingChunkIds": ["b"]}
    whole = {
        "NaN weight, true hash": (bad_weights(WEIGHTS[:12] + NAN), "The weights must hold finite numbers only"),
        "infinite weight, true hash": (bad_weights(WEIGHTS[:12] + MINUS_INFINITY), "finite numbers only"),
        "big-endian weights": (
            (metadata(), bytes.fromhex("3f800000c00000003f00000000000000"), b""), "must have the SHA-256",
        ),
        "six bytes of weights": (bad_weights(WEIGHTS[2:8]), "checkpoint.bytes"),
        "no weights": (bad_weights(b""), "checkpoint.bytes"),
        "weights shorter than said": (
            (metadata(checkpoint=weights_record(WEIGHTS, bytes=20)), WEIGHTS, b""), "The checkpoint file must be",
        ),
        "other format": (bad_weights(WEIGHTS, format="float32-be"), "checkpoint.format"),
        "hash with a line feed": (bad_weights(WEIGHTS, sha256=sha256(WEIGHTS) + "\n"), "checkpoint.sha256"),
        "other round": (bad_weights(WEIGHTS, round=4), "checkpoint.round"),
        "no checkpoint": ((metadata(checkpoint=None), WEIGHTS, b""), "checkpoint"),
        "NaN state, true hash": (bad_state("fedavgm", STATE[:12] + NAN), "The aggregation state must hold finite"),
        "infinite state": (bad_state("fedavgm", STATE[:12] + MINUS_INFINITY), "finite numbers only"),
        "wrong state hash": (bad_state("fedavgm", STATE, sha256="00" * 32), "aggregationState.sha256"),
        "fedavgm with two vectors": (bad_state("fedavgm", STATE + STATE), "aggregationState.bytes"),
        "fedadam with one vector": (bad_state("fedadam", STATE), "aggregationState.bytes"),
        "fedavg with state": (bad_state("fedavg", STATE), "aggregationState.method"),
        "step 0": (bad_state("fedavgm", STATE, step=0), "aggregationState.step"),
        "step true": (bad_state("fedavgm", STATE, step=True), "aggregationState.step"),
        "version 1 with aggregationState": (
            (version2("fedavgm", STATE) | {"version": 1}, WEIGHTS, STATE), "aggregationState needs version 2",
        ),
        "version 1 with a state block": ((metadata(), WEIGHTS, STATE), "The checkpoint file must be"),
        "version 2 without its state": ((version2("fedavgm", STATE), WEIGHTS, b""), "The checkpoint file must be"),
        "version 2 without aggregationState": ((metadata(version=2), WEIGHTS, b""), "aggregationState"),
        "entry with another partition id": (
            (metadata(**PROGRESS | {"remainingWorkItems": {"b": item}}), WEIGHTS, b""), "partitionId",
        ),
        "entry without records": (
            (metadata(**PROGRESS | {"remainingWorkItems": {"a@0+64": item | {"recordCount": 0}}}), WEIGHTS, b""),
            "recordCount",
        ),
        "unknown work item": (
            (metadata(**lists, remainingWorkItems={"a@0+64": item}), WEIGHTS, b""), "remainingWorkItems",
        ),
        "only trainedChunkIds": ((metadata(trainedChunkIds=["a"]), WEIGHTS, b""), "come together"),
        "only remainingChunkIds": ((metadata(remainingChunkIds=["a"]), WEIGHTS, b""), "come together"),
        "overlap": ((metadata(**lists | {"remainingChunkIds": ["b", "a"]}), WEIGHTS, b""), "must not overlap"),
    }  # fmt: skip
    fields = [
        ("version", [0, 3, True, "1", 1.5, None]),
        ("round", [-1, 1.5, True, "3", None]),
        ("incomplete", [0, "false"]),
        ("jobId", [7, ""]),
        ("metrics", [None, [], {"values": {"loss": "0.5"}, "examplesProcessed": 1}, {"values": {}}]),
        ("modelInfo", [None, []]),
        ("settings", [None, "x"]),
        ("chunkOrder", [["a", "a"], "a", [1]]),
        ("trainedChunkIds", [["a", "a"], {}, [""]]),
        ("remainingWorkItems", [[], {"a": 1}]),
        ("module", [[], {"fileName": "model.wasm", "bytes": 0, "sha256": "ab" * 32}, {"bytes": 1, "sha256": "ab"}]),
        ("auxiliaryWeights", [[], {"reward": "xy"}]),
    ]
    seeds_refused = [str(2**64), "-1", "007", "", 42, None]
    experiences = [{"jobSeed": seed, "nextUnit": 0} for seed in seeds_refused]
    experiences += [{"jobSeed": "1", "nextUnit": unit} for unit in (-1, 1.5, "0", None)]
    for field, values in [*fields, ("experience", experiences)]:
        for value in values:
            whole[f"{field} {json.dumps(value)}"] = ((metadata(**{field: value}), WEIGHTS, b""), field)
    return whole


def checkpoint_file(text, weights, state):
    return struct.pack("<I", len(text.encode())) + text.encode() + weights + state


def checkpoints():
    good, bad = good_checkpoints(), bad_checkpoints()
    texts = stringify([parts[0] for parts in good.values()] + [parts[0] for parts, _ in bad.values()])
    texts = [vector["compact"] for vector in texts]
    vectors = {"good": [], "refused": []}
    for (name, (_, weights, state)), text in zip(good.items(), texts, strict=False):
        vectors["good"].append(
            {
                "name": name,
                "file": checkpoint_file(text, weights, state).hex(),
                "metadata": text,
                "weights": weights.hex(),
                "state": state.hex(),
            }
        )
    for (name, ((_, weights, state), says)), text in zip(bad.items(), texts[len(good) :], strict=True):
        vectors["refused"].append({"name": name, "file": checkpoint_file(text, weights, state).hex(), "says": says})
    return vectors


EVIL = "<img src=x onerror=alert(1)>"


def moment(ms):
    return f"2027-03-04T05:06:{ms // 1000:02d}.{ms % 1000:03d}Z"


def phase(end, name, ms, **details):
    return {"at": moment(end), "event": "phase.finished", "details": {"phase": name, "ms": ms, **details}}


def of_round(number, *spans, **details):
    """Phases of one round from (start, end), in milliseconds."""
    return [phase(end, "training", end - start, round=number, **details) for start, end in spans]


def baseline(events):
    """Medians by the standard library, idle time by looking at every tenth of a millisecond."""
    durations, covered = {}, {}
    for event in events:
        details = event.get("details", {})
        if event["event"] != "phase.finished" or not isinstance(details.get("phase"), str) or details["ms"] < 0:
            continue
        durations.setdefault(details["phase"], []).append(details["ms"])
        if "round" in details:
            end = round(10 * (60_000 * int(event["at"][14:16]) + 1000 * float(event["at"][17:23])))
            place = str([details.get(key) for key in ("from", "jobId", "round")])
            covered.setdefault(place, set()).update(range(end - round(10 * details["ms"]), end))
    idle = []
    for tenths in covered.values():
        at = sorted(tenths)
        idle += [b - a - 1 for a, b in zip(at, at[1:], strict=False) if b - a - 1 > 10]
    phases = {
        name: {
            "count": len(ms),
            "minMs": min(ms),
            "avgMs": round(statistics.fmean(ms), 3),
            "p50Ms": statistics.median_low(ms),
            "maxMs": max(ms),
        }
        for name, ms in sorted(durations.items())
    }
    total = sum(idle) / 10
    return {
        "phases": phases,
        "idle": {
            "samples": len(idle),
            "totalMs": round(total, 3),
            "avgMs": round(total / len(idle), 3) if idle else 0,
        },
    }


def debug_log():
    here, there = {"jobId": "a"}, {"jobId": "b"}
    logs = {
        "nothing": [],
        "no phases": [{"at": moment(0), "event": "connection.made"}, {"at": moment(1), "event": "job.running"}],
        "one phase is no gap": [phase(500, "fedavg", 12.5, round=1)],
        "an even number: the lower of the two in the middle": [phase(9, "fedadam", ms) for ms in (4, 1, 3, 2)],
        "an odd number, thirds": [phase(9, "transfer", ms, direction="send") for ms in (0.1, 0.1, 7.7)],
        "the phases of the founding text and of docs/protocol.md": [
            phase(1000 + 100 * place, name, 10, round=1)
            for place, name in enumerate(
                ["transfer", "indexeddb.checkpoint-save", "training", "transfer", "fedavgm", "checkpoint-save"]
                + ["validation"]
            )
        ],
        "phases that overlap or lie in one another leave no gap": of_round(1, (0, 100), (50, 80), (90, 200)),
        "in any order": of_round(1, (300, 400), (0, 100), (150, 200)),
        "a gap of one millisecond is none, one of two is": of_round(1, (0, 10), (11, 20), (22, 30)),
        "rounds are apart": of_round(1, (0, 10)) + of_round(2, (50, 60)) + of_round(1, (100, 110)),
        "jobs are apart": of_round(1, (0, 10), **here) + of_round(1, (50, 60), **there),
        "clocks are apart": of_round(1, (0, 10), **here) + of_round(1, (50, 60), **here, **{"from": "server"}),
        "phases of no round have no gaps": [phase(10, "transfer", 5), phase(100, "transfer", 5)],
        "only what is measured counts": [
            phase(10, 7, 5, round=1),
            phase(20, "training", -1, round=1),
            {**phase(30, "training", 5, round=1), "event": "phase.started"},
            phase(40, EVIL, 5, round=1),
            phase(50, "__proto__", 5, round=1),
        ],
    }
    token, digest = "Aa0-_" * 8 + "xyz", "0123456789abcdef" * 4
    details = {
        "nothing": ({}, None),
        "values as they are": ({"a": 1.5, "b": True, "c": None, "d": [1, {"e": "f"}]},) * 2,
        "C78: names are text": ({"model": EVIL, "chunkId": EVIL, "reason": f'"{EVIL}'},) * 2,
        "300 characters": ({"reason": "é😀 " * 100},) * 2,
        "longer text is cut": ({"reason": "é😀 " * 100 + "!"}, {"reason": "é😀 " * 100 + "…"}),
        "an invitation link": (
            {"reason": f"see https://weei.test/join/{token}/ now"},
            {"reason": "see https://weei.test/join/…/ now"},
        ),
        "a token inside": ({"a": {"b": [f"Bearer {token}", "\n" + token]}}, {"a": {"b": ["Bearer …", "\n…"]}}),
        "the token of a user": ({"a": f"weei_user_{token}"}, {"a": "…"}),
        "a SHA-256 is no token": ({"sha256": digest},) * 2,
        "a longer run is": ({"a": digest + "0", "b": digest.upper()}, {"a": "…", "b": "…"}),
        "42 characters are none": ({"a": token[1:]},) * 2,
        "much that is nested is cut": (
            {"a": ["x "] * 300},
            {"a": json.dumps(["x "] * 300).replace(", ", ",")[:300] + "…"},
        ),
        "twenty of them": ({f"k{n}": n for n in range(30)}, {f"k{n}": n for n in range(20)}),
    }
    return {
        "logs": [{"name": name, "events": log, "baseline": baseline(log)} for name, log in logs.items()],
        "details": [{"name": name, "given": given, "kept": kept} for name, (given, kept) in details.items()],
    }


if __name__ == "__main__":
    save("debug_log.json", debug_log())
    save("seeds.json", seeds())
    save("json.json", stringify(JSON_VALUES))
    save("aggregation.json", aggregation())
    save("ranges.json", ranges())
    save("checkpoints.json", checkpoints())

"""`memory`: what a training takes of linear memory, and whether a host that plays round after round keeps any of it.

Networks large enough that the 4 MiB below the heap are little beside the weights: weights, gradients and the moments of
AdamW are four times the weights, so that there is one more for everything else.
"""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measured import Duration
from weei_core.abi.host import Answer, ModuleRun
from weei_core.abi.limits import MIB, Limits
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.requests import DataRange, Work
from weei_core.generator.architectures import Architecture, MlpArchitecture, TransformerArchitecture
from weei_core.generator.configuration import ROWS_FORMAT, TOKENS_FORMAT, configured_module, mlp_blob, model_info
from weei_core.generator.tokenizers import Tokenizer

MOST_WEIGHTS = 5
MOST_GROWTH = 4.0
"""MiB of a process from one round to the last: far below one copy of the weights."""
RECORDS = 16
WARM_UP, ROUNDS = 4, 12
MLP = MlpArchitecture.parse({"inputs": 1024, "outputs": 16, "hidden": [2048, 1024], "inputKind": "uint8"})
TRANSFORMER = TransformerArchitecture.parse(
    {"vocabSize": 256, "context": 128, "layers": 3, "heads": 4, "width": 256, "hidden": 1024}
)
NETWORKS: dict[str, Architecture] = {"mlp": MLP, "transformer": TRANSFORMER}
SETTINGS = '{"localEpochs":1,"batchSize":16}'


def measure() -> Iterator[Duration]:
    """Each network in a process of its own, whose memory nothing else has grown before."""
    for name, network in NETWORKS.items():
        command = [sys.executable, "-m", "benchmarks.memory", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parent.parent)
        rounds = Rounds(**json.loads(done.stdout))
        weights = (max(rounds.linear) - network.activation_bytes) / network.weight_bytes
        yield Duration(f"memory_{name}", weights, "times the weights, beside the activations", MOST_WEIGHTS)
        growth = (rounds.linear[-1] - rounds.linear[0]) / MIB
        yield Duration(f"memory_{name}_linear_growth", growth, f"MiB in {ROUNDS} rounds", 0)
        growth = (rounds.resident[-1] - rounds.resident[WARM_UP - 1]) / MIB
        yield Duration(f"memory_{name}_host_growth", growth, f"MiB in {ROUNDS - WARM_UP} rounds", MOST_GROWTH)


class LinearRun(ModuleRun):
    """A run that tells how large its memory is; memory never shrinks, so that this is the most it was."""

    @property
    def linear_bytes(self) -> int:
        return self._guest()._memory.data_len(self._store)

    def weights_of(self, answer: Answer) -> bytes:
        assert answer.weights is not None
        return self._guest().read(answer.weights)


@dataclass(frozen=True)
class Rounds:
    """After each round the linear memory of its instance, and the most that the process had resident, in bytes."""

    linear: list[int]
    resident: list[int]


def play(network: Architecture) -> Rounds:
    """One assignment each round, in a fresh instance, as every host plays them."""
    chunk = _chunk(network)
    engine = make_engine()
    module = compile_module(engine, _module(network, len(chunk)))
    with LinearRun(module, engine, Limits()) as run:
        run.get_model_info()
        weights = run.weights_of(run.create_initial_weights("1"))
    found = Rounds([], [])
    for number in range(1, ROUNDS + 1):
        with LinearRun(module, engine, Limits()) as run:
            run.get_model_info()
            run.load_model(weights)
            work = Work(SETTINGS, round=number, seed=str(number), data=DataRange(_format(network)))
            weights = run.weights_of(run.train(work, chunk))
            found.linear.append(run.linear_bytes)
        found.resident.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return found


def _module(network: Architecture, chunk_bytes: int) -> bytes:
    info = model_info(
        network, id="bench", name="Bench", max_chunk_bytes=chunk_bytes, max_examples_per_chunk=RECORDS, inference={}
    )
    if isinstance(network, MlpArchitecture):
        blob = mlp_blob(network, classes=[str(i) for i in range(network.outputs)])
    else:
        blob = Tokenizer.train([], "bytes").blob()
    return configured_module(network, info, blob, batch_size=RECORDS, max_chunk_bytes=chunk_bytes)


def _format(network: Architecture) -> str:
    return ROWS_FORMAT if isinstance(network, MlpArchitecture) else TOKENS_FORMAT


def _chunk(network: Architecture) -> bytes:
    """`RECORDS` records of numbers from a table of squares."""
    if isinstance(network, MlpArchitecture):
        inputs = bytes(i * i % 251 for i in range(RECORDS * network.inputs))
        classes = struct.pack(f"<{RECORDS}I", *(i % network.outputs for i in range(RECORDS)))
        return struct.pack("<4s5I", b"WROW", 1, RECORDS, network.inputs, 1, 2) + inputs + classes
    length = network.context + 1
    table = b"".join(struct.pack("<IHH", i * length, length, 0) for i in range(RECORDS))
    tokens = struct.pack(f"<{RECORDS * length}H", *(i * i % 251 for i in range(RECORDS * length)))
    return struct.pack("<4s3I", b"WTOK", 1, RECORDS, network.vocab_size) + table + tokens


if __name__ == "__main__":
    print(json.dumps(asdict(play(NETWORKS[sys.argv[1]]))))

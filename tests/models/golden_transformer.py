"""Write `golden_transformer.json`: what PyTorch makes of a small transformer, in float64.

Run `python -m tests.models.golden_transformer` where PyTorch is installed beside requirements-dev.txt; the tests need
only the file. The module under test is not involved: sizes, start and records are below, the order of the records in an
epoch is that of the integer generator in test_digits_reference.py.
"""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")

# Widths that are no multiple of a vector's length, and a head of three values.
SIZES = {"vocabSize": 11, "context": 6, "layers": 2, "heads": 2, "width": 6, "hidden": 10}
PARAMETERS = (11 + 6) * 6 + 2 * (4 * 36 + 2 * 60 + 9 * 6 + 10) + 2 * 6
RECORDS = [
    ([3, 1, 4, 1, 5, 9, 2], 0),
    ([6, 5, 3], 0),
    ([5, 8, 9, 7, 9], 3),
    ([10, 0], 0),
    ([2, 6, 4, 3, 3, 8], 5),
]
SEED = 11
CASES: dict[str, dict[str, Any]] = {
    # epsilon damps what has no gradient but rounding errors, as the keys' biases; each of the three steps is clipped
    "adamw": {
        "model": {
            "optimizer": "adamw",
            "weightDecay": 0.1,
            "clipNorm": 0.3,
            "beta1": 0.8,
            "beta2": 0.95,
            "epsilon": 0.01,
        },
        "settings": {"localEpochs": 3, "batchSize": 5, "learningRate": 0.01},
    },
    "adamw in batches": {
        "model": {"optimizer": "adamw", "weightDecay": 0.0, "clipNorm": 0.0, "epsilon": 0.01},
        "settings": {"localEpochs": 2, "batchSize": 2, "learningRate": 0.003},
    },
    "sgd": {
        "model": {"optimizer": "sgd", "weightDecay": 0.01, "clipNorm": 0.0},
        "settings": {"localEpochs": 1, "batchSize": 5, "learningRate": 0.1},
    },
}


def start() -> list[float]:
    """Weights of every size and sign, without two alike."""
    return [0.4 * math.sin(1.7 * i) + 0.2 * math.cos(0.3 * i * i) for i in range(PARAMETERS)]


def order(epoch: int, previous: list[int]) -> list[int]:
    from tests.models.test_digits_reference import Stream

    shuffled = list(previous)
    Stream(SEED, epoch).shuffle(shuffled)
    return shuffled


def named_parts(torch: Any, block: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The flat block's tensors: the outer ones, and those of each layer."""
    at, width, hidden = 0, SIZES["width"], SIZES["hidden"]

    def part(*shape: int) -> Any:
        nonlocal at
        size = math.prod(shape)
        at += size
        return torch.nn.Parameter(block[at - size : at].reshape(shape).clone())

    outer = {"token": part(SIZES["vocabSize"], width), "position": part(SIZES["context"], width)}
    shapes = {
        "gain1": (width,),
        "bias1": (width,),
        "qkv": (width, 3 * width),
        "qkv_bias": (3 * width,),
        "projection": (width, width),
        "projection_bias": (width,),
        "gain2": (width,),
        "bias2": (width,),
        "hidden": (width, hidden),
        "hidden_bias": (hidden,),
        "out": (hidden, width),
        "out_bias": (width,),
    }
    layers = [{name: part(*shape) for name, shape in shapes.items()} for _ in range(SIZES["layers"])]
    outer |= {"gain": part(width), "bias": part(width)}
    assert at == PARAMETERS
    return outer, layers


def logits(torch: Any, outer: dict[str, Any], layers: list[dict[str, Any]], tokens: Any) -> Any:
    """Of one record: (n, vocabSize)."""
    functional, width, heads = torch.nn.functional, SIZES["width"], SIZES["heads"]
    x = outer["token"][tokens] + outer["position"][: len(tokens)]
    for p in layers:
        normal = functional.layer_norm(x, (width,), p["gain1"], p["bias1"])
        qkv = (normal @ p["qkv"] + p["qkv_bias"]).view(len(tokens), 3, heads, width // heads).permute(1, 2, 0, 3)
        attended = functional.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + attended.transpose(0, 1).reshape(len(tokens), width) @ p["projection"] + p["projection_bias"]
        normal = functional.layer_norm(x, (width,), p["gain2"], p["bias2"])
        inner = functional.gelu(normal @ p["hidden"] + p["hidden_bias"], approximate="tanh")
        x = x + inner @ p["out"] + p["out_bias"]
    return functional.layer_norm(x, (width,), outer["gain"], outer["bias"]) @ outer["token"].T


def batch_loss(torch: Any, outer: dict[str, Any], layers: list[dict[str, Any]], chosen: list[int]) -> tuple[Any, int]:
    """Sum of the targets' losses, and how many they are."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for index in chosen:
        tokens, loss_from = RECORDS[index]
        first = max(1, loss_from)
        scores = logits(torch, outer, layers, torch.tensor(tokens[:-1]))[first - 1 :]
        total = total + torch.nn.functional.cross_entropy(scores, torch.tensor(tokens[first:]), reduction="sum")
        count += len(tokens) - first
    return total, count


def trained(torch: Any, case: dict[str, Any]) -> dict[str, Any]:
    outer, layers = named_parts(torch, torch.tensor(start(), dtype=torch.float64))
    parts = [*list(outer.values())[:2], *(p for layer in layers for p in layer.values()), *list(outer.values())[2:]]
    model, settings = case["model"], case["settings"]
    groups = [
        {"params": [p for p in parts if p.dim() == 2], "weight_decay": model["weightDecay"]},
        {"params": [p for p in parts if p.dim() == 1], "weight_decay": 0.0},
    ]
    rate, norms = settings["learningRate"], []
    if model["optimizer"] == "adamw":
        betas = (model.get("beta1", 0.9), model.get("beta2", 0.999))
        optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, eps=model["epsilon"])
    else:
        optimizer = torch.optim.SGD([{**group, "weight_decay": 0.0} for group in groups], lr=rate)
    loss, targets, indices = 0.0, 0, list(range(len(RECORDS)))
    for epoch in range(1, settings["localEpochs"] + 1):
        indices, loss, targets = order(epoch, indices), 0.0, 0
        for at in range(0, len(indices), settings["batchSize"]):
            total, count = batch_loss(torch, outer, layers, indices[at : at + settings["batchSize"]])
            optimizer.zero_grad()
            (total / count).backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(parts, model["clipNorm"] or math.inf)))
            if model["optimizer"] == "sgd":  # decay as AdamW's, apart from the gradient
                with torch.no_grad():
                    for p in groups[0]["params"]:
                        p.mul_(1 - rate * model["weightDecay"])
            optimizer.step()
            loss, targets = loss + float(total.detach()), targets + count
    weights = torch.cat([p.detach().flatten() for p in parts]).tolist()
    return {"loss": loss / targets, "norms": norms, "weights": [round(w, 9) for w in weights]}


def main() -> None:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    with torch.no_grad():
        outer, layers = named_parts(torch, torch.tensor(start(), dtype=torch.float64))
        total, count = batch_loss(torch, outer, layers, list(range(len(RECORDS))))
    found = {
        "torch": torch.__version__,
        "start": {"loss": float(total) / count, "targets": count},
        "cases": {name: {**case, **trained(torch, case)} for name, case in CASES.items()},
    }
    FILE.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

"""The network of `training_load` in PyTorch on one thread: a program of its own, for an interpreter that has PyTorch.

`python training_torch.py DESCRIPTION.json WEIGHTS STEPS REPEATS` prints a JSON object: `version`, `seconds` of each
stretch of STEPS steps from the same weights, and `losses` of the last stretch.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.projection = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.norm2, self.hidden, self.out = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.hidden(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Its parameters are in the order of the module's weights."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__()
        width = sizes["width"]
        self.token = nn.Embedding(sizes["vocabSize"], width)
        self.position = nn.Embedding(sizes["context"], width)
        self.layers = nn.ModuleList(Layer(width, sizes["heads"], sizes["hidden"]) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position.weight
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.token.weight)

    def load(self, weights: Tensor) -> None:
        """The module has a linear layer's weight as (inputs, outputs), PyTorch the other way round."""
        linear = {id(m.weight) for m in self.modules() if isinstance(m, nn.Linear)}
        at = 0
        with torch.no_grad():
            for parameter in self.parameters():
                part = weights[at : at + parameter.numel()]
                at += parameter.numel()
                shape = parameter.shape
                parameter.copy_(part.view(shape[1], shape[0]).T if id(parameter) in linear else part.view(shape))
        if at != weights.numel():
            raise SystemExit(f"The weights have {weights.numel()} values, the network has {at}.")


def steps(network: Transformer, training: dict[str, Any], records: Tensor, count: int) -> Iterator[Tensor]:
    """The loss of each step, while it is taken."""
    matrices = [p for p in network.parameters() if p.dim() > 1]
    vectors = [p for p in network.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": training["weight_decay"]},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=training["learning_rate"],
        betas=(training["beta1"], training["beta2"]),
        eps=training["epsilon"],
        fused=True,
    )
    inputs, targets = records[:, :-1], records[:, 1:].reshape(-1)
    for _ in range(count):
        loss = F.cross_entropy(network(inputs).flatten(0, 1), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), training["clip_norm"])
        optimizer.step()
        yield loss.detach()


def main() -> None:
    torch.set_num_threads(1)
    description = json.loads(Path(sys.argv[1]).read_text())
    weights = torch.frombuffer(bytearray(Path(sys.argv[2]).read_bytes()), dtype=torch.float32)
    count, repeats = int(sys.argv[3]), int(sys.argv[4])
    records = torch.tensor(description["tokens"])
    network = Transformer(description["sizes"])
    seconds, losses = [], []
    for _ in range(repeats):
        network.load(weights)
        begun = time.perf_counter()
        losses = list(steps(network, description["training"], records, count))
        seconds.append(time.perf_counter() - begun)
    answer = {"version": torch.__version__, "seconds": seconds, "losses": [float(loss) for loss in losses]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

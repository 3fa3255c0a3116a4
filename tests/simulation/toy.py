"""The training that simulated peers do: three weights, as a pure function of the assignment."""

from __future__ import annotations

import hashlib
import struct

FLOATS = 3
WEIGHT_BYTES = 4 * FLOATS
START = struct.pack("<3f", 1.0, -2.0, 0.5)
HUGE = 3e38
LARGE = 2.0**60


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def trained(base: bytes, *, chunk: int, start: int, count: int, seed: int, hot: bool) -> bytes:
    """Two weights go half way to zero plus noise, so that they stay finite for ever. The third is now and then so large
    that its sum, which cancels exactly, tells in which order it was made. A `hot` chunk answers with numbers that are
    finite, but too large for a step of a method with momentum."""
    text = f"{chunk}/{start}+{count}/{seed}".encode()
    noise = struct.unpack("<3h", hashlib.sha256(base + text).digest()[:6])
    weight = unique_examples(count, seed)
    if hot:
        return struct.pack("<3f", *(HUGE if n > 0 else -HUGE for n in noise))
    near = [0.5 * w + n / 32768 for w, n in zip(struct.unpack("<3f", base), noise, strict=True)]
    large = LARGE / weight * (noise[2] % 3 - 1) if weight & (weight - 1) == 0 else 0.0
    return struct.pack("<3f", near[0], near[1], large or noise[2] / 32768)


def unique_examples(count: int, seed: int) -> int:
    """What the module reports: at least 1, at most what was assigned."""
    return max(1, count - seed % 3)


def loss(seed: int) -> float:
    return (seed % 1000) / 1000

"""Where the queue of a pass stands, as compact text on each checkpoint, and the lists of ids it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.domain.queue import Item, item_id
from weei_core import js_json, strict_json


@dataclass(frozen=True)
class Progress:
    pass_no: int
    cursor: int
    requeued: tuple[Item, ...]

    def to_text(self) -> str:
        rows = [
            [i.position, i.chunk_index, i.record_start, i.record_count, int(i.whole)]
            for i in sorted(self.requeued, key=lambda item: item.place)
        ]
        return js_json.dumps({"pass": self.pass_no, "cursor": self.cursor, "requeued": rows})


def _count(value: object) -> int:
    return strict_json.as_int(value, "progress", 0, strict_json.EXACT_INT)


def progress_from(text: str) -> Progress:
    value = strict_json.as_object(strict_json.loads(text), "progress")
    rows = [strict_json.as_list(row, "requeued") for row in strict_json.as_list(value["requeued"], "requeued")]
    items = [[_count(n) for n in row] for row in rows]
    requeued = tuple(Item(p, c, start, count, bool(whole)) for p, c, start, count, whole in items)
    return Progress(_count(value["pass"]), _count(value["cursor"]), requeued)


def trained_share(progress: Progress, count: int) -> float:
    """The share of a pass's `count` chunks that is trained: a cut chunk counts with its last part."""
    return (progress.cursor - len({item.position for item in progress.requeued})) / count


@dataclass(frozen=True)
class ChunkLists:
    trained: list[str]
    remaining: list[str]
    work_items: dict[str, dict[str, object]]


def chunk_lists(progress: Progress, order: Sequence[int], chunk_ids: Mapping[int, str]) -> ChunkLists:
    """The lists of the checkpoint format. A cut chunk is trained when its last part is; until then its parts remain."""
    open_positions = {item.position for item in progress.requeued}
    trained = [chunk_ids[order[p]] for p in range(progress.cursor) if p not in open_positions]
    remaining, parts = [], {}
    for item in progress.requeued:
        chunk_id = chunk_ids[item.chunk_index]
        name = item_id(chunk_id, item)
        remaining.append(name)
        if not item.whole:
            parts[name] = {
                "partitionId": name,
                "sourceChunkId": chunk_id,
                "recordStart": item.record_start,
                "recordCount": item.record_count,
            }
    remaining += [chunk_ids[order[p]] for p in range(progress.cursor, len(order))]
    return ChunkLists(trained, remaining, parts)

"""What is left of a pass, as it travels: pass, cursor, the order it goes by and the ids of requeued items. A list of
all ids with every checkpoint would be megabytes; weei.js expands it with the ids of `chunk_ids`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.models import Checkpoint
from jobs.domain.progress import Progress, progress_from
from jobs.domain.queue import Item, item_id
from jobs.models import Chunk, Job, PassOrder, Requeued
from jobs.services.dealing import order_of
from weei_core.errors import NotFound


def job_queue_json(job: Job) -> dict[str, Any] | None:
    """What no round has taken yet; None for a job without data."""
    rows = Requeued.objects.filter(job=job, skipped=False)
    items = tuple(Item(r.position, r.chunk_index, r.record_start, r.record_count, r.whole) for r in rows)
    return queues_json(job, [(Progress(job.pass_no, job.cursor, items), job.pass_order_id)])[0]


def checkpoint_queues_json(job: Job, checkpoints: Iterable[Checkpoint]) -> list[dict[str, Any] | None]:
    if job.dataset_id is None:
        return [None for _ in checkpoints]
    return queues_json(job, [(progress_from(made.progress_text), made.pass_order_id) for made in checkpoints])


def queues_json(job: Job, places: list[tuple[Progress, int | None]]) -> list[dict[str, Any] | None]:
    """One query, if anything was requeued, however many there are."""
    if job.dataset_id is None:
        return [None] * len(places)
    wanted = {item.chunk_index for progress, _ in places for item in progress.requeued}
    chunks = Chunk.objects.filter(dataset=job.dataset_id, index__in=wanted) if wanted else Chunk.objects.none()
    ids = dict(chunks.values_list("index", "chunk_id"))
    return [
        {
            "pass": progress.pass_no,
            "cursor": progress.cursor,
            "order": order_id,
            "requeued": [item_id(ids[item.chunk_index], item) for item in progress.requeued],
        }
        for progress, order_id in places
    ]


def chunk_ids(job: Job, order_id: int | None) -> list[str]:
    """Ids of all chunks by position in that order of this job; without one, as the manifest lists them."""
    if order_id is not None and not _belongs(job, order_id):
        raise NotFound("The job has no such order of chunks.", field="order")
    if job.dataset is None:
        return []
    ids = dict(Chunk.objects.filter(dataset=job.dataset).values_list("index", "chunk_id"))
    order = None if order_id is None else PassOrder.objects.get(pk=order_id)
    return [ids[index] for index in order_of(order, job.dataset.count)]


def _belongs(job: Job, order_id: int) -> bool:
    at_work = order_id in (job.pass_order_id, job.next_order_id)
    return at_work or Checkpoint.objects.filter(job=job, pass_order=order_id).exists()

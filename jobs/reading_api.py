"""What a job of one's own holds, over the HTTP API. Nothing here changes anything."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Query, Router

from jobs import schemas
from jobs.api import checkpoint_page
from jobs.models import Job
from jobs.selectors import pages, playing
from jobs.selectors.access import job_for_owner
from jobs.selectors.event_log import debug_log, event_json, event_rows
from jobs.selectors.job_json import checkpoint_json, participant_json
from jobs.selectors.queue_json import chunk_ids
from jobs.selectors.series import chart_data
from jobs.selectors.status import participants
from peers.answers import MAX_ID, MAX_INT, MAX_PAGE, PAGE, PAGED, Cursor, Limit, Page, as_made, id_of, number_of, part
from peers.api import Before, person_auth
from weei_core import strict_json

router = Router(tags=["jobs"], auth=person_auth)
router.add_decorator(as_made)
MAX_CHUNK_PAGE = 5_000
RoundNo = Annotated[int, Path(ge=0, le=MAX_INT)]
EventId = Annotated[int | None, Query(ge=0, le=MAX_ID)]
ChunkLimit = Annotated[int, Query(ge=1, le=MAX_CHUNK_PAGE, description="How many at most.")]


def _job(request: HttpRequest, job_id: UUID) -> Job:
    return job_for_owner(request.user, job_id)


@router.get(
    "/jobs/{job_id}/participants",
    response=list[schemas.Participant],
    tags=["participants"],
    openapi_extra=PAGED,
)
def list_participants(request: HttpRequest, job_id: UUID, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """Everybody who was invited or takes part, in the order of their ids."""
    after = id_of(cursor)
    rows = sorted(participants(_job(request, job_id), timezone.now()), key=lambda row: row.peer_id)
    rows = [row for row in rows if after is None or row.peer_id > after]
    further = rows[limit - 1].peer_id.hex if len(rows) > limit else None
    return Page([{"peerId": str(row.peer_id), **participant_json(row)} for row in rows[:limit]], further)


@router.get("/jobs/{job_id}/chunks", response=schemas.ChunkIds, openapi_extra=PAGED)
def list_chunks(
    request: HttpRequest,
    job_id: UUID,
    order: Annotated[int | None, Query(ge=0, le=MAX_INT)] = None,
    limit: ChunkLimit = 1_000,
    cursor: Cursor = None,
) -> Page:
    """Ids of the job's chunks in the order that a queue or a checkpoint names; without one in the manifest's."""
    shown, further = part(chunk_ids(_job(request, job_id), order), limit, cursor)
    return Page({"chunkIds": shown}, further)


@router.get("/jobs/{job_id}/log", response=list[schemas.Event], openapi_extra=PAGED)
def list_events(
    request: HttpRequest,
    job_id: UUID,
    after: EventId = None,
    before: EventId = None,
    limit: Limit = MAX_PAGE,
    cursor: Cursor = None,
) -> Page:
    """Events of the job, oldest first: the newest `limit` of those with ids above `after` and below `before`. The next
    page holds older ones."""
    ends = [end for end in (before, number_of(cursor)) if end is not None]
    rows = event_rows(_job(request, job_id), after=after, before=min(ends, default=None), limit=limit + 1)
    shown = rows[-limit:]
    return Page([event_json(row) for row in shown], shown[0].pk if len(rows) > limit else None)


@router.get("/jobs/{job_id}/debug-log", response=schemas.DebugLog)
def job_debug_log(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """The last events in the shape of a browser's debug log."""
    return debug_log(_job(request, job_id), timezone.now())


@router.get("/jobs/{job_id}/metrics", response=schemas.MetricSeries)
def job_metrics(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """Training and validation metrics by round, as the charts show them."""
    return chart_data(_job(request, job_id)).to_json()


@router.get("/jobs/{job_id}/manifest", response=list[dict[str, Any]] | dict[str, Any])
def job_manifest(request: HttpRequest, job_id: UUID) -> Any:
    """The package (an object) or the list of chunks that the job was made with, for a job that continues from it."""
    job = _job(request, job_id)
    return strict_json.loads(job.package_text or (job.dataset.manifest_text if job.dataset else "[]"))


@router.get(
    "/jobs/{job_id}/checkpoints",
    response=list[schemas.Checkpoint],
    tags=["checkpoints"],
    openapi_extra=PAGED,
)
def list_checkpoints(
    request: HttpRequest, job_id: UUID, before: Before = None, limit: Limit = PAGE, cursor: Cursor = None
) -> Page:
    """Newest first."""
    return checkpoint_page(_job(request, job_id), before, limit, cursor)


@router.get("/jobs/{job_id}/checkpoints/{round_no}", response=schemas.Checkpoint, tags=["checkpoints"])
def get_checkpoint(request: HttpRequest, job_id: UUID, round_no: RoundNo) -> dict[str, Any]:
    """Its file is read at `/bytes/jobs/<jobId>/checkpoints/<round>`."""
    return checkpoint_json(pages.checkpoint_of(_job(request, job_id), round_no))


@router.get("/jobs/{job_id}/checkpoints/{round_no}/files", response=schemas.CheckpointFiles, tags=["checkpoints"])
def checkpoint_files(request: HttpRequest, job_id: UUID, round_no: RoundNo) -> dict[str, Any]:
    """What a device needs to ask the model of this checkpoint."""
    return playing.checkpoint_files(pages.checkpoint_of(_job(request, job_id), round_no))


@router.get("/jobs/{job_id}/checkpoints/{round_no}/ledger", response=schemas.Ledger, tags=["checkpoints"])
def checkpoint_ledger(request: HttpRequest, job_id: UUID, round_no: RoundNo) -> dict[str, Any]:
    """Everything that made a checkpoint, by value or hash."""
    found = pages.checkpoint_of(_job(request, job_id), round_no)
    return strict_json.as_object(strict_json.loads(found.ledger_text), "ledger")

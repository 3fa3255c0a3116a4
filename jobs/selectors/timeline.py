"""The timeline of a round: who did what when, and what the server did then. The number of queries does not grow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from checkpoints.models import Checkpoint, Upload
from diagnostics.live import job_snapshots
from jobs.domain.debug_log import PHASE_FINISHED
from jobs.domain.timeline import Span, Waiting, attempt_spans, ticks, waiting
from jobs.models import Attempt, Job, JobEvent, Round
from jobs.selectors.status import peer_label
from jobs.services.settling import slot_item_id
from weei_core.errors import NotFound

LANES_PER_PAGE = 64
ROUNDS_PER_PAGE = 25
NEWEST_ROUNDS = 6
PHASES = {"checkpoint-save": "save", "validation": "evaluate"}
"""Phases of the server that are not the merge, whose name is that of its method."""
STATES = {"open": "running", "closing": "merging", "failed": "failed", "done": "done"}
"""Of a round → of a badge."""
WORDS = {
    "prepare": "preparing",
    "work": "preparing and training",
    "train": "training",
    "upload": "uploading",
    "wait": "waiting for the others",
    "merge": "merging",
    "save": "saving the checkpoint",
    "evaluate": "measuring the checkpoint",
}


@dataclass(frozen=True)
class Bar:
    """`x` and `width` in percent of the timeline."""

    kind: str
    text: str
    x: float
    width: float


@dataclass(frozen=True)
class Scale:
    """From `start` to `end`, which is later."""

    start: datetime
    end: datetime

    def ms(self, at: datetime) -> float:
        return (at - self.start) / timedelta(milliseconds=1)

    def bar(self, span: Span) -> Bar:
        whole = self.ms(self.end)
        first, last = (min(max(self.ms(at), 0.0), whole) for at in (span.start, span.end))
        return Bar(span.kind, WORDS[span.kind], round(100 * first / whole, 3), round(100 * (last - first) / whole, 3))

    def marks(self) -> list[tuple[float, float]]:
        """Percent, and milliseconds from the start."""
        seconds = self.ms(self.end) / 1000
        return [(round(100 * tick / seconds, 3), tick * 1000) for tick in ticks(seconds) if tick <= 0.96 * seconds]


@dataclass(frozen=True)
class Lane:
    """One try of one device at one item. Times are milliseconds from the start of the round, None: not recorded."""

    peer_id: UUID
    label: str
    item: str
    deal: int
    state: str
    """That of the attempt; of a live one what its device says that it does now."""
    live: bool
    reason: str
    dealt: float
    training: float | None
    uploading: float | None
    ended: float | None
    bars: Sequence[Bar]
    said: str
    """The bars in words."""


@dataclass(frozen=True)
class Step:
    """Something that the server did."""

    name: str
    start: float
    end: float
    bars: Sequence[Bar]
    said: str


@dataclass(frozen=True)
class RoundTimeline:
    round: Round
    live: bool
    lanes: Sequence[Lane]
    attempts: int
    later: int | None
    """Where the next page of lanes begins, or None."""
    steps: Sequence[Step]
    marks: Sequence[tuple[float, float]]
    total: float
    """Milliseconds from the deal to the checkpoint, or to now."""
    waited: Waiting | None
    slowest: str
    checkpoint: bool
    previous: int | None
    next: int | None
    next_opened: float | None
    failures: Sequence[str]


def round_timeline(job: Job, number: int, now: datetime, first: int = 0) -> RoundTimeline:
    """`first` is the lane that the page begins with."""
    near = {at.number: at for at in Round.objects.filter(job=job, number__in=(number - 1, number, number + 1))}
    at = near.get(number)
    if at is None:
        raise NotFound(f"This job has no round {number}.", field="round")
    live = at.state in (Round.State.OPEN, Round.State.CLOSING)
    found = Attempt.objects.filter(slot__round=at).order_by(
        "slot__deal", "slot__position", "slot__record_start", "started_at"
    )
    ends = list(found.values_list("pk", "peer_id", "finished_at", "state"))
    shown = list(found.select_related("slot__chunk", "peer")[first : first + LANES_PER_PAGE])
    received = [(peer, end) for _, peer, end, state in ends if state == Attempt.State.RECEIVED and end]
    # Before the round closes nobody knows who is the last.
    waited = waiting(at.opened_at, [end for _, end in received]) if at.state != Round.State.OPEN else None
    events = _events(job, at)
    closed = at.closing_at or at.done_at or max((end for _, _, end, _ in ends if end), default=at.opened_at)
    until = now if live else max(at.done_at or closed, closed)
    spans = _server_spans(events, until)
    scale = Scale(at.opened_at, max([until, at.opened_at + timedelta(milliseconds=1), *(span.end for span in spans)]))
    held = job_snapshots(job.pk, {attempt.peer_id for attempt in shown})
    uploads = dict(
        Upload.objects.filter(attempt_id__in=[a.pk for a in shown if a.state == Attempt.State.LIVE]).values_list(
            "attempt_id", "created"
        )
    )
    lanes = [_lane(attempt, held, uploads, scale, at.closing_at or now) for attempt in shown]
    following = near.get(number + 1)
    return RoundTimeline(
        round=at,
        live=live,
        lanes=lanes,
        attempts=len(ends),
        later=first + LANES_PER_PAGE if len(ends) > first + LANES_PER_PAGE else None,
        steps=[_step(span, scale) for span in spans],
        marks=scale.marks(),
        total=scale.ms(until),
        waited=waited,
        slowest=_label(received[waited.last][0], lanes) if waited else "",
        checkpoint=Checkpoint.objects.filter(job=job, round=number).exists(),
        previous=number - 1 if number - 1 in near else None,
        next=number + 1 if following else None,
        next_opened=scale.ms(following.opened_at) if following else None,
        failures=[details.get("reason", "") for name, details, _ in events if name == "aggregation.failed"],
    )


Event = tuple[str, dict[str, Any], datetime]


def _events(job: Job, at: Round) -> list[Event]:
    """What the server noted of this round, in order."""
    number = f'"round":{at.number}'
    of_round = Q(details_text__contains=f"{number},") | Q(details_text__contains=f"{number}}}")
    names = (PHASE_FINISHED, "aggregation.failed")
    rows = JobEvent.objects.filter(of_round, job=job, event__in=names).order_by("id")
    return [(name, json.loads(text), moment) for name, text, moment in rows.values_list("event", "details_text", "at")]


def _server_spans(events: Sequence[Event], until: datetime) -> list[Span]:
    """Merging, saving and measuring. A checkpoint that was measured long after its round is not drawn."""
    spans = []
    for name, details, moment in events:
        if name == PHASE_FINISHED:
            begun = moment - timedelta(milliseconds=details["ms"])
            if begun <= until + timedelta(seconds=10):
                spans.append(Span(PHASES.get(details["phase"], "merge"), begun, moment))
    return spans


def _lane(
    attempt: Attempt, held: dict[str, Any], uploads: dict[UUID | None, datetime], scale: Scale, until: datetime
) -> Lane:
    slot, live = attempt.slot, attempt.state == Attempt.State.LIVE
    snapshot = held.get(str(attempt.peer_id), {}).get("snapshot")
    uploading = attempt.uploading_at or uploads.get(attempt.pk)
    ended = attempt.finished_at or until
    waited = until if attempt.state == Attempt.State.RECEIVED else ended
    spans = attempt_spans(attempt.started_at, attempt.training_at, uploading, ended, until=waited)
    return Lane(
        peer_id=attempt.peer_id,
        label=peer_label(attempt.peer, snapshot),
        item=slot_item_id(slot),
        deal=slot.deal,
        state=_stage(attempt, snapshot) if live else attempt.state,
        live=live,
        reason=attempt.reason or slot.error,
        dealt=scale.ms(attempt.started_at),
        training=scale.ms(attempt.training_at) if attempt.training_at else None,
        uploading=scale.ms(uploading) if uploading else None,
        ended=scale.ms(attempt.finished_at) if attempt.finished_at else None,
        bars=[scale.bar(span) for span in spans],
        said=_said(spans, scale),
    )


def _step(span: Span, scale: Scale) -> Step:
    said = _said([span], scale)
    return Step(WORDS[span.kind], scale.ms(span.start), scale.ms(span.end), [scale.bar(span)], said)


def _said(spans: Sequence[Span], scale: Scale) -> str:
    """ "preparing from 0.0 to 1.2 s, training from 1.2 to 8.0 s" """
    parts = [
        f"{WORDS[span.kind]} from {scale.ms(span.start) / 1000:.1f} to {scale.ms(span.end) / 1000:.1f} s"
        for span in spans
    ]
    return ", ".join(parts) or "nothing was recorded"


def _stage(attempt: Attempt, snapshot: dict[str, Any] | None) -> str:
    """What the device says of this very attempt; "assigned" before it says anything."""
    of_it = snapshot and (snapshot.get("assignment") or {}).get("attemptId") == str(attempt.pk)
    return str(snapshot["stage"]) if snapshot and of_it else "assigned"


def _label(peer_id: UUID, lanes: Sequence[Lane]) -> str:
    """Of a participant that may stand on another page."""
    known = next((lane.label for lane in lanes if lane.peer_id == peer_id), None)
    return known or f"Peer {str(peer_id)[:8]}"


@dataclass(frozen=True)
class RoundRow:
    """A round in the list. `bars`: participants at work, all but one of them waiting for the last, and the merge."""

    round: Round
    total: float
    """Milliseconds; to now for one at work."""
    waited: Waiting | None
    bars: Sequence[Bar]
    said: str

    @property
    def word(self) -> str:
        """Of its state, as badges know them."""
        return STATES[self.round.state]


@dataclass(frozen=True)
class RoundPage:
    """Newest first. `older` is the round to ask for next with `before`, or None."""

    rows: Sequence[RoundRow]
    older: int | None
    newest: bool


def round_page(job: Job, now: datetime, before: int | None = None, limit: int = ROUNDS_PER_PAGE) -> RoundPage:
    found = Round.objects.filter(job=job).defer("settings_text")
    if before is not None:
        found = found.filter(number__lt=before)
    rounds = list(found.order_by("-number")[: limit + 1])
    shown = rounds[:limit]
    ends: dict[int, list[datetime]] = {}
    received = Attempt.objects.filter(slot__round__in=[at.pk for at in shown], state=Attempt.State.RECEIVED)
    for round_id, end in received.values_list("slot__round_id", "finished_at"):
        if end is not None:
            ends.setdefault(round_id, []).append(end)
    rows = [_round_row(at, ends.get(at.pk, []), now) for at in shown]
    return RoundPage(rows, shown[-1].number if len(rounds) > len(shown) else None, before is None)


def _round_row(at: Round, ends: Sequence[datetime], now: datetime) -> RoundRow:
    end = at.done_at or now
    scale = Scale(at.opened_at, max(end, at.opened_at + timedelta(milliseconds=1)))
    closed = at.closing_at or end
    waited = waiting(at.opened_at, ends) if at.closing_at else None
    alone = closed - timedelta(seconds=waited.alone) if waited else closed
    parts = [Span("work", at.opened_at, alone), Span("wait", alone, closed), Span("merge", closed, end)]
    drawn = [span for span in parts if span.end > span.start]
    return RoundRow(at, scale.ms(end), waited, [scale.bar(span) for span in drawn], _said(drawn, scale))

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from checkpoints.read_only_admin import ReadOnlyAdmin
from jobs.models import (
    Attempt,
    Chunk,
    Dataset,
    Job,
    JobDraft,
    JobEvent,
    Package,
    PassOrder,
    Requeued,
    Round,
    Slot,
    Sweep,
)
from jobs.services.lifecycle import job_finish, job_pause, job_resume
from weei_core.errors import WeeiError


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin[Job]):
    list_display = ("name", "owner", "status", "round_no", "pass_no", "incomplete", "created")
    list_filter = ("status", "incomplete", "created")
    list_select_related = ("owner",)
    search_fields = ("id", "name", "model_name", "owner__username", "module__sha256")
    actions = ("pause", "resume", "finish")

    @admin.action(description="Pause the selected jobs", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._each(request, queryset, job_pause, "paused")

    @admin.action(description="Resume the selected jobs", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._each(request, queryset, job_resume, "resumed")

    @admin.action(description="Finish the selected jobs", permissions=["change"])
    def finish(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._each(request, queryset, job_finish, "finished")

    def _each(self, request: HttpRequest, jobs: QuerySet[Job], service: Callable[[Job], None], word: str) -> None:
        """One that refuses does not keep the others from it."""
        for job in jobs:
            try:
                service(job)
            except WeeiError as error:
                self.message_user(request, f"{job.name}: {error.message}", messages.ERROR)
            else:
                self.message_user(request, f"{job.name} is {word}.")


@admin.register(JobDraft)
class JobDraftAdmin(ReadOnlyAdmin[JobDraft]):
    list_display = ("id", "owner", "state", "step", "error_code", "created")
    list_filter = ("state", "error_code")
    list_select_related = ("owner",)
    search_fields = ("id", "owner__username", "error")


@admin.register(Package)
class PackageAdmin(ReadOnlyAdmin[Package]):
    list_display = ("source_name", "owner", "task", "state", "step", "error_code", "created")
    list_filter = ("task", "state", "error_code")
    list_select_related = ("owner",)
    search_fields = ("id", "source_name", "owner__username", "error")


@admin.register(Round)
class RoundAdmin(ReadOnlyAdmin[Round]):
    list_display = ("number", "job", "state", "live", "received", "deal", "tries", "opened_at", "done_at")
    list_filter = ("state",)
    list_select_related = ("job",)
    search_fields = ("job__name", "job__id")


@admin.register(Slot)
class SlotAdmin(ReadOnlyAdmin[Slot]):
    list_display = ("id", "round", "position", "chunk", "peer_id", "status", "errors", "started_at")
    list_filter = ("status",)
    list_select_related = ("round", "chunk")
    search_fields = ("round__job__name", "chunk__chunk_id", "peer__id")


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin[Attempt]):
    list_display = ("id", "peer_id", "state", "started_at", "deadline", "unique_examples", "reason")
    list_filter = ("state",)
    search_fields = ("id", "peer__id", "sha256", "reason")


@admin.register(JobEvent)
class JobEventAdmin(ReadOnlyAdmin[JobEvent]):
    list_display = ("at", "job", "event", "details_text")
    list_filter = ("event",)
    list_select_related = ("job",)
    search_fields = ("event", "details_text", "job__name")


@admin.register(Requeued)
class RequeuedAdmin(ReadOnlyAdmin[Requeued]):
    list_display = ("job", "position", "record_start", "record_count", "errors", "held")
    list_filter = ("held",)
    list_select_related = ("job",)
    search_fields = ("job__name", "last_error")


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin[Dataset]):
    list_display = ("id", "count", "examples", "bytes", "created")
    list_filter = ("created",)
    search_fields = ("id", "jobs__name")


@admin.register(Chunk)
class ChunkAdmin(ReadOnlyAdmin[Chunk]):
    list_display = ("chunk_id", "file_name", "dataset_id", "index", "example_count", "bytes")
    list_filter = ("format",)
    search_fields = ("chunk_id", "file_name", "artifact__sha256")


@admin.register(PassOrder)
class PassOrderAdmin(ReadOnlyAdmin[PassOrder]):
    list_display = ("id",)
    search_fields = ("id",)
    exclude = ("body",)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin[Sweep]):
    list_display = ("id", "ended_at")
    search_fields = ("id",)

from __future__ import annotations

from django.contrib import admin

from checkpoints.models import Artifact, Checkpoint, JobArtifact, Upload
from checkpoints.read_only_admin import ReadOnlyAdmin


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin[Artifact]):
    list_display = ("sha256", "bytes", "state", "touched")
    list_filter = ("state",)
    search_fields = ("sha256",)
    exclude = ("body",)


@admin.register(JobArtifact)
class JobArtifactAdmin(ReadOnlyAdmin[JobArtifact]):
    list_display = ("artifact_id", "kind", "file_name", "job")
    list_filter = ("kind",)
    list_select_related = ("job",)
    search_fields = ("artifact__sha256", "file_name", "job__name")


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin[Upload]):
    list_display = ("id", "kind", "file_name", "offset", "length", "done", "touched")
    list_filter = ("kind", "done")
    search_fields = ("sha256", "file_name", "owner__username")


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin[Checkpoint]):
    list_display = ("round", "job", "aggregation_method", "validation", "dataset_progress", "created")
    list_filter = ("validation", "aggregation_method")
    list_select_related = ("job",)
    search_fields = ("job__name", "weights__sha256")

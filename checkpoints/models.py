"""Artifacts (content-addressed bytes), who refers to them, uploads under way, and checkpoints."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class Artifact(models.Model):
    """Bytes named by their SHA-256. A row in state `present` is whole, in the store or (up to 16 KiB) in `body`."""

    class State(models.TextChoices):
        PRESENT = "present"
        DELETING = "deleting"

    sha256 = models.CharField(max_length=64, primary_key=True)
    bytes = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.PRESENT)
    body = models.BinaryField(null=True)
    touched = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.sha256[:12]}… ({self.bytes} bytes)"


class JobArtifact(models.Model):
    """The one lookup: which job refers to which artifact, as what. Reading rights, the collector and the storage
    inventory all come from here."""

    class Kind(models.TextChoices):
        MODULE = "module"
        MANIFEST = "manifest"
        CHUNK = "chunk"
        VALIDATION = "validation"
        AUXILIARY = "auxiliary"
        ARCHIVE = "archive"
        WEIGHTS = "weights"
        STATE = "state"
        UPDATE = "update"

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="artifacts")
    artifact = models.ForeignKey(Artifact, models.PROTECT, related_name="uses")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    file_name = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "artifact", "kind"], name="one_use_per_kind")]
        # For the collector: the uses of an artifact; for a download: (artifact, job); for a merged round: its updates.
        indexes = [models.Index(fields=["artifact", "job"]), models.Index(fields=["job", "kind"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.artifact_id[:12]}…"


class Upload(models.Model):
    """A tus upload under way, or done and not collected yet. Slices lie in the store as uploads/<id>/<offset>."""

    class Kind(models.TextChoices):
        FILE = "file"
        UPDATE = "update"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=6, choices=Kind.choices)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="uploads")
    peer = models.ForeignKey("peers.Peer", models.CASCADE, null=True, related_name="uploads")
    attempt_id = models.UUIDField(null=True)
    report_text = models.TextField(blank=True)
    file_name = models.CharField(max_length=255, blank=True)
    sha256 = models.CharField(max_length=64, db_index=True)
    length = models.BigIntegerField()
    offset = models.BigIntegerField(default=0)
    done = models.BooleanField(default=False)
    created = models.DateTimeField(auto_now_add=True)
    touched = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(owner__isnull=False, kind="file") | Q(peer__isnull=False, kind="update"),
                name="an_upload_has_the_owner_of_its_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.offset}/{self.length}"


class Checkpoint(models.Model):
    """The weights after a round, what made them, and how good they are. Immutable but for the validation fields."""

    class Validation(models.TextChoices):
        NONE = "none"
        DUE = "due"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    UNDER_WAY = Q(validation=Validation.DUE) | Q(validation=Validation.RUNNING)
    """Asked for and not ended; few among many, which an index has."""

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="checkpoints")
    round = models.IntegerField()
    weights = models.ForeignKey(Artifact, models.PROTECT, related_name="+")
    state = models.ForeignKey(Artifact, models.PROTECT, null=True, related_name="+")
    aggregation_method = models.CharField(max_length=8, blank=True)
    aggregation_step = models.IntegerField(default=0)
    progress_text = models.TextField(help_text="Where the queue stood: pass, cursor, requeued items (domain/progress)")
    pass_order = models.ForeignKey("jobs.PassOrder", models.PROTECT, null=True, related_name="+")
    next_order = models.ForeignKey("jobs.PassOrder", models.PROTECT, null=True, related_name="+")
    metrics_text = models.TextField(default="{}")
    examples_processed = models.BigIntegerField(default=0)
    settings_text = models.TextField()
    ledger_text = models.TextField()
    dataset_epoch = models.IntegerField(default=0, help_text="Completed passes at this checkpoint")
    dataset_progress = models.FloatField(default=0, help_text="Passes done, with a fraction")
    remaining_items = models.IntegerField(default=0)
    next_unit = models.BigIntegerField(null=True, help_text="nextUnit after this round; null in dataset jobs")
    validation = models.CharField(max_length=7, choices=Validation.choices, default=Validation.NONE)
    validation_lease = models.DateTimeField(null=True)
    validation_tries = models.IntegerField(default=0)
    validation_text = models.TextField(blank=True, help_text='{"metrics": …, "examplesProcessed": …}')
    validation_error = models.TextField(blank=True)
    created = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "round"], name="one_checkpoint_per_round")]
        # SQLite uses it for questions that say the same words, or one of the two.
        indexes = [
            models.Index(
                fields=["validation"],
                condition=Q(validation="due") | Q(validation="running"),
                name="validation_due_or_running",
            )
        ]
        ordering = ["job", "round"]

    def __str__(self) -> str:
        return f"checkpoint {self.round}"

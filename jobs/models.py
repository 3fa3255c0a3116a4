"""Jobs and their rounds. What is hashed, exported or given to a module is stored as text (…_text), never as JSON
columns, because databases reorder keys and rewrite numbers."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class Dataset(models.Model):
    """The chunk list of a job, inserted before the job appears."""

    manifest_text = models.TextField()
    count = models.IntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    examples = models.BigIntegerField(default=0)
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.count} chunks"


class Chunk(models.Model):
    """One dataset file. `index` is its position in the manifest, from 0; `first_example` counts records before it."""

    dataset = models.ForeignKey(Dataset, models.CASCADE, related_name="chunks")
    index = models.IntegerField()
    chunk_id = models.CharField(max_length=64)
    file_name = models.CharField(max_length=255)
    artifact = models.ForeignKey("checkpoints.Artifact", models.PROTECT, related_name="+")
    bytes = models.BigIntegerField()
    format = models.CharField(max_length=255)
    example_count = models.BigIntegerField()
    first_example = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["dataset", "index"], name="chunk_index_once"),
            models.UniqueConstraint(fields=["dataset", "chunk_id"], name="chunk_id_once"),
        ]
        ordering = ["dataset", "index"]

    def __str__(self) -> str:
        return self.chunk_id


class PassOrder(models.Model):
    """An order of chunk indexes, u32 little-endian by position. Immutable; jobs and checkpoints refer to it."""

    body = models.BinaryField()

    def __str__(self) -> str:
        return f"order of {len(self.body) // 4}"


class JobDraft(models.Model):
    """A job being made. A failure leaves no job, only this row's reason."""

    class State(models.TextChoices):
        QUEUED = "queued"
        PREPARING = "preparing"
        DONE = "done"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="drafts")
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    request_text = models.TextField()
    step = models.CharField(max_length=80, blank=True)
    done = models.IntegerField(default=0)
    total = models.IntegerField(default=0)
    error = models.TextField(blank=True)
    error_field = models.CharField(max_length=255, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    job = models.ForeignKey("Job", models.SET_NULL, null=True, related_name="+")
    tries = models.IntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"draft ({self.state})"


class Package(models.Model):
    """A model package being made: from one data file over what was found in it and what the form says, to the files
    that a job can be made of. One background task at a time works on it; a failure leaves everything before it."""

    class Task(models.TextChoices):
        INSPECT = "inspect"
        PREVIEW = "preview"
        MAKE = "make"

    class State(models.TextChoices):
        QUEUED = "queued"
        WORKING = "working"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="packages")
    source = models.ForeignKey("checkpoints.Artifact", models.PROTECT, related_name="sources")
    source_name = models.CharField(max_length=255)
    source_format = models.CharField(max_length=6, blank=True, help_text="As chosen; empty: told from the file")
    task = models.CharField(max_length=7, choices=Task.choices, default=Task.INSPECT)
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    request_text = models.TextField(blank=True, help_text="What is to be made, as PackageRequest reads it")
    found_text = models.TextField(blank=True, help_text="What the file holds; empty before it was read")
    preview_text = models.TextField(blank=True, help_text='{"request": …, "preview": …}')
    made_text = models.TextField(blank=True, help_text='{"request": …, "settings": …, …}; empty without files')
    step = models.CharField(max_length=80, blank=True)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    error = models.TextField(blank=True)
    error_field = models.CharField(max_length=255, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    tries = models.IntegerField(default=0)
    runs = models.IntegerField(
        default=0, help_text="Tries of all tasks: what an earlier one writes late changes nothing"
    )
    lease_until = models.DateTimeField(null=True)
    created = models.DateTimeField(auto_now_add=True)
    touched = models.DateTimeField(help_text="When somebody last asked something of it")

    class Meta:
        indexes = [models.Index(fields=["owner", "-created"])]

    def __str__(self) -> str:
        return f"package of {self.source_name} ({self.task} {self.state})"


class PackageFile(models.Model):
    """A file of a finished package, in the order of its archive."""

    class Kind(models.TextChoices):
        MODULE = "module"
        MANIFEST = "manifest"
        CHUNK = "chunk"
        VALIDATION = "validation"

    package = models.ForeignKey(Package, models.CASCADE, related_name="files")
    artifact = models.ForeignKey("checkpoints.Artifact", models.PROTECT, related_name="package_uses")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    file_name = models.CharField(max_length=255)
    crc32 = models.BigIntegerField(help_text="As archives of type zip want it")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["package", "file_name"], name="package_file_name_once")]
        ordering = ["package", "id"]

    def __str__(self) -> str:
        return self.file_name


class Job(models.Model):
    class Status(models.TextChoices):
        READY = "ready"
        RUNNING = "running"
        PAUSED = "paused"
        COMPLETED = "completed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        related_name="jobs",
        help_text="null: deleted, and not purged yet. Every reader asks for an owner's jobs, so none finds it",
    )
    name = models.CharField(max_length=120)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.READY)
    finishing = models.BooleanField(default=False, help_text="finish was asked for: merge what was received, then end")
    last_error = models.TextField(blank=True)
    # What runs
    module = models.ForeignKey("checkpoints.Artifact", models.PROTECT, related_name="+")
    module_file_name = models.CharField(max_length=255)
    model_id = models.CharField(max_length=255)
    model_name = models.CharField(max_length=255)
    model_info_text = models.TextField()
    package_text = models.TextField(blank=True)
    ready_key = models.CharField(max_length=64, help_text="Hash over module and auxiliary hashes")
    weight_bytes = models.BigIntegerField()
    settings_text = models.TextField()
    job_seed = models.CharField(max_length=20)
    # Data
    dataset = models.ForeignKey(Dataset, models.PROTECT, null=True, related_name="jobs")
    validation_file = models.ForeignKey("checkpoints.Artifact", models.PROTECT, null=True, related_name="+")
    validation_format = models.CharField(max_length=255, blank=True)
    # Where it stands. The queue is `pass_order` (manifest order when null) from `cursor` on, and the Requeued rows.
    first_round = models.IntegerField(default=0, help_text="Round of the job's own first checkpoint")
    round_no = models.IntegerField(default=0, help_text="The round at work, or the last one; 0 before the first")
    pass_no = models.IntegerField(default=0, help_text="Pass at work, from 0")
    cursor = models.IntegerField(default=0)
    pass_order = models.ForeignKey(
        PassOrder, models.PROTECT, null=True, related_name="+", help_text="null: manifest order"
    )
    next_order = models.ForeignKey(PassOrder, models.PROTECT, null=True, related_name="+", help_text="of later passes")
    shuffles = models.IntegerField(default=0)
    next_unit = models.BigIntegerField(default=0)
    skipped_items = models.IntegerField(default=0)
    incomplete = models.BooleanField(default=False)
    failed_deals = models.IntegerField(default=0, help_text="Deals in a row that ended only in errors")
    coordinator_peer = models.ForeignKey("peers.Peer", models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True, db_index=True)
    deleted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="deleted_jobs")
    deleted_members_text = models.TextField(blank=True, help_text="Who took part, for the undo")

    class Meta:
        indexes = [models.Index(fields=["owner", "-created"])]

    def __str__(self) -> str:
        return self.name


class Requeued(models.Model):
    """An item of this pass that goes before the cursor: lost or failed work, or a part of a chunk that was cut."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="requeued")
    position = models.IntegerField()
    chunk_index = models.IntegerField()
    record_start = models.BigIntegerField(default=0)
    record_count = models.BigIntegerField()
    whole = models.BooleanField(default=True)
    errors = models.IntegerField(default=0)
    held = models.BooleanField(default=False, help_text="Failed too often: waits for retry or skip")
    skipped = models.BooleanField(default=False, help_text="Left out of this pass; checkpoints still say it remains")
    last_error = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "position", "record_start"], name="requeued_once")]
        ordering = ["job", "position", "record_start"]

    def __str__(self) -> str:
        return f"position {self.position}"


class Round(models.Model):
    """`live` and `received` decide closing, and only they (no condition looks at other rows)."""

    class State(models.TextChoices):
        OPEN = "open"
        CLOSING = "closing"
        FAILED = "failed"
        DONE = "done"

    job = models.ForeignKey(Job, models.CASCADE, related_name="rounds")
    number = models.IntegerField()
    state = models.CharField(max_length=7, choices=State.choices, default=State.OPEN)
    live = models.IntegerField(default=0)
    received = models.IntegerField(default=0)
    deal = models.IntegerField(default=0)
    tries = models.IntegerField(default=0)
    merging_at = models.DateTimeField(null=True)
    pass_no = models.IntegerField(default=0)
    settings_text = models.TextField(help_text="Settings of the round's start")
    start_weights = models.CharField(max_length=64)
    opened_at = models.DateTimeField()
    closing_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="round_number_once"),
            models.CheckConstraint(condition=Q(live__gte=0), name="live_is_a_count"),
        ]
        # Said with OR, for SQLite then uses it for questions that name one of the two.
        indexes = [
            models.Index(
                fields=["state"], condition=Q(state="open") | Q(state="closing"), name="rounds_open_or_closing"
            )
        ]
        ordering = ["job", "number"]

    def __str__(self) -> str:
        return f"round {self.number} ({self.state})"


class Slot(models.Model):
    """One item of a round: a chunk, a range of its records, or a range of units. Its place decides the merge order."""

    class Status(models.TextChoices):
        LOADING = "loading"
        TRAINING = "training"
        RECEIVED = "received"
        STOPPED = "stopped"

    round = models.ForeignKey(Round, models.CASCADE, related_name="slots")
    deal = models.IntegerField()
    position = models.IntegerField(help_text="Position in the pass; 0 for ranges of units")
    chunk = models.ForeignKey(Chunk, models.PROTECT, null=True, related_name="+")
    record_start = models.BigIntegerField(default=0, help_text="First record in the chunk, or first unit without one")
    record_count = models.BigIntegerField(default=0, help_text="Records or units assigned")
    whole = models.BooleanField(default=True)
    unit_start = models.BigIntegerField(null=True, help_text="First unit; null in dataset jobs")
    peer = models.ForeignKey("peers.Peer", models.PROTECT, related_name="+")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.LOADING)
    seed = models.CharField(max_length=20)
    split = models.IntegerField(default=1)
    errors = models.IntegerField(default=0)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["round", "position", "record_start"],
                condition=~Q(status="stopped"),
                name="item_once_in_a_round",
            )
        ]
        indexes = [models.Index(fields=["peer", "status", "-finished_at"])]
        ordering = ["round", "position", "record_start"]

    def __str__(self) -> str:
        return f"slot {self.position} ({self.status})"


class Attempt(models.Model):
    """One try of a slot by its peer. Its id fences everything that the peer sends."""

    class State(models.TextChoices):
        LIVE = "live"
        RECEIVED = "received"
        FAILED = "failed"
        EXPIRED = "expired"
        REPLACED = "replaced"
        LEFT = "left"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    slot = models.ForeignKey(Slot, models.CASCADE, related_name="attempts")
    peer = models.ForeignKey("peers.Peer", models.PROTECT, related_name="attempts")
    state = models.CharField(max_length=8, choices=State.choices, default=State.LIVE)
    started_at = models.DateTimeField()
    deadline = models.DateTimeField(help_text="When the slot's time is up, whatever happens")
    training_at = models.DateTimeField(null=True, help_text="When its peer was first heard training, if it was")
    uploading_at = models.DateTimeField(null=True, help_text="When the accepted update began to come")
    finished_at = models.DateTimeField(null=True)
    sha256 = models.CharField(max_length=64, blank=True)
    unique_examples = models.BigIntegerField(default=0)
    report_text = models.TextField(blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slot"], condition=Q(state="live"), name="one_live_attempt_per_slot"),
            models.UniqueConstraint(fields=["peer"], condition=Q(state="live"), name="one_live_attempt_per_peer"),
        ]
        indexes = [models.Index(fields=["state", "deadline"], condition=Q(state="live"), name="live_attempts")]

    def __str__(self) -> str:
        return f"attempt {str(self.id)[:8]} ({self.state})"


class JobEvent(models.Model):
    """What happened, in order: every change of status, and what a coordinator would want to look up."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="events")
    at = models.DateTimeField()
    event = models.CharField(max_length=60)
    details_text = models.TextField(default="{}")

    class Meta:
        indexes = [models.Index(fields=["job", "-id"])]
        ordering = ["id"]

    def __str__(self) -> str:
        return self.event


class Sweep(models.Model):
    """One row: when the last sweep ended. Taken by compare-and-swap, so a gap in the server's life counts once."""

    ended_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"swept until {self.ended_at:%H:%M:%S}"

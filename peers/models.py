"""Peers (browser profiles and agents), their part in jobs, and invitation links."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q


class Peer(models.Model):
    """One browser profile or agent. It is connected while `lease_until` has not passed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    token_hash = models.CharField(max_length=64, unique=True)
    session = models.IntegerField(default=0, help_text="Which tab trains: the newest hello with train")
    label = models.CharField(max_length=120, blank=True, help_text="Browser and system, as the peer says")
    seen_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True, db_index=True)
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"peer {str(self.id)[:8]}"


class Invitation(models.Model):
    """A link. Only the hash of its secret is stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="invitations")
    token_hash = models.CharField(max_length=64, unique=True)
    uses = models.IntegerField(default=0)
    max_uses = models.IntegerField(default=1)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(uses__lte=models.F("max_uses")), name="uses_within_limit")]
        ordering = ["created"]

    def __str__(self) -> str:
        return f"{self.uses} of {self.max_uses} uses"


class Membership(models.Model):
    """A peer's part in a job. `current` is the one job of this browser; `trains` says that it gets assignments."""

    class Role(models.TextChoices):
        PARTICIPANT = "participant"
        COORDINATOR = "coordinator"

    class State(models.TextChoices):
        INVITED = "invited"
        APPROVED = "approved"
        DECLINED = "declined"
        MODEL_LOADED = "modelLoaded"
        MODEL_LOAD_FAILED = "modelLoadFailed"
        LEFT = "left"
        REMOVED = "removed"

    peer = models.ForeignKey(Peer, models.CASCADE, related_name="memberships")
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=11, choices=Role.choices, default=Role.PARTICIPANT)
    state = models.CharField(max_length=15, choices=State.choices, default=State.INVITED)
    invitation = models.ForeignKey(Invitation, models.SET_NULL, null=True, related_name="+")
    current = models.BooleanField(default=False)
    trains = models.BooleanField(default=False)
    accepted_link = models.BooleanField(default=False, help_text="Trains whatever coordinatorParticipates says")
    accepted_at = models.DateTimeField(null=True, help_text="Order of dealing")
    ready_for = models.CharField(max_length=64, blank=True, help_text="Hash over module and auxiliary hashes loaded")
    workers = models.IntegerField(default=1, help_text="Training Workers that this device runs at most")
    load_error = models.TextField(blank=True)
    paused_by_peer = models.BooleanField(default=False)
    paused_by_coordinator = models.BooleanField(default=False)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["peer", "job"], name="one_membership_per_peer_and_job"),
            models.UniqueConstraint(fields=["peer"], condition=Q(current=True), name="one_current_job_per_peer"),
        ]
        indexes = [models.Index(fields=["job", "state"])]

    def __str__(self) -> str:
        return f"{self.role} {self.peer_id} ({self.state})"

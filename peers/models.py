"""Peers (browser profiles and agents), their part in jobs, invitation links, and sites elsewhere."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from peers.domain.origins import canonical_origin
from weei_core.errors import Invalid


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


def validate_origin(text: str) -> None:
    try:
        canonical_origin(text)
    except Invalid as error:
        raise ValidationError(error.message) from None


class SiteOrigin(models.Model):
    """A site elsewhere whose pages may use the API. `origin` stands as browsers send it, and is compared as text."""

    class Audience(models.TextChoices):
        EVERYBODY = "everybody", "everybody, guests too"
        CHOSEN = "chosen", "chosen users, signed in"

    origin = models.CharField(
        max_length=270,
        unique=True,
        validators=[validate_origin],
        help_text="As browsers write it: https://example.org, http://192.168.1.5:8080",
    )
    name = models.CharField(max_length=120, help_text="What people are shown when they are asked to sign in there")
    enabled = models.BooleanField(default=True)
    audience = models.CharField(max_length=9, choices=Audience.choices, default=Audience.EVERYBODY)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "site origin"
        ordering = ["origin"]

    def __str__(self) -> str:
        return self.origin


class SiteUser(models.Model):
    """What one user may do on one site, whatever its audience says."""

    site = models.ForeignKey(SiteOrigin, models.CASCADE, related_name="users")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="sites")
    training = models.BooleanField(default=True, help_text="The widget distributed-training")

    class Meta:
        verbose_name = "user of the site"
        verbose_name_plural = "users of the site"
        constraints = [models.UniqueConstraint(fields=["site", "user"], name="one_row_per_site_and_user")]

    def __str__(self) -> str:
        return f"{self.user_id} on {self.site_id}"


class UserToken(models.Model):
    """What acts for one user: a page of one site, or, without a site, programs of that user (a personal token, which
    has a name). Only the hash of its secret is stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="site_tokens")
    site = models.ForeignKey(SiteOrigin, models.CASCADE, related_name="tokens", null=True)
    name = models.CharField(max_length=80, blank=True, help_text="What the owner of a personal token calls it")
    token_hash = models.CharField(max_length=64, unique=True)
    state_hash = models.CharField(
        max_length=64, unique=True, null=True, help_text="Of the one-time state of a site's request"
    )
    session_hash = models.CharField(max_length=64, help_text="Changes with the password, as sessions do")
    created = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(site__isnull=True, state_hash__isnull=True) & ~Q(name="")
                | Q(site__isnull=False, state_hash__isnull=False, name=""),
                name="of_a_site_or_personal_with_a_name",
            )
        ]
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"token {str(self.id)[:8]}"

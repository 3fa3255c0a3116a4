from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from checkpoints.read_only_admin import ReadOnlyAdmin
from peers.models import Invitation, Membership, Peer
from peers.services.invitations import invitation_revoke


@admin.register(Peer)
class PeerAdmin(ReadOnlyAdmin[Peer]):
    list_display = ("id", "label", "session", "seen_at", "lease_until", "created")
    list_filter = ("created",)
    search_fields = ("id", "label")
    exclude = ("token_hash",)


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin[Invitation]):
    list_display = ("id", "job", "uses", "max_uses", "expires_at", "revoked_at")
    list_filter = ("expires_at", "revoked_at")
    list_select_related = ("job",)
    search_fields = ("id", "job__name")
    exclude = ("token_hash",)
    actions = ("revoke",)

    @admin.action(description="Revoke the selected links", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        for invitation in queryset.select_related("job"):
            invitation_revoke(invitation.job, invitation.pk)
        self.message_user(request, "The links are revoked; those who have joined stay.")


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin[Membership]):
    list_display = ("peer_id", "job", "role", "state", "current", "trains", "accepted_at")
    list_filter = ("role", "state", "current", "trains")
    list_select_related = ("job",)
    search_fields = ("peer__id", "peer__label", "job__name")

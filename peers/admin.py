from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from checkpoints.read_only_admin import ReadOnlyAdmin
from peers.models import Invitation, Membership, Peer, SiteOrigin, SiteUser, UserToken
from peers.services.invitations import invitation_revoke
from peers.services.user_tokens import user_tokens_revoke


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


class SiteUserInline(admin.TabularInline):  # type: ignore[type-arg]  # Only the stubs take arguments.
    model = SiteUser
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(SiteOrigin)
class SiteOriginAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Sites elsewhere that may use the API. Switching one off or deleting it counts from the next request."""

    inlines = (SiteUserInline,)
    list_display = ("origin", "name", "enabled", "audience", "created")
    list_filter = ("enabled", "audience")
    search_fields = ("origin", "name")


@admin.register(UserToken)
class UserTokenAdmin(ReadOnlyAdmin[UserToken]):
    list_display = ("id", "user", "site", "name", "created", "used_at", "expires_at", "revoked_at")
    list_filter = ("site", "expires_at", "revoked_at")
    list_select_related = ("user", "site")
    search_fields = ("id", "user__username", "site__origin", "name")
    exclude = ("token_hash", "state_hash", "session_hash")
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[UserToken]) -> None:
        ended = user_tokens_revoke(queryset, timezone.now())
        self.message_user(request, f"{ended} tokens are revoked.")
